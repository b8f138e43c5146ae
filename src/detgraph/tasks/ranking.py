"""Filtered ranking of answers among all entities."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from detgraph.errors import DetError
from detgraph.kernels.ranks import rivals
from detgraph.tasks.contexts import queries


class KnownAnswers:
    """All true answers of every question, in all splits: other true answers do not count as wrong."""

    def __init__(self, triples: NDArray[np.int64], relations: int) -> None:
        asked = np.unique(queries(triples, relations), axis=0)  # a triple may be in two splits
        self.relations = 2 * relations
        self.key, self.answer = asked[:, 0] * self.relations + asked[:, 1], asked[:, 2]

    def of(self, asked: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All true answers of each query, (queries + 1,) where they begin and the entities."""
        key = asked[:, 0] * self.relations + asked[:, 1]
        first, end = np.searchsorted(self.key, key), np.searchsorted(self.key, key, side="right")
        start = np.concatenate([[0], np.cumsum(end - first)])
        within = np.arange(start[-1]) - np.repeat(start[:-1] - first, end - first)
        return start, self.answer[within]


def ranks(
    scores: Tensor, asked: NDArray[np.int64], known: KnownAnswers, row: NDArray[np.int64] | None = None
) -> Tensor:
    """Realistic filtered rank of each answer: 1 + better ones + half of the others with the same score.

    Args:
        scores: (rows, entities).
        asked: (queries, 3): source, relation, answer.
        known: what is filtered out.
        row: (queries,) the row of scores of each query; default: one after the other.
    """
    if not scores.isfinite().all():  # comparisons with NaN are all false: every answer would come first
        raise DetError(
            "the scores of the entities are not finite: training has diverged. "
            "A smaller training.learning_rate, or training.clip_norm=1, usually helps."
        )
    rows = np.arange(len(asked)) if row is None else row
    better, equal = rivals(scores.detach().cpu().float().numpy(), rows, asked[:, 2], *known.of(asked))
    return torch.from_numpy(1 + better + equal / 2)


@dataclass(frozen=True)
class Ranking:
    """The rank of every answer of a split, and what was asked."""

    asked: NDArray[np.int64]  # (queries, 3): source, relation (r + R asks for the head), answer
    ranks: Tensor  # (queries,)
    relations: int  # R
    without_votes: Tensor | None = None  # (queries,) ranks by the model's scores alone, where others vote

    def metrics(self) -> dict[str, float]:
        """Over all queries; where there are votes also without them."""
        alone = {} if self.without_votes is None else summarize(self.without_votes)
        return summarize(self.ranks) | {f"{name} without votes": value for name, value in alone.items()}

    def by_direction(self) -> dict[str, dict[str, float]]:
        """Of questions for tails, and of those for heads."""
        heads = torch.from_numpy(self.asked[:, 1] >= self.relations)
        parts = {"tail": self.ranks[~heads], "head": self.ranks[heads]}
        return {name: summarize(part) for name, part in parts.items() if len(part)}

    def by_relation(self) -> dict[int, dict[str, float]]:
        """Of both directions of each relation, with the number of queries."""
        relation = self.asked[:, 1] % self.relations
        parts = {int(one): self.ranks[torch.from_numpy(relation == one)] for one in np.unique(relation)}
        return {one: {"queries": float(len(part)), **summarize(part)} for one, part in parts.items()}


def summarize(found: Tensor) -> dict[str, float]:
    """Mean reciprocal rank, mean rank and hits."""
    return {
        "mrr": float((1 / found).mean()),
        "mr": float(found.mean()),
        "hits@1": float((found <= 1).double().mean()),
        "hits@3": float((found <= 3).double().mean()),
        "hits@10": float((found <= 10).double().mean()),
    }
