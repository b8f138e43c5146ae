"""Dual attention over the pairs of a sparse neighbourhood: one pass forward, two passes back.

Forward and the first backward pass run over attending nodes, the second over attended nodes, so that each
number is written by one thread in a fixed order: results do not depend on the number of threads. Per pair
only probabilities (one number a head) are kept, never states.

There is a first encoder and, where ``dual``, a second one. Logits are made of the dot product and of ⊖:
``use_dot`` and ``use_z`` say which of them the first encoder reads; the second reads ⊖, and the dot product
where ``dot_to_second``.
"""

from typing import Any

import numpy as np
from numba import njit, prange

from detgraph.kernels.lanes import PARALLEL, Array, fold
from detgraph.kernels.semantic import NONE, score, slope, weight_slope
from detgraph.kernels.vector import LANES, exp, fill, keep, load, maximum, prefetch, store

AHEAD = 8  # pairs: how far ahead rows are asked for
RECORD = 3  # vectors that the first backward pass notes of each pair for the second


@njit
def prefetch_row(array: Any, start: Any, width: Any) -> None:
    """Ask for a row that will be read soon."""
    for at in range(0, width, 16):  # floats in a cache line
        prefetch(array, start + at)


@njit
def dot_product(a: Any, at_a: Any, b: Any, at_b: Any, steps: Any) -> Any:
    """``Σ a·b`` of one block of lanes; lanes not yet folded."""
    total = fill(np.float32(0))
    for at in range(0, steps * LANES, LANES):
        total = total + load(a, at_a + at) * load(b, at_b + at)
    return total


@njit(**PARALLEL)
def forward(
    h: Array,
    weight: Array,
    start: Array,
    source: Array,
    chunks: Array,
    in_first: Array,
    in_second: Array,
    form: int,
    use_dot: bool,
    use_z: bool,
    dual: bool,
    dot_to_second: bool,
    shift: Any,
    scale: Any,
    tau: Any,
    seed: Any,
    limit: Any,
    grow: Any,
    first: Array,
    second: Array,
    weights: Array,
    out: Array,
) -> None:
    """Probabilities of both encoders (pairs, lanes) and ``Σ_j (τ·A_1 + (1-τ)·A_2) h_j`` (nodes, width).

    ``weights`` is empty, or is to hold what was summed with: both encoders mixed, after dropout.
    """
    lanes, width = first.shape[1], h.shape[1]
    blocks, steps = lanes // LANES, width // lanes
    zero, lowest = fill(np.float32(0)), fill(np.float32(-3e38))
    for chunk in prange(len(chunks) - 1):
        for i in range(chunks[chunk], chunks[chunk + 1]):
            for block in range(blocks):
                at = block * steps * LANES
                top_1, top_2, sum_1, sum_2 = lowest, lowest, zero, zero
                for p in range(start[i], start[i + 1]):
                    if p + AHEAD < len(source):
                        prefetch_row(h, source[p + AHEAD] * width, width)
                    own, other, pair = i * width + at, source[p] * width + at, p * lanes + block * LANES
                    dot, z = zero, zero
                    if (in_first[p] and use_dot) or (in_second[p] and dot_to_second):
                        dot = fold(dot_product(h, own, h, other, steps), shift) * fill(scale)
                    if form != NONE and ((in_first[p] and use_z) or (in_second[p] and dual)):
                        z = fold(score(h, own, other, weight, at, steps, form), shift)
                    if in_first[p]:
                        logit = dot if use_dot else zero
                        if use_z:
                            logit = logit + z
                        top_1 = maximum(top_1, logit)
                        store(first, pair, logit)
                    if dual and in_second[p]:
                        logit = z + dot if dot_to_second else z
                        top_2 = maximum(top_2, logit)
                        store(second, pair, logit)
                for p in range(start[i], start[i + 1]):
                    pair = p * lanes + block * LANES
                    if in_first[p]:
                        likely = exp(load(first, pair) - top_1)
                        sum_1 = sum_1 + likely
                        store(first, pair, likely)
                    if dual and in_second[p]:
                        likely = exp(load(second, pair) - top_2)
                        sum_2 = sum_2 + likely
                        store(second, pair, likely)
                one = fill(np.float32(1))
                sum_1, sum_2 = one / sum_1, one / sum_2
                for to in range(i * width + at, i * width + at + steps * LANES, LANES):
                    store(out, to, zero)
                for p in range(start[i], start[i + 1]):
                    pair = p * lanes + block * LANES
                    mixed = load(first, pair) * sum_1 if in_first[p] else zero
                    store(first, pair, mixed)
                    if dual:
                        likely = load(second, pair) * sum_2 if in_second[p] else zero
                        store(second, pair, likely)
                        mixed = fill(tau) * mixed + fill(np.float32(1) - tau) * likely
                    if limit > 0:
                        mixed = mixed * fill(grow) * keep(seed, np.uint32(pair), shift, limit)
                    if len(weights):
                        store(weights, pair, mixed)
                    for step in range(at, at + steps * LANES, LANES):
                        total = load(out, i * width + step) + mixed * load(h, source[p] * width + step)
                        store(out, i * width + step, total)


@njit(**PARALLEL)
def backward_targets(
    h: Array,
    weight: Array,
    start: Array,
    source: Array,
    slot: Array,
    chunks: Array,
    in_first: Array,
    in_second: Array,
    form: int,
    use_dot: bool,
    use_z: bool,
    dual: bool,
    dot_to_second: bool,
    shift: Any,
    scale: Any,
    tau: Any,
    seed: Any,
    limit: Any,
    grow: Any,
    first: Array,
    second: Array,
    grad_out: Array,
    moved: Array,
    gains: Array,
    record: Array,
    grad_h: Array,
    grad_weight: Array,
    grad_tau: Array,
) -> None:
    """Gradients of the scores, and what flows from them into attending nodes (nodes, width).

    ``moved`` (nodes,) tells which attending nodes have a gradient; pairs of others are passed over.
    ``gains`` (pairs, lanes) is the gradient in the weights, or empty: then it is that of one sum over values.
    ``record`` (pairs in order of source, RECORD * lanes) is what `backward_sources` needs. ``grad_weight``
    (chunks, width) and ``grad_tau`` (chunks, lanes) are to be summed over chunks.
    """
    lanes, width = first.shape[1], h.shape[1]
    blocks, steps = lanes // LANES, width // lanes
    zero = fill(np.float32(0))
    for chunk in prange(len(chunks) - 1):
        for i in range(chunks[chunk], chunks[chunk + 1]):
            if not moved[i]:
                for to in range(i * width, (i + 1) * width, LANES):
                    store(grad_h, to, zero)
                continue
            for block in range(blocks):
                at = block * steps * LANES
                mean_1, mean_2 = zero, zero
                for p in range(start[i], start[i + 1]):
                    if p + AHEAD < len(source):
                        prefetch_row(h, source[p + AHEAD] * width, width)
                        prefetch_row(record, slot[p + AHEAD] * RECORD * lanes, RECORD * lanes)
                    pair, noted = p * lanes + block * LANES, RECORD * (slot[p] * lanes + block * LANES)
                    if len(gains):
                        gain = load(gains, pair)
                    else:
                        gain = dot_product(grad_out, i * width + at, h, source[p] * width + at, steps)
                        gain = fold(gain, shift)
                    if limit > 0:
                        gain = gain * fill(grow) * keep(seed, np.uint32(pair), shift, limit)
                    mean_1 = mean_1 + load(first, pair) * gain
                    if dual:
                        mean_2 = mean_2 + load(second, pair) * gain
                    store(record, noted, gain)
                to = chunk * lanes + block * LANES
                store(grad_tau, to, load(grad_tau, to) + mean_1 - mean_2)
                for to in range(i * width + at, i * width + at + steps * LANES, LANES):
                    store(grad_h, to, zero)
                for p in range(start[i], start[i + 1]):
                    pair, noted = p * lanes + block * LANES, RECORD * (slot[p] * lanes + block * LANES)
                    mixed, gain = fill(tau) * load(first, pair), load(record, noted)
                    by_first = mixed * (gain - mean_1)
                    by_dot = by_first if use_dot else zero
                    by_z = by_first if use_z else zero
                    if dual:
                        likely = fill(np.float32(1) - tau) * load(second, pair)
                        by_second = likely * (gain - mean_2)
                        mixed = mixed + likely
                        by_z = by_z + by_second
                        if dot_to_second:
                            by_dot = by_dot + by_second
                    by_dot = by_dot * fill(scale)
                    if limit > 0:
                        mixed = mixed * fill(grow) * keep(seed, np.uint32(pair), shift, limit)
                    store(record, noted, zero if len(gains) else mixed)
                    store(record, noted + LANES, by_dot)
                    store(record, noted + 2 * LANES, by_z)
                    for step in range(at, at + steps * LANES, LANES):
                        other = load(h, source[p] * width + step)
                        total = load(grad_h, i * width + step) + by_dot * other
                        if form != NONE and ((in_first[p] and use_z) or (in_second[p] and dual)):
                            own, to = load(h, i * width + step), chunk * width + step
                            total = total + by_z * slope(own, other, load(weight, step), form)
                            rise = by_z * weight_slope(own, other, form)
                            store(grad_weight, to, load(grad_weight, to) + rise)
                        store(grad_h, i * width + step, total)


@njit(**PARALLEL)
def backward_sources(
    h: Array,
    weight: Array,
    start: Array,
    target: Array,
    chunks: Array,
    form: int,
    grad_out: Array,
    moved: Array,
    record: Array,
    grad_h: Array,
) -> None:
    """Add what flows into attended nodes: as values, as keys and as the other side of ⊖."""
    lanes, width = record.shape[1] // RECORD, h.shape[1]
    blocks, steps = lanes // LANES, width // lanes
    for chunk in prange(len(chunks) - 1):
        for j in range(chunks[chunk], chunks[chunk + 1]):
            for p in range(start[j], start[j + 1]):
                if p + AHEAD < len(target):
                    prefetch_row(h, target[p + AHEAD] * width, width)
                    prefetch_row(grad_out, target[p + AHEAD] * width, width)
                if not moved[target[p]]:
                    continue
                i = target[p] * width
                for block in range(blocks):
                    noted = RECORD * (p * lanes + block * LANES)
                    mixed, by_dot = load(record, noted), load(record, noted + LANES)
                    by_z = load(record, noted + 2 * LANES)
                    for step in range(block * steps * LANES, (block + 1) * steps * LANES, LANES):
                        other = load(h, i + step)
                        total = load(grad_h, j * width + step) + by_dot * other
                        total = total + mixed * load(grad_out, i + step)
                        if form != NONE:
                            own = load(h, j * width + step)
                            total = total + by_z * slope(own, other, load(weight, step), form)
                        store(grad_h, j * width + step, total)


@njit(**PARALLEL)
def spread(weights: Array, start: Array, source: Array, chunks: Array, x: Array, out: Array) -> None:
    """``out_i = Σ_j weights_ij x_j`` (nodes, width)."""
    lanes, width = weights.shape[1], x.shape[1]
    blocks, steps = lanes // LANES, width // lanes
    for chunk in prange(len(chunks) - 1):
        for i in range(chunks[chunk], chunks[chunk + 1]):
            for to in range(i * width, (i + 1) * width, LANES):
                store(out, to, fill(np.float32(0)))
            for p in range(start[i], start[i + 1]):
                if p + AHEAD < len(source):
                    prefetch_row(x, source[p + AHEAD] * width, width)
                for block in range(blocks):
                    weight = load(weights, p * lanes + block * LANES)
                    for step in range(block * steps * LANES, (block + 1) * steps * LANES, LANES):
                        total = load(out, i * width + step) + weight * load(x, source[p] * width + step)
                        store(out, i * width + step, total)


@njit(cache=True)
def note_moved(grad: Array, moved: Array) -> None:
    """Note rows of ``grad`` (nodes, width) that are not all 0: in the last layer only labelled nodes'."""
    for i in range(len(moved)):
        at = 0
        while not moved[i] and at < grad.shape[1]:
            moved[i] = grad[i, at] != 0
            at += 1


@njit(**PARALLEL)
def add_gains(
    grad: Array, start: Array, source: Array, chunks: Array, x: Array, shift: Any, gains: Array
) -> None:
    """``gains_ij += grad_i · x_j``, the gradient of `spread` in its weights, per head."""
    lanes, width = gains.shape[1], x.shape[1]
    blocks, steps = lanes // LANES, width // lanes
    for chunk in prange(len(chunks) - 1):
        for i in range(chunks[chunk], chunks[chunk + 1]):
            for p in range(start[i], start[i + 1]):
                if p + AHEAD < len(source):
                    prefetch_row(x, source[p + AHEAD] * width, width)
                for block in range(blocks):
                    at, pair = block * steps * LANES, p * lanes + block * LANES
                    gain = dot_product(grad, i * width + at, x, source[p] * width + at, steps)
                    store(gains, pair, load(gains, pair) + fold(gain, shift))
