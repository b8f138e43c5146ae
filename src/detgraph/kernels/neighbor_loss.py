"""The neighbour-fetching loss L_sn of one layer as one differentiable operation."""

import math
from typing import Any

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from detgraph.kernels.attention_kernels import AHEAD, prefetch_row
from detgraph.kernels.lanes import PARALLEL, Array, Layout, fold, layout, use_threads
from detgraph.kernels.pairs import CHUNKS, PairIndex
from detgraph.kernels.semantic import FORMS, score, slope, weight_slope
from detgraph.kernels.vector import LANES, absolute, exp, fill, load, maximum, sign, store

FLUSH = 64  # factors between 1 and 2 whose product a float can hold, so that one logarithm does for all


def fused_neighbor_loss(
    h: Tensor, weight: Tensor, bias: Tensor, form: str, positive: PairIndex, negative: PairIndex
) -> Tensor:
    r""":math:`L_{sn} = -\overline{\ln \sigma(z_{ij})} - \overline{\ln(1 - \sigma(z_{ik}))}` of one layer.

    Args:
        h: (nodes, heads, channels).
        weight: positive weights of ⊖, (heads, channels).
        bias: (heads,).
        form: form of ⊖.
        positive: connected pairs.
        negative: distant pairs.
    """
    loss: Tensor = _NeighborLoss.apply(h, weight, bias, form, positive, negative)  # type: ignore[no-untyped-call]  # torch
    return loss


class _NeighborLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, form: str, positive: PairIndex, negative: PairIndex
    ) -> Tensor:
        _, heads, channels = h.shape
        shape = layout(heads, channels)
        use_threads(len(positive.source) * shape.width)
        rows, weights, biases = shape.pack(h), shape.pack(weight[None])[0], shape.to_lanes(bias)
        share = shape.to_lanes(torch.full((heads,), 1 / heads))
        grad_h, grad_weight = np.zeros_like(rows), np.zeros((CHUNKS, shape.width), np.float32)
        grad_bias, loss = np.zeros((CHUNKS, shape.lanes), np.float32), np.zeros((CHUNKS, shape.lanes))
        for index, toward in ((positive, 1), (negative, -1)):
            active = max(int((np.diff(index.start) > 0).sum()), 1)
            record = np.empty((len(index.source), shape.lanes), np.float32)
            _targets(
                rows,
                weights,
                biases,
                share,
                index.start,
                index.source,
                index.slot,
                index.chunks,
                np.float32(1 / active),
                np.float32(toward),
                FORMS[form],
                shape.shift,
                record,
                grad_h,
                grad_weight,
                grad_bias,
                loss,
            )
            _sources(
                rows,
                weights,
                index.by_source_start,
                index.by_source_target,
                index.by_source_chunks,
                FORMS[form],
                record,
                grad_h,
            )
        ctx.saved = (shape, grad_h, grad_weight, grad_bias)
        return torch.tensor(loss.sum() / 2 ** int(shape.shift), dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        shape, grad_h, grad_weight, grad_bias = ctx.saved
        assert isinstance(shape, Layout)
        return (
            grad * shape.unpack(grad_h),
            grad * shape.unpack(grad_weight.sum(axis=0, keepdims=True))[0],
            grad * shape.per_head(grad_bias.sum(axis=0, keepdims=True))[0],
            None,
            None,
            None,
        )


@njit(**PARALLEL)
def _targets(
    h: Array,
    weight: Array,
    bias: Array,
    share: Array,
    start: Array,
    source: Array,
    slot: Array,
    chunks: Array,
    node_share: Any,
    toward: Any,
    form: int,
    shift: Any,
    record: Array,
    grad_h: Array,
    grad_weight: Array,
    grad_bias: Array,
    loss: Array,
) -> None:
    """Loss, and its gradients in weights and in the first node of each pair; ``record`` is that in z."""
    lanes, width = record.shape[1], h.shape[1]
    blocks, steps = lanes // LANES, width // lanes
    zero, one, half = fill(np.float32(0)), fill(np.float32(1)), fill(np.float32(0.5))
    for chunk in prange(len(chunks) - 1):
        product, linear = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
        for i in range(chunks[chunk], chunks[chunk + 1]):
            if start[i] == start[i + 1]:
                continue
            pair_share = node_share / np.float32(start[i + 1] - start[i])
            for block in range(blocks):
                at, lane_at = block * steps * LANES, block * LANES
                amount = load(share, lane_at) * fill(pair_share)
                total, factors = zero, one
                for p in range(start[i], start[i + 1]):
                    if p + AHEAD < len(source):
                        prefetch_row(h, source[p + AHEAD] * width, width)
                        prefetch_row(record, slot[p + AHEAD] * lanes, lanes)
                    z = score(h, i * width + at, source[p] * width + at, weight, at, steps, form)
                    # softplus(x) = max(x, 0) + ln(1 + e^-|x|), x = ∓z
                    x = fill(-toward) * (fold(z, shift) + load(bias, lane_at))
                    small = exp(zero - absolute(x))
                    total = total + maximum(x, zero)
                    factors = factors * (one + small)
                    chance = half + sign(x) * (one / (one + small) - half)  # σ(x)
                    by_z = fill(-toward) * chance * amount
                    store(record, slot[p] * lanes + lane_at, by_z)
                    to = chunk * lanes + lane_at
                    store(grad_bias, to, load(grad_bias, to) + by_z)
                    for step in range(at, at + steps * LANES, LANES):
                        own, other = load(h, i * width + step), load(h, source[p] * width + step)
                        rise = by_z * slope(own, other, load(weight, step), form)
                        store(grad_h, i * width + step, load(grad_h, i * width + step) + rise)
                        to = chunk * width + step
                        rise = by_z * weight_slope(own, other, form)
                        store(grad_weight, to, load(grad_weight, to) + rise)
                    if (p - start[i]) % FLUSH == FLUSH - 1 or p == start[i + 1] - 1:
                        store(product, 0, factors)
                        store(linear, 0, total)
                        for lane in range(LANES):
                            gain = math.log(product[lane]) + linear[lane]
                            loss[chunk, lane_at + lane] += gain * share[lane_at + lane] * pair_share
                        total, factors = zero, one


@njit(**PARALLEL)
def _sources(
    h: Array,
    weight: Array,
    start: Array,
    target: Array,
    chunks: Array,
    form: int,
    record: Array,
    grad_h: Array,
) -> None:
    """Add the gradient in the second node of each pair."""
    lanes, width = record.shape[1], h.shape[1]
    steps = width // lanes
    for chunk in prange(len(chunks) - 1):
        for j in range(chunks[chunk], chunks[chunk + 1]):
            for p in range(start[j], start[j + 1]):
                if p + AHEAD < len(target):
                    prefetch_row(h, target[p + AHEAD] * width, width)
                for step in range(0, width, LANES):
                    by_z = load(record, p * lanes + step // (steps * LANES) * LANES)
                    own, other = load(h, j * width + step), load(h, target[p] * width + step)
                    rise = by_z * slope(own, other, load(weight, step), form)
                    store(grad_h, j * width + step, load(grad_h, j * width + step) + rise)
