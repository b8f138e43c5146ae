"""One call to find semantic neighbours, whatever the operator, the size and the backend."""

from typing import Literal

import torch
from torch import Tensor

from detgraph.errors import DetError
from detgraph.neighbors.exact import NOT_FINITE, Exclusions, ScoreBlock, exact_search, metric_scores
from detgraph.neighbors.faiss_search import faiss_search
from detgraph.nn.semantic import SearchSpace

Backend = Literal["auto", "exact", "flat", "ivf", "hnsw"]

FLAT_UP_TO = 10_000  # nodes; a full scan of so many takes about a second


def choose_backend(num_nodes: int) -> Backend:
    """``auto``: a full scan of small graphs, inverted lists (n√n, repeatable) on large ones."""
    return "flat" if num_nodes <= FLAT_UP_TO else "ivf"


def as_edges(found: Tensor) -> Tensor:
    """Neighbours (nodes, k) as PyG edges: (source = fetched node, target = fetching node), (2, pairs)."""
    exists = found >= 0
    target = torch.arange(len(found))[:, None].expand_as(found)[exists]
    return torch.stack([found[exists], target])


def find_neighbors(
    space: SearchSpace | ScoreBlock,
    k: int,
    edge_index: Tensor,
    num_nodes: int,
    *,
    backend: Backend = "auto",
) -> Tensor:
    """``S(i)``: the k nodes with the highest semantic score, except i and N(i).

    Args:
        space: vectors and their metric, or a function that scores a block of rows (operators that are no
            metric: exact search only).
        k: how many to fetch; nodes with fewer candidates get all there are.
        edge_index: (2, edges) PyG edges; connected nodes are not fetched.
        num_nodes: how many nodes there are.
        backend: how to search.

    Returns:
        (nodes, k) node numbers, nearest first, -1 where there are no more.
    """
    if k == 0 or num_nodes == 0:
        return torch.full((num_nodes, k), -1, dtype=torch.long)
    excluded = Exclusions(edge_index, num_nodes)
    rows = torch.arange(num_nodes)
    if not isinstance(space, SearchSpace):
        if backend not in ("auto", "exact"):
            raise ValueError(
                f"this semantic operator is no metric: it needs the exact search, not {backend!r}"
            )
        return exact_search(space, rows, num_nodes, k, excluded)
    vectors = space.vectors.detach().float().cpu()
    if not vectors.isfinite().all():
        raise DetError(NOT_FINITE)
    kind = choose_backend(num_nodes) if backend == "auto" else backend
    if kind == "exact":
        return exact_search(metric_scores(vectors, space.metric), rows, num_nodes, k, excluded)
    return faiss_search(vectors, space.metric, k, excluded, kind)
