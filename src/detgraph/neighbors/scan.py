"""A full scan under a metric: exact, every pair bounded, few pairs computed."""

import numpy as np
import torch
from torch import Tensor

from detgraph.kernels.lanes import use_threads
from detgraph.neighbors.exact import Exclusions
from detgraph.neighbors.kernels import DOT, L1, L2, Floats, Longs, Nearest, Space, compare_groups
from detgraph.neighbors.tree import grow_tree
from detgraph.neighbors.wide import LANES
from detgraph.nn.semantic import Metric

METRICS = {"l1": L1, "l2": L2, "dot": DOT}

QUERIES = 512  # nodes that share the work of laying out the candidates
SAMPLE = 500  # nodes from whose distances the size of the coarse steps follows
CEILING = np.iinfo(np.uint16).max


def make_space(vectors: Tensor, metric: Metric) -> Space:
    """Vectors (nodes, dim) with the coarse rows that bound their costs from below."""
    array = np.ascontiguousarray(vectors.numpy(), dtype=np.float32)
    if metric == "l1":
        return coarse_l1(array)
    nodes, dim = array.shape
    rounding = (dim + 8) * 2.0**-22
    # A dot product may be near 0 though its terms are large: the norms measure its rounding error.
    slack = rounding * float(np.square(array).sum(axis=1).max(initial=0)) if metric == "dot" else 0.0
    unused = np.zeros(nodes, np.float32)
    numbers = (np.float32(number) for number in (1, slack, rounding, np.inf))
    return Space(METRICS[metric], array, array, unused, *numbers)


def coarse_l1(array: Floats) -> Space:
    """16-bit rows, with steps of one size for all dimensions.

    The step is such that hardly any distance exceeds 16 bits; one that does wraps around, looks near, and is
    merely computed in vain. Cutting off outliers only shortens distances, so the bound stays a bound.
    """
    nodes, dim = array.shape
    sample = torch.from_numpy(array[:: max(1, nodes // SAMPLE)])
    farthest = float(torch.cdist(sample, sample, p=1.0).max()) if nodes else 0.0
    unit = max(1.1 * farthest / CEILING, 1e-30)
    coarse = np.zeros((nodes, dim), np.int16)
    error = np.zeros(nodes)  # of each row, by rounding
    for d in range(dim):
        steps = (array[:, d] - array[:, d].mean(dtype=np.float64)) / unit  # float64: rounded once only
        steps = steps.clip(-CEILING // 2, CEILING // 2)
        coarse[:, d] = np.rint(steps)
        error += np.abs(steps - coarse[:, d])
    sums = coarse.sum(axis=1, dtype=np.int64).astype(np.uint16)
    slack = 2.002 * unit * error.max(initial=0)
    numbers = (np.float32(number) for number in (unit, slack, (dim + 8) * 2.0**-22, CEILING))
    return Space(L1, array, coarse, sums, *numbers)


def empty_lists(k: int, excluded: Exclusions) -> Nearest:
    """No candidate yet for any node."""
    nodes = excluded.num_nodes
    start = torch.cat([excluded.start, excluded.count.sum()[None]]).numpy()
    members = excluded.members.numpy().astype(np.int32)
    return Nearest(np.full((nodes, k), np.inf, np.float32), np.full((nodes, k), -1, np.int32), members, start)


def compare_all(space: Space, nearest: Nearest, queries: Longs, candidates: Longs) -> None:
    """Offer all candidates to all queries."""
    bounds = np.append(np.arange(0, len(queries), QUERIES), len(queries))
    compare_groups(space, nearest, queries, bounds, candidates)


def scan(vectors: Tensor, metric: Metric, k: int, excluded: Exclusions) -> Tensor:
    """The ``k`` nearest nodes of each node that are not excluded, (nodes, k), -1 where there are fewer."""
    use_threads(vectors.numel() * len(vectors))
    space, nearest = make_space(vectors, metric), empty_lists(k, excluded)
    order, _ = grow_tree(space.vectors, LANES, np.random.default_rng(0))
    compare_all(space, nearest, order, order)
    return torch.from_numpy(nearest.nodes).long()
