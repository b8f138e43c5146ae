"""Paths along training triples: what questions reach, and how the path encoder learns and answers."""

from copy import copy
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from detgraph.kernels.reach import Graph, Reached, Rule, reach
from detgraph.nn.paths import PathEncoder
from detgraph.tasks.contexts import Mask
from detgraph.tasks.groups import Integers, Questions

TOGETHER = 4  # answers of a question that training asks for at a time, at most
RIVALS = 2048  # entities that compete with the answers of a batch, on average
BLOCK = 8  # questions that are answered at a time


class AskedAgain(NamedTuple):
    """Training questions, each with some of its answers, whose edges are not to be seen meanwhile."""

    question: Integers  # (asked,) numbers of questions; one may be here several times
    start: Integers  # (asked + 1,) where the answers of each begin
    answer: Integers  # (answers,) entities

    @classmethod
    def whole(cls, questions: Questions, which: Integers) -> "AskedAgain":
        """Questions with all their answers."""
        place, answer = questions.answers(which)
        return cls(which, np.searchsorted(place, np.arange(len(which) + 1)), answer)


class Paths:
    """The edges of all training triples, both ways, by their source.

    Args:
        questions: of the training triples.
        entities: number of entities.
        relations: number of relations; r + relations is the inverse of r.
        hops: of a path.
        mask: in training, hide the asked triples, or every edge between the source and an asked answer.
    """

    def __init__(self, questions: Questions, entities: int, relations: int, hops: int, mask: Mask) -> None:
        self.questions, self.entities, self.relations, self.hops = questions, entities, relations, hops
        self.hide_pairs = mask == "pair"
        count = np.diff(questions.start)
        source, relation = np.repeat(questions.source, count), np.repeat(questions.relation, count)
        self.graph = Graph.of(source, relation, questions.answer, entities, relations)

    def draw(self, size: int) -> AskedAgain:
        """Random training answers, each with a few others to its question.

        Args:
            size: questions.
        """
        start = self.questions.start
        drawn = torch.randint(len(self.questions.answer), (size,)).numpy()
        question = np.searchsorted(start, drawn, side="right") - 1
        count = start[question + 1] - start[question]
        row, number = np.nonzero(np.arange(TOGETHER) < count[:, None])
        first, of = start[question][row], count[row]
        answer = self.questions.answer[first + (drawn[row] - first + number) % of]
        return AskedAgain(question, np.searchsorted(row, np.arange(size + 1)), answer)

    def reach(
        self,
        source: Integers,
        relation: Integers,
        goals: NDArray[np.bool_] | None = None,
        hidden: AskedAgain | None = None,
    ) -> Reached:
        """What questions reach.

        Args:
            source: (questions,).
            relation: (questions,).
            goals: (entities,) where paths are to end, beside hidden answers; None: anywhere.
            hidden: answers whose edges to the source are not to be seen; None: nothing is hidden.
        """
        inverse = self.graph.inverse.astype(np.int64)[relation]
        both = np.full((2, len(source)), -1) if self.hide_pairs else np.stack([relation, inverse])
        nothing = np.zeros(len(source) + 1, np.int64), np.empty(0, np.int64)
        start, answer = nothing if hidden is None else hidden[1:]
        anywhere = np.ones(self.entities, np.bool_)
        rule = Rule(source, both[0], both[1], start, answer)
        return reach(self.graph, rule, self.hops, anywhere if goals is None else goals)

    def nodes(self, size: int) -> int:
        """How many states a training step has at once, by a random batch of ``size`` questions."""
        asked, goals = self.draw(size), self.rivals()
        source, relation = self.questions.source[asked.question], self.questions.relation[asked.question]
        return sum(int(hop.receivers[-1]) for hop in self.reach(source, relation, goals, asked).hops)

    def rivals(self) -> NDArray[np.bool_]:
        """Who competes with the answers of a batch, (entities,)."""
        return torch.rand(self.entities).numpy() < RIVALS / self.entities

    def loss(self, model: PathEncoder, asked: AskedAgain) -> Tensor:
        """Softmax cross-entropy of answers among random entities, which stand for all.

        Other training answers of a question do not compete.

        Args:
            model: scores what is reached; what is not has score 0.
            asked: a batch.
        """
        questions, device = self.questions, model.out.weight.device
        relation, size = questions.relation[asked.question], len(asked.question)
        rivals, share = self.rivals(), min(1.0, RIVALS / self.entities)
        reached = self.reach(questions.source[asked.question], relation, rivals, asked)
        scores = model(reached, torch.from_numpy(relation).to(device))
        row, known = questions.answers(asked.question)
        by = np.repeat(np.arange(size), np.diff(asked.start))
        # Goals and entities as one number each, ascending, in order to find the second among the first.
        goal = reached.question * self.entities + reached.entity
        competes = rivals[reached.entity] & ~np.isin(goal, row * self.entities + known)
        answer = find(goal, by * self.entities + asked.answer)
        # All that is not reached has a score of 0: it is counted, not listed.
        far = (
            rivals.sum()
            - np.bincount(row, rivals[known], size)
            - np.bincount(reached.question, competes, size)
        )
        of, out, own, question = (
            torch.from_numpy(part).to(device) for part in (reached.question, ~competes, answer, by)
        )
        against = scores.masked_fill(out, -torch.inf)
        top = scores.new_zeros(size).scatter_reduce(0, of, against.detach(), "amax")
        total = torch.from_numpy(far).to(top) * (-top).exp()
        total = total.index_add(0, of, (against - top.index_select(0, of)).exp()) / share
        rest = top + total.clamp(min=1e-30).log()  # (questions,)
        answers = torch.cat([scores, scores.new_zeros(1)])[own]
        return functional.softplus(rest.index_select(0, question) - answers).mean()

    def add(
        self,
        model: PathEncoder,
        scores: Tensor,
        source: Integers,
        relation: Integers,
        own: Integers | None = None,
    ) -> None:
        """Add what paths say to the ``scores`` of questions, in place.

        Args:
            model: scores what is reached.
            scores: (questions, entities).
            source: (questions,).
            relation: (questions,).
            own: (questions,) training questions that are asked again, whose answers stay hidden.
        """
        for low in range(0, len(source), BLOCK):
            part = slice(low, low + BLOCK)
            hidden = None if own is None else AskedAgain.whole(self.questions, own[part])
            reached = self.reach(source[part], relation[part], hidden=hidden)
            found = model(reached, torch.from_numpy(relation[part]).to(scores.device))
            row, entity = (
                torch.from_numpy(of).to(scores.device) for of in (reached.question, reached.entity)
            )
            scores[part].index_put_((row, entity), found, accumulate=True)

    def with_new(self, relations: Integers, neighbors: Integers) -> "Paths":
        """The same with one more entity, the last one, which edges join to neighbours."""
        grown, graph, new = copy(self), self.graph, np.full_like(neighbors, self.entities)
        grown.entities += 1
        grown.graph = Graph.of(
            np.concatenate([np.repeat(np.arange(self.entities), np.diff(graph.first)), new, neighbors]),
            np.concatenate([graph.relation, relations, graph.inverse[relations]]),
            np.concatenate([graph.neighbor, neighbors, new]),
            grown.entities,
            self.relations,
        )
        return grown


def find(among: Integers, wanted: Integers) -> Integers:
    """Where the wanted are among ascending numbers, -1 where they are not."""
    place = np.searchsorted(among, wanted)
    place[place == len(among)] = -1
    return np.where(among[place] == wanted, place, -1) if len(among) else np.full_like(wanted, -1)
