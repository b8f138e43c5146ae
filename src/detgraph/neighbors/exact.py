"""Exact search: every score, a block of rows at a time, so that no n × n matrix is ever held."""

from collections.abc import Callable

import torch
from torch import Tensor

from detgraph.errors import DetError
from detgraph.nn.neighborhood import Rows
from detgraph.nn.semantic import SearchSpace, SemanticOperator

BLOCK_NUMBERS = 2**21  # scores of a block; an operator that is no metric holds some 20 times as many
NOT_FINITE = (
    "the states that select semantic neighbours are not finite: training has diverged. "
    "A smaller training.learning_rate, or training.clip_norm=1, usually helps."
)

ScoreBlock = Callable[[Tensor], Tensor]
"""Rows (block,) to their scores against all nodes (block, nodes); the higher the nearer."""


def metric_scores(vectors: Tensor, metric: str) -> ScoreBlock:
    """Scores under a metric: minus the distance, or the dot product."""

    def score(rows: Tensor) -> Tensor:
        if metric == "dot":
            return vectors[rows] @ vectors.t()
        # Matrix products would round away small L2 distances between states far from the origin.
        mode = "donot_use_mm_for_euclid_dist"
        return -torch.cdist(vectors[rows], vectors, p=1.0 if metric == "l1" else 2.0, compute_mode=mode)

    return score


def search_space(operator: SemanticOperator, states: Tensor) -> SearchSpace | ScoreBlock:
    """Where the best nodes by ``z`` (mean over heads) are found; states are (nodes, heads, channels)."""
    space = operator.search_space(states)
    if space is not None:
        return space
    everything = torch.ones(1, dtype=torch.bool)

    def score(rows: Tensor) -> Tensor:
        z: Tensor = operator(states[None], Rows(everything, everything, rows))  # (1, heads, rows, nodes)
        mean: Tensor = z[0].mean(dim=0)
        return mean

    return score


def exact_search(score: ScoreBlock, rows: Tensor, num_nodes: int, k: int, excluded: "Exclusions") -> Tensor:
    """The ``k`` best nodes for each of ``rows``, best first, -1 where there are fewer; (rows, k)."""
    found = torch.full((len(rows), k), -1, dtype=torch.long)
    width = min(k, num_nodes)
    step = max(1, BLOCK_NUMBERS // max(num_nodes, 1))
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        scores = score(block)
        if not scores.isfinite().all():
            raise DetError(NOT_FINITE)
        row, column = excluded.pairs(block)
        scores[row, column] = -torch.inf
        best = scores.topk(width, dim=1)
        found[start : start + step, :width] = torch.where(best.values > -torch.inf, best.indices, -1)
    return found


class Exclusions:
    """Nodes that may not be fetched for a node: itself and its connected neighbours."""

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        nodes = torch.arange(num_nodes)
        source, target = torch.cat([edge_index.cpu(), nodes.expand(2, -1)], dim=1)
        # Unique, since self-loops and repeated edges must not be counted as further excluded nodes.
        self.keys: Tensor = torch.unique(
            target * num_nodes + source
        )  # (pairs,) sorted by target, then source
        self.members = self.keys % num_nodes
        self.count = torch.bincount(self.keys // num_nodes, minlength=num_nodes)  # (nodes,)
        self.start = self.count.cumsum(0) - self.count
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
