"""Questions about the same entity, in groups that share a sample of its neighbourhood."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from detgraph.tasks.contexts import Mask, queries

Integers = NDArray[np.int64]


class Questions(NamedTuple):
    """All distinct questions (source, relation, ?) with their answers, sorted by source and relation."""

    source: Integers  # (questions,)
    relation: Integers  # (questions,) r + R asks for the head
    start: Integers  # (questions + 1,) where the answers of each begin
    answer: Integers  # (answers,)

    @classmethod
    def of(cls, triples: Integers, relations: int) -> "Questions":
        """Both questions of every triple."""
        asked = np.unique(queries(triples, relations), axis=0)
        first = np.flatnonzero(np.any(np.diff(asked[:, :2], axis=0, prepend=-1) != 0, axis=1))
        return cls(asked[first, 0], asked[first, 1], np.append(first, len(asked)), asked[:, 2])

    def answers(self, which: Integers) -> tuple[Integers, Integers]:
        """The answers of some questions: (place of the question in ``which``, entity)."""
        count = self.start[which + 1] - self.start[which]
        place = np.repeat(np.arange(len(which)), count)
        before = np.cumsum(count) - count
        return place, self.answer[np.arange(len(place)) - np.repeat(before - self.start[which], count)]


def group(source: Integers, size: int, rng: np.random.Generator | None) -> Integers:
    """Put questions about the same source into groups: (groups, size) numbers of questions, -1 = none.

    Args:
        source: (questions,) what each question is about.
        size: most questions of a group.
        rng: draws who shares a group, and the order of the groups; None: as they come.
    """
    key = np.arange(len(source)) if rng is None else rng.permutation(len(source))
    order = np.lexsort((key, source))
    of = source[order]
    place = np.arange(len(of)) - np.searchsorted(of, of)  # among the questions about the same source
    new = (place % size) == 0
    number = np.cumsum(new) - 1
    groups = np.full((int(new.sum()), size), -1, np.int64)
    groups[number, place % size] = order
    return groups if rng is None else groups[rng.permutation(len(groups))]


class Surroundings:
    """Training edges by source, sampled for groups of questions that must not see their own answers.

    Args:
        questions: of the training triples, which are the edges that can be seen.
        entities: number of entities.
        size: neighbours given to a group at most.
        mask: in training, hide the asked triples, or every edge between a source and an asked answer.
    """

    def __init__(self, questions: Questions, entities: int, size: int, mask: Mask) -> None:
        self.questions, self.size, self.hide_pairs = questions, size, mask == "pair"
        self.first = np.searchsorted(questions.source, np.arange(entities + 1))  # of each entity's questions

    def of(self, source: Integers, hidden: Integers | None, seed: int) -> tuple[Integers, Integers]:
        """Neighbours and relations of each group's source, (groups, size), -1 = none.

        Args:
            source: (groups,).
            hidden: (groups, size of a group) training questions whose answers are not to be seen, -1 = none.
            seed: of the sample.
        """
        neighbors, relations = (np.full((len(source), self.size), -1, np.int64) for _ in range(2))
        if not self.size:
            return neighbors, relations
        nothing = np.full((len(source), 0), -1, np.int64)
        questions = self.questions
        draw(
            source,
            nothing if hidden is None else hidden,
            self.first,
            questions.relation,
            questions.start,
            questions.answer,
            self.hide_pairs,
            np.uint64(seed),
            neighbors,
            relations,
        )
        return neighbors, relations


@njit(cache=True, error_model="numpy")
def scramble(x: np.uint64) -> np.uint64:
    """A number that looks random (splitmix64)."""
    x += np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, error_model="numpy")
def draw(
    source: Any,
    hidden: Any,
    first: Any,
    relation: Any,
    start: Any,
    answer: Any,
    hide_pairs: bool,
    seed: Any,
    neighbors: Any,
    relations: Any,
) -> None:
    """A uniform sample of each source's edges that are not hidden.

    Edge e of question q leads from its source to ``answer[e]``. A number for each edge decides; where nothing
    is hidden it depends on the seed alone, so that a source has the same sample in any batch.
    """
    size = neighbors.shape[1]
    asked = np.full(first[-1], -1, np.int64)  # the group that asks each question
    unseen = np.full(len(first) - 1, -1, np.int64)  # the group from which each entity is hidden
    best = np.empty(size, np.uint64)
    for g in range(len(source)):
        for q in hidden[g]:
            if q >= 0:
                asked[q] = g
                for e in range(start[q], start[q + 1]):
                    if hide_pairs or answer[e] == source[g]:  # a triple to itself is also its own inverse
                        unseen[answer[e]] = g
        own_seed = scramble(seed + np.uint64(g)) if hidden.shape[1] else seed
        count = 0
        for q in range(first[source[g]], first[source[g] + 1]):
            if asked[q] == g:
                continue
            for e in range(start[q], start[q + 1]):
                if unseen[answer[e]] == g:
                    continue
                key = scramble(own_seed + np.uint64(e))
                if count < size:
                    at = count
                    count += 1
                else:
                    at = 0  # the worst so far
                    for other in range(1, size):
                        if best[other] > best[at]:
                            at = other
                    if key >= best[at]:
                        continue
                best[at], neighbors[g, at], relations[g, at] = key, answer[e], relation[q]
