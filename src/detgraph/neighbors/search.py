"""One call to find semantic neighbours, whatever the operator, the size and the backend."""

from typing import Literal

import torch
from torch import Tensor

from detgraph.errors import DetError
from detgraph.neighbors.exact import NOT_FINITE, Exclusions, ScoreBlock, exact_search, metric_scores
from detgraph.neighbors.forest import forest_search
from detgraph.neighbors.scan import scan
from detgraph.nn.semantic import SearchSpace

Backend = Literal["auto", "exact", "scan", "forest"]

SCAN_UP_TO = 30_000  # nodes; a full scan of more takes longer than a forest


def choose_backend(num_nodes: int) -> Backend:
    """``auto``: a full scan (n², exact) of small graphs, a forest (n log n, approximate) on large ones."""
    return "scan" if num_nodes <= SCAN_UP_TO else "forest"


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
    norm = torch.linalg.vector_norm(vectors, 1 if space.metric == "l1" else 2, dim=1)
    largest = 4 * (norm if space.metric == "l1" else norm.square())  # no distance or product is larger
    if not largest.isfinite().all():
        raise DetError(NOT_FINITE)
    kind = choose_backend(num_nodes) if backend == "auto" else backend
    if kind == "exact":
        return exact_search(metric_scores(vectors, space.metric), rows, num_nodes, k, excluded)
    search = scan if kind == "scan" else forest_search
    return search(vectors, space.metric, k, excluded)
