"""Exact search: every score, a block of rows at a time, so that no n × n matrix is ever held."""

from collections.abc import Callable

import torch
from torch import Tensor

BLOCK_NUMBERS = 2**24  # scores held at once: 64 MB in float32

ScoreBlock = Callable[[Tensor], Tensor]
"""Rows (block,) to their scores against all nodes (block, nodes); the higher the nearer."""


def metric_scores(vectors: Tensor, metric: str) -> ScoreBlock:
    """Scores under a metric: minus the distance, or the dot product."""

    def score(rows: Tensor) -> Tensor:
        if metric == "dot":
            return vectors[rows] @ vectors.t()
        return -torch.cdist(vectors[rows], vectors, p=1.0 if metric == "l1" else 2.0)

    return score


def exact_search(score: ScoreBlock, rows: Tensor, num_nodes: int, k: int, excluded: "Exclusions") -> Tensor:
    """The ``k`` best nodes for each of ``rows``, best first, -1 where there are fewer; (rows, k)."""
    found = torch.full((len(rows), k), -1, dtype=torch.long)
    width = min(k, num_nodes)
    step = max(1, BLOCK_NUMBERS // max(num_nodes, 1))
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        scores = score(block)
        row, column = excluded.pairs(block)
        scores[row, column] = -torch.inf
        best = scores.topk(width, dim=1)
        found[start : start + step, :width] = torch.where(best.values > -torch.inf, best.indices, -1)
    return found


class Exclusions:
    """Nodes that may not be fetched for a node: itself and its connected neighbours."""

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        nodes = torch.arange(num_nodes)
        target = torch.cat([edge_index[1].cpu(), nodes])
        order = target.argsort(stable=True)
        self.members = torch.cat([edge_index[0].cpu(), nodes])[order]
        self.count = torch.bincount(target, minlength=num_nodes)  # (nodes,)
        self.start = self.count.cumsum(0) - self.count
        self.keys = (target[order] * num_nodes + self.members).sort().values
        self.num_nodes = num_nodes

    def pairs(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """All excluded pairs of ``rows`` as (position in rows, node)."""
        count = self.count[rows]
        position = torch.arange(len(rows)).repeat_interleave(count)
        within = torch.arange(len(position)) - (count.cumsum(0) - count).repeat_interleave(count)
        return position, self.members[self.start[rows].repeat_interleave(count) + within]

    def contains(self, rows: Tensor, candidates: Tensor) -> Tensor:
        """Whether each of ``candidates`` (rows, c) is excluded for its row; True also for -1."""
        wanted = rows[:, None] * self.num_nodes + candidates
        place = torch.searchsorted(self.keys, wanted).clamp(max=len(self.keys) - 1)
        return (self.keys[place] == wanted) | (candidates < 0)
