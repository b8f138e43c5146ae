"""Attention inside each of many small graphs, as one differentiable operation.

Graphs lie one after the other, without padding: nodes ``start[g]`` to ``start[g + 1]`` are graph g, and its
pairs, row by row, begin at ``first_pair[g]``. A graph's keys and values fit into the nearest cache, and all
that belongs to a graph is written by one thread in a fixed order. Kept for the way back: one number a pair
and head.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from detgraph.kernels.attention_kernels import dot_product
from detgraph.kernels.lanes import PARALLEL, Array, draw_seed, dropout_limit, fold, layout, use_threads
from detgraph.kernels.vector import LANES, exp, fill, keep, load, maximum, store


class BlockIndex(NamedTuple):
    """Where each graph's nodes and pairs begin, (graphs + 1,) each."""

    start: Array
    first_pair: Array

    @classmethod
    def of(cls, sizes: Array) -> "BlockIndex":
        """Graphs of so many nodes."""
        return cls(np.concatenate([[0], np.cumsum(sizes)]), np.concatenate([[0], np.cumsum(sizes**2)]))


def block_attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, blocks: BlockIndex, dropout: float
) -> tuple[Tensor, Tensor]:
    r""":math:`h_i = \sum_j \mathrm{softmax}_j(q_i \cdot k_j / \sqrt{d} + b_{ij})\, v_j` over i's graph.

    Args:
        query: (nodes, heads, channels).
        key: (nodes, heads, channels).
        value: (nodes, heads, channels).
        bias: (pairs, heads).
        blocks: the graphs.
        dropout: on the weights.

    Returns:
        States (nodes, heads, channels) and weights before dropout (pairs, heads).
    """
    whole = (tensor.float() for tensor in (query, key, value, bias))  # mixed precision gives halves
    out: tuple[Tensor, Tensor] = _BlockAttention.apply(*whole, blocks, dropout)  # type: ignore[no-untyped-call]  # torch
    return out


class _BlockAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, blocks: BlockIndex, dropout: float
    ) -> tuple[Tensor, Tensor]:
        _, heads, channels = query.shape
        form = layout(heads, channels)
        use_threads(len(bias) * form.width)
        q, k, v = form.pack(query), form.pack(key), form.pack(value)
        biases = form.spread(bias)
        settings = (
            form.shift,
            np.float32(channels**-0.5),
            draw_seed() if dropout else np.uint32(0),
            dropout_limit(dropout),
            np.float32(1 / (1 - dropout)),
        )
        likely, out = np.empty_like(biases), np.empty_like(q)
        attend(q, k, v, biases, *blocks, *settings, likely, out)
        ctx.saved = form, q, k, v, likely, blocks, settings
        weights = form.per_head(likely)
        ctx.mark_non_differentiable(weights)
        return form.unpack(out), weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor, unused: Tensor) -> tuple[Tensor | None, ...]:
        form, q, k, v, likely, blocks, settings = ctx.saved
        use_threads(len(likely) * form.width)
        grad_q, grad_k, grad_v = np.empty_like(q), np.zeros_like(k), np.zeros_like(v)
        grad_bias = np.empty_like(likely)
        attend_back(q, k, v, likely, form.pack(grad), *blocks, *settings, grad_q, grad_k, grad_v, grad_bias)
        gradients = (form.unpack(array) for array in (grad_q, grad_k, grad_v))
        return *gradients, form.per_head(grad_bias), None, None


@njit(**PARALLEL)
def attend(
    q: Array,
    k: Array,
    v: Array,
    bias: Array,
    start: Array,
    first_pair: Array,
    shift: Any,
    scale: Any,
    seed: Any,
    limit: Any,
    grow: Any,
    likely: Array,
    out: Array,
) -> None:
    """Weights of all pairs (pairs, lanes) and the states they lead to (nodes, width)."""
    lanes, width = bias.shape[1], q.shape[1]
    blocks, steps = lanes // LANES, width // lanes
    zero = fill(np.float32(0))
    for graph in prange(len(start) - 1):
        low, high = start[graph], start[graph + 1]
        for i in range(low, high):
            row = first_pair[graph] + (i - low) * (high - low) - low
            for block in range(blocks):
                at = block * steps * LANES
                top, total = fill(np.float32(-3e38)), zero
                for j in range(low, high):
                    pair = (row + j) * lanes + block * LANES
                    dot = fold(dot_product(q, i * width + at, k, j * width + at, steps), shift)
                    logit = dot * fill(scale) + load(bias, pair)
                    top = maximum(top, logit)
                    store(likely, pair, logit)
                for j in range(low, high):
                    pair = (row + j) * lanes + block * LANES
                    weight = exp(load(likely, pair) - top)
                    total = total + weight
                    store(likely, pair, weight)
                total = fill(np.float32(1)) / total
                for to in range(i * width + at, i * width + at + steps * LANES, LANES):
                    store(out, to, zero)
                for j in range(low, high):
                    pair = (row + j) * lanes + block * LANES
                    weight = load(likely, pair) * total
                    store(likely, pair, weight)
                    if limit > 0:
                        weight = weight * fill(grow) * keep(seed, np.uint32(pair), shift, limit)
                    for step in range(at, at + steps * LANES, LANES):
                        store(
                            out,
                            i * width + step,
                            load(out, i * width + step) + weight * load(v, j * width + step),
                        )


@njit(**PARALLEL)
def attend_back(
    q: Array,
    k: Array,
    v: Array,
    likely: Array,
    grad: Array,
    start: Array,
    first_pair: Array,
    shift: Any,
    scale: Any,
    seed: Any,
    limit: Any,
    grow: Any,
    grad_q: Array,
    grad_k: Array,
    grad_v: Array,
    grad_bias: Array,
) -> None:
    """Gradients of `attend`; those of keys and values are added to."""
    lanes, width = likely.shape[1], q.shape[1]
    blocks, steps = lanes // LANES, width // lanes
    zero = fill(np.float32(0))
    for graph in prange(len(start) - 1):
        low, high = start[graph], start[graph + 1]
        for i in range(low, high):
            row = first_pair[graph] + (i - low) * (high - low) - low
            for block in range(blocks):
                at = block * steps * LANES
                mean = zero  # of the weights' gradients under the weights
                for j in range(low, high):
                    pair = (row + j) * lanes + block * LANES
                    gain = fold(dot_product(grad, i * width + at, v, j * width + at, steps), shift)
                    weight = load(likely, pair)
                    used = weight
                    if limit > 0:
                        stays = fill(grow) * keep(seed, np.uint32(pair), shift, limit)
                        gain, used = gain * stays, weight * stays
                    mean = mean + weight * gain
                    store(grad_bias, pair, gain)
                    for step in range(at, at + steps * LANES, LANES):
                        to = j * width + step
                        store(grad_v, to, load(grad_v, to) + used * load(grad, i * width + step))
                for to in range(i * width + at, i * width + at + steps * LANES, LANES):
                    store(grad_q, to, zero)
                for j in range(low, high):
                    pair = (row + j) * lanes + block * LANES
                    slope = load(likely, pair) * (load(grad_bias, pair) - mean)
                    store(grad_bias, pair, slope)
                    slope = slope * fill(scale)
                    for step in range(at, at + steps * LANES, LANES):
                        own, other = i * width + step, j * width + step
                        store(grad_q, own, load(grad_q, own) + slope * load(k, other))
                        store(grad_k, other, load(grad_k, other) + slope * load(q, own))
