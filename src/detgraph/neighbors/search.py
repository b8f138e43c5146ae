"""One call to find semantic neighbours, whatever the operator, the size and the backend."""

from typing import Literal

import torch
from torch import Tensor

from detgraph.neighbors.exact import Exclusions, ScoreBlock, exact_search, metric_scores
from detgraph.neighbors.faiss_search import faiss_search
from detgraph.nn.semantic import SearchSpace

Backend = Literal["auto", "exact", "flat", "ivf", "hnsw"]

EXACT_UP_TO = 4_000  # nodes; below, a full scan takes well under a second
FLAT_UP_TO = 10_000


def choose_backend(num_nodes: int) -> Backend:
    """``auto``: exact on small graphs, inverted lists (n√n, repeatable) on large ones."""
    if num_nodes <= EXACT_UP_TO:
        return "exact"
    return "flat" if num_nodes <= FLAT_UP_TO else "ivf"


def find_neighbors(
    space: SearchSpace | ScoreBlock,
    k: int,
    edge_index: Tensor,
    num_nodes: int,
    *,
    backend: Backend = "auto",
    groups: Tensor | None = None,
) -> Tensor:
    """``S(i)``: the k nodes with the highest semantic score, except i and N(i).

    Args:
        space: vectors and their metric, or a function that scores a block of rows (operators that are no
            metric: exact search only).
        k: how many to fetch; nodes with fewer candidates get all there are.
        edge_index: (2, edges) PyG edges; connected nodes are not fetched.
        num_nodes: how many nodes there are.
        backend: how to search.
        groups: (nodes,) graph of each node; neighbours are fetched inside the own graph only.

    Returns:
        (nodes, k) node numbers, nearest first, -1 where there are no more.
    """
    if k == 0 or num_nodes == 0:
        return torch.full((num_nodes, k), -1, dtype=torch.long)
    if groups is not None:
        return search_groups(space, k, edge_index, num_nodes, backend, groups)
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
        raise ValueError("the states that select semantic neighbours are not finite: training has diverged")
    kind = choose_backend(num_nodes) if backend == "auto" else backend
    if kind == "exact":
        return exact_search(metric_scores(vectors, space.metric), rows, num_nodes, k, excluded)
    return faiss_search(vectors, space.metric, k, excluded, kind)


def search_groups(
    space: SearchSpace | ScoreBlock,
    k: int,
    edge_index: Tensor,
    num_nodes: int,
    backend: Backend,
    groups: Tensor,
) -> Tensor:
    """`find_neighbors` inside each graph of a disjoint union."""
    found = torch.full((num_nodes, k), -1, dtype=torch.long)
    place = torch.empty(num_nodes, dtype=torch.long)
    for group in groups.unique():
        members = (groups == group).nonzero()[:, 0]
        place[members] = torch.arange(len(members))
        inside = groups[edge_index[0]] == group
        part: SearchSpace | ScoreBlock
        if isinstance(space, SearchSpace):
            part = SearchSpace(space.vectors[members], space.metric)
        else:
            part = _restrict(space, members)
        local = find_neighbors(part, k, place[edge_index[:, inside]], len(members), backend=backend)
        found[members] = torch.where(local >= 0, members[local.clamp(min=0)], -1)
    return found


def _restrict(score: ScoreBlock, members: Tensor) -> ScoreBlock:
    return lambda rows: score(members[rows])[:, members]
