"""Attention step by step, for scores that the fused dual attention does not know: dot, softmax, sum.

States of pairs are never stored, only one number a pair and head.
"""

from typing import Any

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from detgraph.kernels.attention_kernels import add_gains, spread
from detgraph.kernels.lanes import PARALLEL, Array, Layout, layout, use_threads
from detgraph.kernels.pairs import PairIndex
from detgraph.kernels.vector import LANES, exp, fill, load, maximum, store


def pair_dot(a: Tensor, b: Tensor, index: PairIndex) -> Tensor:
    """``a_i · b_j`` per head, (pairs, heads), of (nodes, heads, channels) each."""
    out: Tensor = _PairDot.apply(a, b, index)  # type: ignore[no-untyped-call]  # torch
    return out


def pair_softmax(scores: Tensor, members: Tensor, index: PairIndex) -> Tensor:
    """Softmax of (pairs, heads) over each node's members (pairs,); others get 0."""
    out: Tensor = _PairSoftmax.apply(scores, members, index)  # type: ignore[no-untyped-call]  # torch
    return out


def pair_sum(weights: Tensor, values: Tensor, index: PairIndex) -> Tensor:
    """``Σ_j weights_ij · values_j`` of (pairs, heads) and (nodes, heads, channels), per node and head."""
    out: Tensor = _PairSum.apply(weights, values, index)  # type: ignore[no-untyped-call]  # torch
    return out


class _PairDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, index: PairIndex) -> Tensor:
        form = layout(*a.shape[1:])
        ctx.saved = form, form.pack(a), form.pack(b), index
        return form.per_head(_products(*ctx.saved))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        form, a, b, index = ctx.saved
        by_pair = form.spread(grad)
        return form.unpack(_sum(by_pair, b, index)), form.unpack(_sum_back(by_pair, a, index)), None


class _PairSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor, index: PairIndex) -> Tensor:
        form = layout(*values.shape[1:])
        ctx.saved = form, form.spread(weights), form.pack(values), index
        return form.unpack(_sum(*ctx.saved[1:]))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        form, weights, values, index = ctx.saved
        upstream = form.pack(grad)
        gains = form.per_head(_products(form, upstream, values, index))
        return gains, form.unpack(_sum_back(weights, upstream, index)), None


class _PairSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, members: Tensor, index: PairIndex) -> Tensor:
        form = layout(scores.size(1), 1)
        ctx.saved = form, np.empty((len(scores), form.lanes), np.float32), index
        weights = ctx.saved[1]
        use_threads(weights.size)
        _softmax(form.spread(scores), members.numpy(), index.start, index.chunks, weights)
        return form.per_head(weights)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        form, weights, index = ctx.saved
        out = np.empty_like(weights)
        use_threads(weights.size)
        _softmax_back(weights, form.spread(grad), index.start, index.chunks, out)
        return form.per_head(out), None, None


def _products(form: Layout, a: Array, b: Array, index: PairIndex) -> Array:
    """``a_i · b_j``, (pairs, lanes)."""
    out = np.zeros((len(index.source), form.lanes), np.float32)
    use_threads(len(index.source) * form.width)
    add_gains(a, index.start, index.source, index.chunks, b, form.shift, out)
    return out


def _sum(weights: Array, values: Array, index: PairIndex) -> Array:
    """``Σ_j weights_ij values_j`` of each node i, (nodes, width)."""
    out = np.empty_like(values)
    use_threads(len(weights) * values.shape[1])
    spread(weights, index.start, index.source, index.chunks, values, out)
    return out


def _sum_back(weights: Array, values: Array, index: PairIndex) -> Array:
    """``Σ_i weights_ij values_i`` of each node j, (nodes, width)."""
    by_source, out = np.empty_like(weights), np.empty_like(values)
    by_source[index.slot] = weights
    spread(by_source, index.by_source_start, index.by_source_target, index.by_source_chunks, values, out)
    return out


@njit(**PARALLEL)
def _softmax(scores: Array, members: Array, start: Array, chunks: Array, weights: Array) -> None:
    """Of the members among each node's pairs."""
    lanes = scores.shape[1]
    zero = fill(np.float32(0))
    for chunk in prange(len(chunks) - 1):
        for i in range(chunks[chunk], chunks[chunk + 1]):
            for block in range(0, lanes, LANES):
                top, total = fill(np.float32(-3e38)), zero
                for p in range(start[i], start[i + 1]):
                    if members[p]:
                        top = maximum(top, load(scores, p * lanes + block))
                for p in range(start[i], start[i + 1]):
                    likely = exp(load(scores, p * lanes + block) - top) if members[p] else zero
                    total = total + likely
                    store(weights, p * lanes + block, likely)
                share = fill(np.float32(1)) / maximum(total, fill(np.float32(1e-38)))
                for p in range(start[i], start[i + 1]):
                    store(weights, p * lanes + block, load(weights, p * lanes + block) * share)


@njit(**PARALLEL)
def _softmax_back(weights: Array, grad: Array, start: Array, chunks: Array, out: Array) -> None:
    """``w · (g - Σ w·g)``."""
    lanes = weights.shape[1]
    for chunk in prange(len(chunks) - 1):
        for i in range(chunks[chunk], chunks[chunk + 1]):
            for block in range(0, lanes, LANES):
                mean = fill(np.float32(0))
                for p in range(start[i], start[i + 1]):
                    mean = mean + load(weights, p * lanes + block) * load(grad, p * lanes + block)
                for p in range(start[i], start[i + 1]):
                    rise = load(grad, p * lanes + block) - mean
                    store(out, p * lanes + block, load(weights, p * lanes + block) * rise)
