"""Answers to questions (head, relation, ?) and (?, relation, tail), by name."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from detgraph.errors import DetError
from detgraph.tasks.contexts import queries
from detgraph.tasks.entity import EntityTask
from detgraph.tasks.entity_names import Names
from detgraph.tasks.grouped import GroupedTask

Fact = tuple[str, str, str]


class Question(NamedTuple):
    """What is asked: one of head and tail is None."""

    head: str | None
    relation: str
    tail: str | None


class Answer(NamedTuple):
    """An entity that might be meant."""

    rank: int
    id: str
    name: str
    score: float
    known: str  # the split that holds the triple, or ""


class Oracle:
    """A finished run that answers questions.

    Args:
        task: with the chosen weights.
        facts: triples about entities that training did not have; the others of their entities are known.
    """

    def __init__(self, task: EntityTask, facts: Sequence[Fact] = ()) -> None:
        data = task.data
        self.task = task.eval()
        self.entities = Names("entity", data.entities, data.entity_names)
        self.relations = Names("relation", data.relations, data.relation_names)
        count = len(data.relations)
        self.known: dict[tuple[int, int], dict[int, str]] = {}
        for split in ("test", "valid", "train"):  # the last one stays, where several have it
            for source, relation, answer in queries(getattr(data, split), count).tolist():
                self.known.setdefault((source, relation), {})[answer] = split
        self.new: dict[str, tuple[list[int], list[int]]] = {}  # name → relations and neighbours
        for fact in facts:
            self.learn(fact)

    def learn(self, fact: Fact) -> None:
        """Take in a triple with one entity that is not known."""
        head, relation, tail = fact
        number = self.relations.find(relation)
        ends = self.entities.get(head), self.entities.get(tail)
        if (ends[0] is None) == (ends[1] is None):
            which = "none" if ends[0] is None else "both"
            raise DetError(
                f"fact {' – '.join(fact)}: {which} of its entities are known; a fact tells of one new entity "
                "by one that is known."
            )
        if ends[0] is None:
            assert ends[1] is not None
            self.new.setdefault(head, ([], []))[0].append(number)
            self.new[head][1].append(ends[1])
        else:
            self.new.setdefault(tail, ([], []))[0].append(number + len(self.relations.ids))
            self.new[tail][1].append(ends[0])

    @torch.no_grad()
    def answer(self, question: Question, top: int, *, known: bool = False) -> list[Answer]:
        """The best entities for a question.

        Args:
            question: with either a head or a tail.
            top: how many.
            known: also those that training already has.
        """
        if (question.head is None) == (question.tail is None):
            raise DetError(
                "a question has a relation and either a head or a tail: leave out what you ask for."
            )
        relation = self.relations.find(question.relation)
        given = question.head
        if given is None:
            assert question.tail is not None
            given, relation = question.tail, relation + len(self.relations.ids)
        scores, there = self.scores(given, relation)
        answers: list[Answer] = []
        for entity in scores.argsort(descending=True).tolist():
            split = there.get(entity, "")
            if split == "train" and not known:
                continue
            label = self.entities.ids[entity], self.entities.names[entity]
            answers.append(Answer(len(answers) + 1, *label, float(scores[entity]), split))
            if len(answers) == top:
                break
        return answers

    def scores(self, given: str, relation: int) -> tuple[Tensor, dict[int, str]]:
        """Scores of all entities, and the splits of those that are known to be right."""
        source = self.entities.get(given)
        if source is not None:
            asked: NDArray[np.int64] = np.array([[source, relation, 0]])
            block = next(self.task.scored(asked, "test"))
            return block.scores[0], self.known.get((source, relation), {})
        if given not in self.new:
            near = self.entities.near(given)
            hint = f" Similar: {self.entities.listed(near)}." if near else ""
            raise DetError(
                f"no entity is called {given!r}.{hint} To ask about a new one, tell of it with --facts."
            )
        if not isinstance(self.task, GroupedTask):
            raise DetError("only runs with model.composition=complex can read facts about new entities.")
        relations, neighbors = self.new[given]
        scores = self.task.scores_of_new(np.array(relations), np.array(neighbors), relation)
        said = {entity: "train" for by, entity in zip(relations, neighbors, strict=True) if by == relation}
        return scores, said
