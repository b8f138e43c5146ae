"""The full scan: exact whatever the size, the ties and the outliers; the same on any number of threads."""

from collections.abc import Callable, Iterator
from typing import Any

import faiss
import numpy as np
import pytest
import torch
from torch import Tensor

from detgraph.neighbors.exact import Exclusions, exact_search, metric_scores
from detgraph.neighbors.scan import QUERIES, coarse_l1, scan
from detgraph.neighbors.wide import LANES

METRICS: list[Any] = ["l1", "l2", "dot"]
NO_EDGES = torch.empty(2, 0, dtype=torch.long)


@pytest.fixture
def two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def some_edges(nodes: int) -> Tensor:
    return torch.randint(nodes, (2, 3 * nodes), generator=torch.Generator().manual_seed(3))


def by_rank(vectors: Tensor, metric: Any, k: int, edges: Tensor) -> Tensor:
    """The k best by (cost, number) in exact arithmetic: vectors must be small whole numbers."""
    scores = metric_scores(vectors.double(), metric)(torch.arange(len(vectors)))
    scores = -scores.square() if metric == "l2" else scores  # a root may round different numbers to one
    row, column = Exclusions(edges, len(vectors)).pairs(torch.arange(len(vectors)))
    scores[row, column] = -torch.inf
    best = scores.round().sort(dim=1, descending=True, stable=True)
    found = torch.full((len(vectors), k), -1)
    width = min(k, len(vectors))
    found[:, :width] = torch.where(best.values > -torch.inf, best.indices, -1)[:, :width]
    return found


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("nodes", [2, 5, LANES - 1, LANES, LANES + 1, QUERIES + LANES + 7])
def test_ties_go_to_the_lower_number(nodes: int, metric: Any) -> None:
    vectors, edges = torch.randint(-2, 3, (nodes, 5)).float(), some_edges(nodes)
    found = scan(vectors, metric, 7, Exclusions(edges, nodes))
    assert torch.equal(found, by_rank(vectors, metric, 7, edges))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dim", [1, 2, 7, 8, 9, 64, 130])
def test_any_dimension(dim: int, metric: Any) -> None:
    vectors, edges = torch.randint(-50, 51, (400, dim)).float(), some_edges(400)
    found = scan(vectors, metric, 10, Exclusions(edges, 400))
    assert torch.equal(found, by_rank(vectors, metric, 10, edges))


@pytest.mark.parametrize("metric", METRICS)
def test_threads_do_not_matter(metric: Any, two_threads: None) -> None:
    vectors = torch.randn(2 * QUERIES + 100, 20)
    excluded = Exclusions(some_edges(len(vectors)), len(vectors))
    both = scan(vectors, metric, 8, excluded)
    torch.set_num_threads(1)
    assert torch.equal(scan(vectors, metric, 8, excluded), both)


AWKWARD: dict[str, Callable[[Tensor], Tensor]] = {
    "an outlier": lambda v: torch.cat([v[:-1], v[-1:] * 1e6]),
    "one wide dimension": lambda v: v * torch.tensor([1000.0] + [1.0] * 15),
    "far from the origin": lambda v: v + 1000,
    "tiny": lambda v: v * 1e-20,
    "huge": lambda v: v * 1e12,
    "tight clusters": lambda v: v * 0.01 + 10 * v[:5].repeat(len(v) // 5, 1),
    "heavy tails": lambda v: v**7,
}


@pytest.mark.parametrize("name", AWKWARD)
def test_no_neighbor_is_lost_by_the_coarse_bound(name: str) -> None:
    vectors = AWKWARD[name](torch.randn(1000, 16))
    excluded = Exclusions(some_edges(1000), 1000)
    found = scan(vectors, "l1", 6, excluded)
    scores = metric_scores(vectors.double(), "l1")
    nearest = exact_search(scores, torch.arange(1000), 1000, 6, excluded)
    every = scores(torch.arange(1000))
    torch.testing.assert_close(every.gather(1, found), every.gather(1, nearest), rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", AWKWARD)
def test_the_coarse_bound_is_a_bound(name: str) -> None:
    vectors = AWKWARD[name](torch.randn(300, 16))
    space = coarse_l1(vectors.numpy())
    coarse = torch.from_numpy(space.coarse).double()
    bound = torch.cdist(coarse, coarse, p=1.0) * float(space.unit) - float(space.slack)
    distance = torch.cdist(vectors.double(), vectors.double(), p=1.0)
    assert (bound <= distance * (1 + float(space.rounding)) + float(space.unit) * 1e-3).all()


def test_faiss_finds_the_same() -> None:
    vectors = torch.randn(3000, 64)
    index = faiss.IndexFlat(64, faiss.METRIC_L1)
    index.add(vectors.numpy())
    _, nearest = index.search(vectors.numpy(), 17)
    found = scan(vectors, "l1", 16, Exclusions(NO_EDGES, 3000)).numpy()
    assert np.mean(found == nearest[:, 1:]) > 0.999  # two of nearly the same distance may change places
