"""The inner loops of the searches: a cheap bound for many candidates, the exact cost of the few that pass.

A cost is a distance, a squared distance or minus a dot product: the lower the nearer. Whatever the order in
which candidates come, a node keeps the k best by (cost, node number), so no result depends on threads.
Everything jitted stands in this one file, because numba's cache does not look into imported ones.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import float32, int16, njit, prange, uint16
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]
Longs = NDArray[np.int64]

L1, L2, DOT = 0, 1, 2

LANES = 448  # candidates that are bounded at once; a power of two would make their rows share cache lines
STEP = 4  # dimensions added up before the sum goes back to memory; coarse rows are a multiple of it
CHUNK = 64  # lanes that are passed over together if none of them is near enough
TILE = 8192  # nodes whose lists are improved by one thread with one memory of what it has seen

OPTIONS = {"cache": True, "error_model": "numpy"}
SUMS = {**OPTIONS, "fastmath": {"reassoc", "contract", "nsz"}}  # lets a sum be split over vector registers
PARALLEL = {**OPTIONS, "parallel": True}


class Space(NamedTuple):
    """Vectors, and coarse rows of them that bound every cost from below.

    ``cost(i, j) >= unit * coarse(i, j) - slack``, up to a share ``rounding`` of the cost.
    """

    metric: int
    vectors: Floats  # (nodes, dim)
    coarse: NDArray[Any]  # (nodes, dim rounded up to a multiple of STEP): int16 for L1, otherwise float32
    sums: NDArray[Any]  # (nodes,) of the coarse rows: uint16, modulo 2¹⁶, for L1; otherwise float32, unused
    unit: np.float32
    slack: np.float32
    rounding: np.float32
    ceiling: np.float32  # the highest coarse cost there can be


class Nearest(NamedTuple):
    """The best candidates of every node so far, sorted by (cost, number)."""

    costs: Floats  # (nodes, k), inf where there is none
    nodes: Integers  # (nodes, k), -1 where there is none
    excluded: Integers  # (pairs,) nodes that may not be fetched, sorted for each node
    start: Longs  # (nodes + 1,) where each node's excluded ones begin


@njit(**SUMS)
def cost(metric: int, vectors: Any, i: int, j: int) -> Any:
    """The exact cost of a pair, always summed in the same order."""
    total = float32(0)
    if metric == L1:
        for d in range(vectors.shape[1]):
            total += abs(vectors[i, d] - vectors[j, d])
    elif metric == L2:
        for d in range(vectors.shape[1]):
            total += (vectors[i, d] - vectors[j, d]) * (vectors[i, d] - vectors[j, d])
    else:
        for d in range(vectors.shape[1]):
            total -= vectors[i, d] * vectors[j, d]
    return total


@njit(**OPTIONS)
def may_fetch(excluded: Any, start: Any, i: int, j: int) -> Any:
    """Whether j is neither i nor connected to it."""
    low, high = start[i], start[i + 1]
    while low < high:
        middle = (low + high) // 2
        if excluded[middle] < j:
            low = middle + 1
        else:
            high = middle
    return low == start[i + 1] or excluded[low] != j


@njit(**OPTIONS)
def offer(
    metric: int, vectors: Any, costs: Any, nodes: Any, excluded: Any, start: Any, i: int, j: int
) -> bool:
    """Put j into the list of i if it belongs there; whether it did.

    Arrays are passed one by one here: taken out of a tuple, each would be counted as one more reference, and
    that takes longer than the rest.
    """
    value, place = cost(metric, vectors, i, j), nodes.shape[1]
    while place > 0 and (
        value < costs[i, place - 1] or (value == costs[i, place - 1] and j < nodes[i, place - 1])
    ):
        place -= 1
    # A node that is in the list already has the same cost there, so it stands just before its place.
    if place == nodes.shape[1] or (place > 0 and nodes[i, place - 1] == j):
        return False
    if not may_fetch(excluded, start, i, j):
        return False
    for k in range(nodes.shape[1] - 1, place, -1):
        costs[i, k], nodes[i, k] = costs[i, k - 1], nodes[i, k - 1]
    costs[i, place], nodes[i, place] = value, j
    return True


@njit(**OPTIONS)
def larger(a: int, b: int) -> int:
    """The larger of two 16-bit numbers, without widening them."""
    return a if a > b else b


@njit(**OPTIONS)
def bound_l1(coarse: Any, i: int, h: int, lanes: Any, sums: Any, own: Any, out: Any) -> None:
    """Coarse L1 distances of rows i and h to all lanes: ``Σ|a - b| = 2 Σ max(a, b) - Σa - Σb``.

    Two 16-bit instructions a vector instead of three, and nothing is rounded: sums may wrap around without
    harm. Two rows at once, so that each lane is loaded once for both.
    """
    for lane in range(LANES):
        out[0, lane] = uint16(0)
        out[1, lane] = uint16(0)
    for d in range(0, lanes.shape[0], STEP):
        a0, a1, a2, a3 = coarse[i, d], coarse[i, d + 1], coarse[i, d + 2], coarse[i, d + 3]
        b0, b1, b2, b3 = coarse[h, d], coarse[h, d + 1], coarse[h, d + 2], coarse[h, d + 3]
        for lane in range(LANES):
            x0, x1, x2, x3 = lanes[d, lane], lanes[d + 1, lane], lanes[d + 2, lane], lanes[d + 3, lane]
            first = int16(larger(a0, x0) + larger(a1, x1))
            first = int16(first + larger(a2, x2))
            first = int16(first + larger(a3, x3))
            second = int16(larger(b0, x0) + larger(b1, x1))
            second = int16(second + larger(b2, x2))
            second = int16(second + larger(b3, x3))
            out[0, lane] = uint16(out[0, lane] + first)
            out[1, lane] = uint16(out[1, lane] + second)
    for lane in range(LANES):
        out[0, lane] = uint16(2 * out[0, lane] - sums[lane] - own[i])
    for lane in range(LANES):
        out[1, lane] = uint16(2 * out[1, lane] - sums[lane] - own[h])


@njit(**SUMS)
def bound_float(metric: int, coarse: Any, i: int, h: int, lanes: Any, out: Any) -> None:
    """Squared distances, or minus dot products, of rows i and h to all lanes."""
    for row in range(2):
        query = i if row == 0 else h
        for lane in range(LANES):
            out[row, lane] = float32(0)
        for d in range(0, lanes.shape[0], STEP):
            a0, a1 = coarse[query, d], coarse[query, d + 1]
            a2, a3 = coarse[query, d + 2], coarse[query, d + 3]
            if metric == L2:
                for lane in range(LANES):
                    x0, x1 = a0 - lanes[d, lane], a1 - lanes[d + 1, lane]
                    x2, x3 = a2 - lanes[d + 2, lane], a3 - lanes[d + 3, lane]
                    out[row, lane] += x0 * x0 + x1 * x1 + x2 * x2 + x3 * x3
            else:
                for lane in range(LANES):
                    near = a0 * lanes[d, lane] + a1 * lanes[d + 1, lane]
                    out[row, lane] -= near + a2 * lanes[d + 2, lane] + a3 * lanes[d + 3, lane]


@njit(**OPTIONS)
def any_within(out: Any, row: int, first: int, bar: Any) -> Any:
    """Whether any lane of a chunk is low enough; counting all is quicker than stopping at the first."""
    count = uint16(0)
    for lane in range(first, first + CHUNK):
        count = uint16(count + uint16(out[row, lane] <= bar))
    return count > 0


@njit(**OPTIONS)
def compare(space: Space, nearest: Nearest, queries: Any, candidates: Any) -> None:
    """Offer all candidates to all queries; both are node numbers."""
    metric, vectors, coarse, sums, unit, slack, rounding, ceiling = space
    costs, nodes, excluded, start = nearest
    lanes = np.zeros((coarse.shape[1], LANES), coarse.dtype)  # (coarse dim, lanes)
    lane_sums = np.zeros(LANES, sums.dtype)
    out = np.empty((2, LANES), sums.dtype)
    for first in range(0, len(candidates), LANES):
        filled = min(LANES, len(candidates) - first)
        for lane in range(filled):
            j = candidates[first + lane]
            lane_sums[lane] = sums[j]
            for d in range(coarse.shape[1]):
                lanes[d, lane] = coarse[j, d]
        for q in range(len(queries)):
            i, row = queries[q], q % 2
            if row == 0:  # a last one without a second is bounded twice
                h = queries[min(q + 1, len(queries) - 1)]
                if metric == L1:
                    bound_l1(coarse, i, h, lanes, lane_sums, sums, out)
                else:
                    bound_float(metric, coarse, i, h, lanes, out)
            # The highest coarse cost with which a candidate may still be among the best of i
            worst = costs[i, -1]
            bar = sums.dtype.type(min((worst + rounding * abs(worst) + slack) / unit, ceiling))
            for chunk in range(0, filled, CHUNK):
                if not any_within(out, row, chunk, bar):
                    continue
                for lane in range(chunk, min(chunk + CHUNK, filled)):
                    if out[row, lane] <= bar and offer(
                        metric, vectors, costs, nodes, excluded, start, i, candidates[first + lane]
                    ):
                        worst = costs[i, -1]
                        bar = sums.dtype.type(min((worst + rounding * abs(worst) + slack) / unit, ceiling))


@njit(**PARALLEL)
def compare_groups(space: Space, nearest: Nearest, order: Any, bounds: Any, everyone: Any) -> None:
    """Offer to the nodes of each group all of ``everyone``, or the whole group if that is empty.

    Group g is ``order[bounds[g] : bounds[g + 1]]``; no node is in two groups.
    """
    for group in prange(len(bounds) - 1):
        members = order[bounds[group] : bounds[group + 1]]
        compare(space, nearest, members, everyone if len(everyone) > 0 else members)


@njit(**{**SUMS, "parallel": True})
def project(vectors: Any, order: Any, bounds: Any, ends: Any, out: Any) -> None:
    """Where each member of a branch lies on the line through the branch's two ends, (nodes,) in order."""
    for branch in range(len(bounds) - 1):
        a, b = ends[branch]
        for place in prange(bounds[branch], bounds[branch + 1]):
            total = float32(0)
            for d in range(vectors.shape[1]):
                total += vectors[order[place], d] * (vectors[a, d] - vectors[b, d])
            out[place] = total


@njit(**PARALLEL)
def compare_with_theirs(space: Space, nearest: Nearest, known: Any) -> None:
    """Offer to every node the nodes that ``known`` (nodes, k) lists for those listed for it."""
    metric, vectors = space.metric, space.vectors
    costs, nodes, excluded, start = nearest
    for tile in prange((len(known) + TILE - 1) // TILE):
        seen = np.full(len(known), -1, np.int32)  # the last node that each node was offered to
        for i in range(tile * TILE, min((tile + 1) * TILE, len(known))):
            for near in known[i]:
                if near >= 0:
                    seen[near] = i
            for near in known[i]:
                if near < 0:
                    break
                for j in known[near]:
                    if j >= 0 and seen[j] != i:
                        seen[j] = i
                        offer(metric, vectors, costs, nodes, excluded, start, i, j)
