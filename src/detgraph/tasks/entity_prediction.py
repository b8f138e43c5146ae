"""Answers to questions (head, relation, ?) and (?, relation, tail), by name."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
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


class Asked(NamedTuple):
    """A question understood: the entity's number, or the name of a new one, and r, or r + R for heads."""

    entity: int | str
    relation: int


class Oracle:
    """A finished run that answers questions.

    Args:
        task: with the chosen weights.
    """

    def __init__(self, task: EntityTask) -> None:
        data = task.data
        self.task = task.eval()
        self.entities = Names("entity", data.entities, data.entity_names)
        self.relations = Names("relation", data.relations, data.relation_names)
        count = len(data.relations)
        self.known: dict[tuple[int | str, int], dict[int, str]] = {}
        for split in ("test", "valid", "train"):  # the last one stays, where several have it
            for source, relation, answer in queries(getattr(data, split), count).tolist():
                self.known.setdefault((source, relation), {})[answer] = split
        # The table has a row for entities of valid and test alone, too, but nothing was learned of them.
        self.trained = set(data.train[:, [0, 2]].ravel().tolist())
        self.asked_before = set(data.train[:, 1].tolist())  # relations
        self.new: dict[int | str, tuple[list[int], list[int]]] = {}  # entity → relations and neighbours

    def entity(self, text: str) -> int | str:
        """The number of an entity; its name, in one spelling, if the data does not have it."""
        number = self.entities.get(text)
        return text.strip().casefold() if number is None else number

    def learn(self, fact: Fact) -> None:
        """Take in a triple with one entity that training did not have."""
        relation = self.relations.find(fact[1])
        head, tail = self.entity(fact[0]), self.entity(fact[2])
        if (head in self.trained) == (tail in self.trained):
            which = "both" if head in self.trained else "none"
            hints = [] if which == "both" else [self.entities.hint(text) for text in (fact[0], fact[2])]
            raise DetError(
                f"fact {' – '.join(fact)}: {which} of its entities are known from training; a fact tells of "
                f"one new entity by one that is known.{''.join(dict.fromkeys(hints))}"
            )
        if head in self.trained:
            head, relation, tail = tail, relation + len(self.relations.ids), head
        assert isinstance(tail, int)
        relations, neighbors = self.new.setdefault(head, ([], []))
        if (relation, tail) not in zip(relations, neighbors, strict=True):  # as in training, none twice
            relations.append(relation)
            neighbors.append(tail)

    def understand(self, question: Question) -> Asked:
        """Which entity and relation are meant.

        Raises:
            DetError: if that is not clear, or nothing is known of the entity.
        """
        if (question.head is None) == (question.tail is None):
            raise DetError(
                "a question has a relation and either a head or a tail: leave out what you ask for."
            )
        relation = self.relations.find(question.relation)
        if relation not in self.asked_before:
            raise DetError(f"no training triple has {question.relation!r}, so the run knows nothing of it.")
        given = question.head
        if given is None:
            assert question.tail is not None
            given, relation = question.tail, relation + len(self.relations.ids)
        entity = self.entity(given)
        if entity not in self.trained:
            if entity not in self.new:
                reason = (
                    f"no training triple has {given!r}, so the run knows nothing of it."
                    if isinstance(entity, int)
                    else f"no entity is called {given!r}.{self.entities.hint(given)}"
                )
                raise DetError(f"{reason} To ask about a new one, tell of it with --facts.")
            if not isinstance(self.task, GroupedTask):
                raise DetError("only runs with model.composition=complex can read facts about new entities.")
        return Asked(entity, relation)

    @torch.no_grad()
    def answers(self, asked: Sequence[Asked], top: int, *, known: bool = False) -> list[list[Answer]]:
        """The best entities for each question.

        Args:
            asked: by `understand`.
            top: how many.
            known: also those that training already has.
        """
        found: dict[Asked, list[Answer]] = {}
        old = [one for one in dict.fromkeys(asked) if one.entity in self.trained]
        queried = np.array([(*one, 0) for one in old], dtype=np.int64)
        for block in self.task.scored(queried, "test") if old else ():
            for (source, relation, _), row in zip(block.asked.tolist(), block.row.tolist(), strict=True):
                there = self.known.get((source, relation), {})
                found[Asked(source, relation)] = self.best(block.scores[row], there, top, known=known)
        for one in dict.fromkeys(asked):
            if one.entity in self.new:
                found[one] = self.best(*self.scores_of_new(one), top, known=known)
        return [found[one] for one in asked]

    def scores_of_new(self, asked: Asked) -> tuple[Tensor, dict[int, str]]:
        """Scores of all entities from facts alone, and the splits of those that are known to be right."""
        assert isinstance(self.task, GroupedTask)
        relations, neighbors = self.new[asked.entity]
        scores = self.task.scores_of_new(np.array(relations), np.array(neighbors), asked.relation)
        pairs = zip(relations, neighbors, strict=True)
        told = {entity: "train" for relation, entity in pairs if relation == asked.relation}
        return scores, self.known.get(asked, {}) | told

    def best(self, scores: Tensor, there: dict[int, str], top: int, *, known: bool) -> list[Answer]:
        """The answers with the highest scores."""
        hidden = [] if known else [entity for entity, split in there.items() if split == "train"]
        scores = scores.index_fill(
            0, torch.tensor(hidden, dtype=torch.long, device=scores.device), -torch.inf
        )
        best = scores.topk(min(top, len(scores) - len(hidden)))
        names = self.entities
        return [
            Answer(rank, names.ids[entity], names.names[entity], score, there.get(entity, ""))
            for rank, (entity, score) in enumerate(
                zip(best.indices.tolist(), best.values.tolist(), strict=True), start=1
            )
        ]
