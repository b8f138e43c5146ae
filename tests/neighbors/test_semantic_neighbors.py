"""The current S of a graph, and when it is searched anew."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from detgraph.neighbors import Schedule, SemanticNeighbors, find_neighbors
from detgraph.nn import Sparse
from detgraph.nn.semantic import SearchSpace


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Schedule(), ["learned"] * 6),
        (Schedule(every=2), ["learned", None, "learned", None, "learned", None]),
        (Schedule(every=5), ["learned", None, None, None, None, "learned"]),
        (Schedule(every=2, warmup=3), ["propagated", None, None, "learned", None, "learned"]),
        (Schedule(source="output", every=2, warmup=3), [None, None, None, "output", None, "output"]),
        (Schedule(source="features"), ["features"] + [None] * 5),
        (Schedule(source="propagated", every=2, warmup=3), ["propagated"] + [None] * 5),
    ],
)
def test_schedule(schedule: Schedule, expected: list[Any]) -> None:
    assert [schedule.due(epoch) for epoch in range(6)] == expected


def test_nothing_is_fetched_before_the_first_search(edge_index: Tensor) -> None:
    neighbors = SemanticNeighbors(3, edge_index, 12)
    assert (neighbors.found == -1).all()
    assert neighbors.edges().shape == (2, 0)
    assert math.isnan(neighbors.purity(torch.zeros(12, dtype=torch.long)))


def test_search_replaces_the_neighbors(edge_index: Tensor) -> None:
    neighbors = SemanticNeighbors(3, edge_index, 12)
    for _ in range(2):
        space = SearchSpace(torch.randn(12, 4), "l1")
        neighbors.search(space)
        assert torch.equal(neighbors.found, find_neighbors(space, 3, edge_index, 12))


def test_only_members_fetch_and_are_fetched(edge_index: Tensor) -> None:
    members = 2 * torch.arange(12)
    some = SemanticNeighbors(3, 2 * edge_index, 24, members=members)
    space = SearchSpace(torch.randn(12, 4), "l1")
    some.search(space)
    found = find_neighbors(space, 3, edge_index, 12)
    assert torch.equal(some.found[members], torch.where(found >= 0, 2 * found, -1))
    assert (some.found[members + 1] == -1).all()


def test_edges_point_from_the_fetched_to_the_fetching_node() -> None:
    edge_index = torch.tensor([[1, 0], [0, 1]])
    neighbors = SemanticNeighbors(2, edge_index, 3)
    neighbors.search(SearchSpace(torch.randn(3, 2), "l1"))
    assert neighbors.found.tolist()[:2] == [[2, -1], [2, -1]]
    assert sorted(neighbors.edges().t().tolist()) == [[0, 2], [1, 2], [2, 0], [2, 1]]


def test_edges_extend_the_1_hop_set(edge_index: Tensor) -> None:
    neighbors = SemanticNeighbors(3, edge_index, 12)
    neighbors.search(SearchSpace(torch.randn(12, 4), "l1"))
    pairs = Sparse.from_edges(edge_index, 12, neighbors.edges())
    only_semantic = (pairs.semantic & ~pairs.structural)[:, 0]
    for node in range(12):
        fetched = pairs.source[only_semantic & (pairs.target == node)].tolist()
        assert sorted(fetched) == sorted(other for other in neighbors.found[node].tolist() if other >= 0)


def test_purity_counts_pairs_with_two_known_labels() -> None:
    neighbors = SemanticNeighbors(2, torch.empty(2, 0, dtype=torch.long), 4)
    neighbors.found = torch.tensor([[1, 2], [0, -1], [0, 3], [2, 0]])
    labels = torch.tensor([5, 5, 6, -1])  # known pairs: 0←1, 0←2, 1←0, 2←0; alike: 0←1, 1←0
    assert neighbors.purity(labels) == 0.5


def test_k_0_fetches_nothing(edge_index: Tensor) -> None:
    neighbors = SemanticNeighbors(0, edge_index, 12)
    neighbors.search(SearchSpace(torch.randn(12, 4), "l1"))
    assert neighbors.edges().shape == (2, 0)
