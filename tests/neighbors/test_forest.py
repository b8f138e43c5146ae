"""The forest: nearly all that a full scan finds, and the same on any number of threads."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from detgraph.neighbors.exact import Exclusions
from detgraph.neighbors.forest import LEAF, forest_search
from detgraph.neighbors.scan import scan
from detgraph.neighbors.tree import grow_tree

METRICS: list[Any] = ["l1", "l2", "dot"]
NODES = 8 * LEAF


def clusters(nodes: int = NODES, dim: int = 24, centers: int = 40) -> Tensor:
    middle = torch.randn(centers, dim) * 3
    return middle[torch.randint(centers, (nodes,))] + torch.randn(nodes, dim) * 0.5


def recall(vectors: Tensor, metric: Any) -> float:
    nodes = len(vectors)
    excluded = Exclusions(torch.randint(nodes, (2, 3 * nodes)), nodes)
    exact, found = scan(vectors, metric, 8, excluded), forest_search(vectors, metric, 8, excluded)
    rows = torch.arange(nodes)
    assert not excluded.contains(rows, found).any()  # all are there, none is connected
    return float((found[:, :, None] == exact[:, None, :]).any(dim=2).float().mean())


@pytest.mark.parametrize("metric", METRICS)
def test_nearly_all_are_found(metric: Any) -> None:
    assert recall(clusters(), metric) > 0.95


def test_nearly_all_are_found_among_vectors_of_one_length() -> None:
    assert recall(torch.nn.functional.normalize(clusters()), "dot") > 0.95


def test_threads_do_not_matter() -> None:
    vectors, excluded = clusters(), Exclusions(torch.randint(NODES, (2, NODES)), NODES)
    found = forest_search(vectors, "l1", 5, excluded)
    torch.set_num_threads(2)
    try:
        assert torch.equal(forest_search(vectors, "l1", 5, excluded), found)
    finally:
        torch.set_num_threads(1)


def test_leaves_hold_every_node_once() -> None:
    order, bounds = grow_tree(clusters().numpy(), LEAF, np.random.default_rng(0))
    assert sorted(order.tolist()) == list(range(NODES))
    assert (bounds[0], bounds[-1]) == (0, NODES)
    assert LEAF / 2 < np.diff(bounds).min() <= np.diff(bounds).max() <= LEAF


def test_equal_states_are_split_all_the_same() -> None:
    nodes = 2 * LEAF + 1
    found = forest_search(
        torch.ones(nodes, 3), "l1", 4, Exclusions(torch.empty(2, 0, dtype=torch.long), nodes)
    )
    assert (found >= 0).all()


def test_a_hub_connected_to_all_near_it_finds_the_rest() -> None:
    vectors = clusters()
    vectors[-3:] += 1000
    spokes = torch.stack([torch.arange(1, NODES - 3), torch.zeros(NODES - 4, dtype=torch.long)])
    found = forest_search(vectors, "l1", 5, Exclusions(spokes, NODES))
    assert sorted(found[0].tolist()) == [-1, -1, NODES - 3, NODES - 2, NODES - 1]
