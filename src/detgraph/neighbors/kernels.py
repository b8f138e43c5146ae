"""The inner loops of the searches: a cheap bound for many candidates, the exact cost of the few that pass.

A cost is a distance, a squared distance or minus a dot product: the lower the nearer. Whatever the order in
which candidates come, a node keeps the k best by (cost, node number), so no result depends on threads.
Everything jitted stands in this one file, because numba's cache does not look into imported ones.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import float32, int16, int32, njit, prange, uint16
from numba.extending import overload
from numpy.typing import NDArray

from detgraph.neighbors.wide import LANES, add_larger, add_square, load, store, subtract_product, zeros

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]
Longs = NDArray[np.int64]

L1, L2, DOT = 0, 1, 2

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
    coarse: NDArray[Any]  # (nodes, dim): int16 for L1, otherwise float32
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


def bound(metric: int, coarse: Any, i: int, h: int, lanes: Any, sums: Any, own: Any, out: Any) -> None:
    """Coarse costs of rows i and h to all lanes: one of the two below, by the type of the coarse rows."""


def bound_l1(metric: int, coarse: Any, i: int, h: int, lanes: Any, sums: Any, own: Any, out: Any) -> None:
    """L1 distances: ``Σ|a - b| = 2 Σ max(a, b) - Σa - Σb``.

    Two 16-bit instructions a vector instead of three, and nothing is rounded: sums may wrap around without
    harm. Two rows at once, so that each lane is loaded once for both.
    """
    first, second = zeros(lanes), zeros(lanes)
    for d in range(len(lanes)):
        values = load(lanes, d * LANES)
        first = add_larger(first, values, coarse[i, d])
        second = add_larger(second, values, coarse[h, d])
    store(out, 0, first)
    store(out, LANES, second)
    for lane in range(LANES):
        out[0, lane] = uint16(2 * out[0, lane] - sums[lane] - own[i])
        out[1, lane] = uint16(2 * out[1, lane] - sums[lane] - own[h])


def bound_float(metric: int, coarse: Any, i: int, h: int, lanes: Any, sums: Any, own: Any, out: Any) -> None:
    """Squared distances, or minus dot products."""
    for row in range(2):
        query, total = i if row == 0 else h, zeros(lanes)
        if metric == L2:
            for d in range(len(lanes)):
                total = add_square(total, load(lanes, d * LANES), coarse[query, d])
        else:
            for d in range(len(lanes)):
                total = subtract_product(total, load(lanes, d * LANES), coarse[query, d])
        store(out, row * LANES, total)


@overload(bound, strict=False)  # not strict: annotations may differ
def choose_bound(metric: Any, coarse: Any, i: Any, h: Any, lanes: Any, sums: Any, own: Any, out: Any) -> Any:
    """The one for the type of the coarse rows."""
    return bound_l1 if coarse.dtype == int16 else bound_float


@njit(**SUMS)
def bound_box(metric: int, coarse: Any, i: int, low: Any, high: Any, rounding: Any) -> Any:
    """A coarse cost that row i has at least to every point between ``low`` and ``high``."""
    if metric == L1:
        steps = int32(0)
        for d in range(len(low)):
            below, above = int32(low[d]) - int32(coarse[i, d]), int32(coarse[i, d]) - int32(high[d])
            apart = below if below > above else above
            steps += apart if apart > 0 else int32(0)
        return float32(steps)
    total = float32(0)
    for d in range(len(low)):
        x = coarse[i, d]
        if metric == L2:
            apart = low[d] - x if low[d] - x > x - high[d] else x - high[d]
            total += apart * apart if apart > 0 else float32(0)
        else:
            near = x * low[d] if x * low[d] > x * high[d] else x * high[d]
            total -= near + rounding * abs(near)  # a corner of the box may be longer than any vector
    return total


@njit(**OPTIONS)
def any_within(out: Any, row: int, bar: Any) -> Any:
    """Whether any lane is low enough; counting all is quicker than stopping at the first."""
    count = uint16(0)
    for lane in range(LANES):
        count = uint16(count + uint16(out[row, lane] <= bar))
    return count > 0


@njit(**OPTIONS)
def compare(space: Space, nearest: Nearest, queries: Any, candidates: Any, begin: int) -> None:
    """Offer all candidates to all queries, from the candidate at ``begin`` on; both are node numbers.

    Candidates come a vector's worth at a time. If near ones stand together, the box around them is mostly too
    far from a query for any of them to be looked at; if those near the queries come first, even more so.
    """
    metric, vectors, coarse, sums, unit, slack, rounding, ceiling = space
    costs, nodes, excluded, start = nearest
    lanes = np.zeros((coarse.shape[1], LANES), coarse.dtype)  # (dim, lanes)
    lane_sums = np.zeros(LANES, sums.dtype)
    out = np.empty((2, LANES), sums.dtype)
    low, high = np.empty(coarse.shape[1], coarse.dtype), np.empty(coarse.shape[1], coarse.dtype)
    limit, skip = np.empty(2, np.float32), np.empty(2, np.bool_)
    rounds = (len(candidates) + LANES - 1) // LANES
    for turn in range(rounds):
        first = (begin // LANES + turn) % rounds * LANES
        filled = min(LANES, len(candidates) - first)
        for lane in range(filled):
            lane_sums[lane] = sums[candidates[first + lane]]
        for d in range(coarse.shape[1]):
            low[d] = high[d] = coarse[candidates[first], d]
            for lane in range(filled):
                value = coarse[candidates[first + lane], d]
                lanes[d, lane] = value
                low[d], high[d] = min(low[d], value), max(high[d], value)
        for q in range(0, len(queries), 2):
            pair = queries[q], queries[min(q + 1, len(queries) - 1)]  # a last one alone is bounded twice
            for row in range(2):
                # The highest coarse cost with which a candidate may still be among the best
                worst = costs[pair[row], -1]
                limit[row] = (worst + rounding * abs(worst) + slack) / unit
                skip[row] = bound_box(metric, coarse, pair[row], low, high, rounding) > limit[row]
            if skip[0] and skip[1]:
                continue
            bound(metric, coarse, pair[0], pair[1], lanes, lane_sums, sums, out)
            for row in range(2 if pair[0] != pair[1] else 1):
                bar = sums.dtype.type(min(limit[row], ceiling))
                if skip[row] or not any_within(out, row, bar):
                    continue
                i = pair[row]
                for lane in range(filled):
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
        if len(everyone) > 0:
            compare(space, nearest, members, everyone, bounds[group])
        else:
            compare(space, nearest, members, members, 0)


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
