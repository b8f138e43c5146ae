"""Filtered ranking of answers among all entities."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from detgraph.errors import DetError
from detgraph.tasks.contexts import queries


class KnownAnswers:
    """All true answers of every question, in all splits: other true answers do not count as wrong."""

    def __init__(self, triples: NDArray[np.int64], relations: int) -> None:
        asked = queries(triples, relations)
        self.relations = 2 * relations
        key = asked[:, 0] * self.relations + asked[:, 1]
        order = np.argsort(key, kind="stable")
        self.key, self.answer = key[order], asked[order, 2]

    def of(self, asked: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All true answers of each query as (position of the query, entity)."""
        key = asked[:, 0] * self.relations + asked[:, 1]
        start, end = np.searchsorted(self.key, key), np.searchsorted(self.key, key, side="right")
        count = end - start
        row = np.repeat(np.arange(len(asked)), count)
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        return row, self.answer[start[row] + within]


def ranks(scores: Tensor, asked: NDArray[np.int64], known: KnownAnswers) -> Tensor:
    """Realistic filtered rank of each answer: 1 + better ones + half of the others with the same score.

    Args:
        scores: (queries, entities).
        asked: (queries, 3): source, relation, answer.
        known: what is filtered out.
    """
    if not scores.isfinite().all():  # comparisons with NaN are all false: every answer would come first
        raise DetError(
            "the scores of the entities are not finite: training has diverged. "
            "A smaller training.learning_rate, or training.clip_norm=1, usually helps."
        )
    answer = torch.from_numpy(asked[:, 2])
    own = scores.gather(1, answer[:, None])
    row, entity = known.of(asked)
    scores = scores.scatter(1, answer[:, None], -torch.inf)  # the answer does not compete with itself
    scores[torch.from_numpy(row), torch.from_numpy(entity)] = -torch.inf
    better = (scores > own).sum(dim=1)
    equal = (scores == own).sum(dim=1)
    return 1 + better + equal.double() / 2


def summarize(found: Tensor) -> dict[str, float]:
    """Mean reciprocal rank, mean rank and hits."""
    return {
        "mrr": float((1 / found).mean()),
        "mr": float(found.mean()),
        "hits@1": float((found <= 1).double().mean()),
        "hits@3": float((found <= 3).double().mean()),
        "hits@10": float((found <= 10).double().mean()),
    }
