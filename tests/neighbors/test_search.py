"""Finding S(i): every backend against brute force, awkward graphs, and refusals."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from detgraph.errors import DetError
from detgraph.neighbors import find_neighbors
from detgraph.neighbors.exact import Exclusions
from detgraph.neighbors.search import SCAN_UP_TO, choose_backend
from detgraph.nn.semantic import SearchSpace

BACKENDS: list[Any] = ["exact", "scan", "forest"]
METRICS: list[Any] = ["l1", "l2", "dot"]
NO_EDGES = torch.empty(2, 0, dtype=torch.long)


def brute_force(vectors: Tensor, metric: str, edge_index: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Scores of all pairs, -inf for those that may not be fetched, (nodes, nodes)."""
    v = vectors.double().numpy()
    if metric == "dot":
        scores = v @ v.T
    else:
        difference = v[:, None] - v[None]
        scores = -np.abs(difference).sum(-1) if metric == "l1" else -np.sqrt((difference**2).sum(-1))
    np.fill_diagonal(scores, -np.inf)
    scores[edge_index[1].numpy(), edge_index[0].numpy()] = -np.inf
    return np.asarray(scores)


def check_allowed(found: Tensor, edge_index: Tensor) -> None:
    """No node fetches itself, a connected node, or one node twice; -1 only at the end."""
    nodes = len(found)
    excluded = torch.eye(nodes, dtype=torch.bool)
    excluded[edge_index[1], edge_index[0]] = True
    for node, row in enumerate(found.tolist()):
        fetched = [other for other in row if other >= 0]
        assert row == fetched + [-1] * (len(row) - len(fetched))
        assert len(fetched) == len(set(fetched))
        assert not excluded[node, fetched].any()
        assert len(fetched) == min(found.size(1), nodes - int(excluded[node].sum()))  # all there are


def clusters(nodes: int = 3000, dim: int = 16, centers: int = 60) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    middle = torch.randn(centers, dim, generator=generator) * 3
    member = torch.randint(centers, (nodes,), generator=generator)
    return middle[member] + torch.randn(nodes, dim, generator=generator) * 0.5


def random_edges(nodes: int, edges: int) -> Tensor:
    return torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("backend", ["exact", "scan"])
@pytest.mark.parametrize("metric", METRICS)
def test_exact_backends_equal_brute_force(metric: Any, backend: Any) -> None:
    vectors, edges = torch.randn(200, 8), random_edges(200, 800)
    found = find_neighbors(SearchSpace(vectors, metric), 6, edges, 200, backend=backend)
    check_allowed(found, edges)
    scores = brute_force(vectors, metric, edges)
    expected = -np.sort(-scores, axis=1)[:, :6]
    np.testing.assert_allclose(np.take_along_axis(scores, found.numpy(), axis=1), expected, atol=1e-4)


@pytest.mark.parametrize("backend", ["exact", "scan"])
def test_full_scans_are_exact_far_from_the_origin(backend: Any) -> None:
    vectors = 100 + torch.randn(2000, 64) * 0.1  # ‖a‖² + ‖b‖² - 2ab has hardly a correct digit here
    found = find_neighbors(SearchSpace(vectors, "l2"), 5, NO_EDGES, 2000, backend=backend)
    distance = torch.cdist(vectors.double(), vectors.double(), compute_mode="donot_use_mm_for_euclid_dist")
    nearest = distance.fill_diagonal_(torch.inf).sort(dim=1).values[:, :5]
    torch.testing.assert_close(distance.gather(1, found), nearest, rtol=0, atol=1e-4)


def test_exact_search_in_blocks_equals_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    space, edges = SearchSpace(torch.randn(50, 4), "l1"), random_edges(50, 100)
    whole = find_neighbors(space, 5, edges, 50, backend="exact")
    monkeypatch.setattr("detgraph.neighbors.exact.BLOCK_NUMBERS", 7 * 50)
    assert torch.equal(find_neighbors(space, 5, edges, 50, backend="exact"), whole)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("metric", METRICS)
def test_two_searches_give_the_same(metric: Any, backend: Any) -> None:
    vectors, edges = clusters(500), random_edges(500, 1000)
    first, second = (
        find_neighbors(SearchSpace(vectors.clone(), metric), 5, edges, 500, backend=backend) for _ in range(2)
    )
    assert torch.equal(first, second)


# Awkward graphs and states


@pytest.mark.parametrize("backend", BACKENDS)
def test_isolated_nodes_fetch_too(backend: Any, edge_index: Tensor) -> None:
    found = find_neighbors(SearchSpace(torch.randn(12, 4), "l1"), 3, edge_index, 12, backend=backend)
    check_allowed(found, edge_index)
    assert (found[11] >= 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_duplicate_rows_are_nearest_and_do_not_hide_the_rest(backend: Any) -> None:
    vectors = torch.randn(60, 4).repeat_interleave(2, dim=0)  # node 2i + 1 is node 2i again
    found = find_neighbors(SearchSpace(vectors, "l1"), 5, NO_EDGES, 120, backend=backend)
    check_allowed(found, NO_EDGES)
    assert torch.equal(found[:, 0], torch.arange(120) ^ 1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("metric", METRICS)
def test_equal_states_still_fetch(metric: Any, backend: Any) -> None:
    edges = random_edges(80, 200)
    found = find_neighbors(SearchSpace(torch.ones(80, 4), metric), 5, edges, 80, backend=backend)
    check_allowed(found, edges)


@pytest.mark.parametrize("backend", BACKENDS)
def test_k_larger_than_the_graph_fetches_all_there_are(backend: Any, edge_index: Tensor) -> None:
    found = find_neighbors(SearchSpace(torch.randn(12, 4), "l1"), 20, edge_index, 12, backend=backend)
    assert found.shape == (12, 20)
    check_allowed(found, edge_index)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("left", [0, 1, 4])
def test_a_hub_fetches_whatever_it_is_not_connected_to(left: int, backend: Any) -> None:
    vectors = torch.randn(200, 4)
    vectors[200 - left :] += 100  # the few that remain for the hub are the farthest from it
    others = torch.arange(1, 200 - left)
    spokes = torch.stack([others, torch.zeros_like(others)])
    edges = torch.cat([spokes, spokes.flip(0), spokes, torch.zeros(2, 1, dtype=torch.long)], dim=1)  # repeats
    found = find_neighbors(SearchSpace(vectors, "l1"), 3, edges, 200, backend=backend)
    check_allowed(found, edges)
    assert {node for node in found[0].tolist() if node >= 0} <= set(range(200 - left, 200))


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_to_fetch(backend: Any) -> None:
    space = SearchSpace(torch.randn(5, 2), "l1")
    assert find_neighbors(space, 0, NO_EDGES, 5, backend=backend).shape == (5, 0)
    one = SearchSpace(torch.randn(1, 2), "l1")
    assert find_neighbors(one, 3, NO_EDGES, 1, backend=backend).tolist() == [[-1, -1, -1]]
    none = SearchSpace(torch.randn(0, 2), "l1")
    assert find_neighbors(none, 3, NO_EDGES, 0, backend=backend).shape == (0, 3)


def test_exclusions_count_each_node_once() -> None:
    excluded = Exclusions(torch.tensor([[1, 1, 0, 2], [0, 0, 0, 1]]), 4)  # an edge twice, a self-loop
    assert excluded.count.tolist() == [2, 2, 1, 1]
    rows = torch.tensor([1, 3])
    position, node = excluded.pairs(rows)
    assert sorted(zip(position.tolist(), node.tolist(), strict=True)) == [(0, 1), (0, 2), (1, 3)]
    refused = excluded.contains(rows, torch.tensor([[0, 2, -1], [3, 0, 2]]))
    assert refused.tolist() == [[False, True, True], [True, False, False]]


# Choices and refusals


def test_auto_scans_small_graphs_and_grows_a_forest_on_large_ones() -> None:
    assert [choose_backend(n) for n in (1, SCAN_UP_TO, SCAN_UP_TO + 1)] == ["scan", "scan", "forest"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("value", [torch.nan, torch.inf, 3e38])
def test_states_that_are_not_finite_are_refused(value: float, backend: Any) -> None:
    vectors = torch.randn(10, 4)
    vectors[3, 2] = value
    with pytest.raises(DetError, match="not finite: training has diverged"):
        find_neighbors(SearchSpace(vectors, "l1"), 2, NO_EDGES, 10, backend=backend)


def test_scores_that_are_not_finite_are_refused() -> None:
    scores = torch.randn(10, 10)
    scores[3, 2] = torch.nan
    with pytest.raises(DetError, match="not finite: training has diverged"):
        find_neighbors(lambda rows: scores[rows], 2, NO_EDGES, 10)


@pytest.mark.parametrize("backend", ["scan", "forest"])
def test_a_quick_search_needs_a_metric(backend: Any) -> None:
    with pytest.raises(ValueError, match=f"no metric: it needs the exact search, not '{backend}'"):
        find_neighbors(lambda rows: torch.zeros(len(rows), 5), 2, NO_EDGES, 5, backend=backend)


def test_scores_of_any_operator_are_searched_exactly(edge_index: Tensor) -> None:
    scores = torch.randn(12, 12)
    found = find_neighbors(lambda rows: scores[rows], 3, edge_index, 12)
    check_allowed(found, edge_index)
    allowed = scores.clone()
    allowed[edge_index[1], edge_index[0]] = -torch.inf
    allowed.fill_diagonal_(-torch.inf)
    best = allowed.topk(3, dim=1)
    assert torch.equal(found, torch.where(best.values > -torch.inf, best.indices, -1))
