"""L1 distances inside each of many small graphs, as one differentiable operation."""

from typing import Any

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from detgraph.kernels.block_attention import BlockIndex
from detgraph.kernels.lanes import PARALLEL, Array, fold, layout, use_threads
from detgraph.kernels.vector import LANES, absolute, fill, load, sign, store


def block_l1(x: Tensor, blocks: BlockIndex) -> Tensor:
    """``Σ_d |x_i - x_j|_d`` of all pairs of each graph: (nodes, heads, channels) to (pairs, heads)."""
    out: Tensor = _BlockL1.apply(x, blocks)  # type: ignore[no-untyped-call]  # torch
    return out


class _BlockL1(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, blocks: BlockIndex) -> Tensor:
        _, heads, channels = x.shape
        form = layout(heads, channels)
        rows = form.pack(x)
        out = np.empty((int(blocks.first_pair[-1]), form.lanes), np.float32)
        use_threads(len(out) * form.width)
        distances(rows, *blocks, form.shift, out)
        ctx.saved = form, rows, blocks
        return form.per_head(out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        form, rows, blocks = ctx.saved
        grad_rows = np.empty_like(rows)
        use_threads(len(grad) * form.width)
        distances_back(rows, form.spread(grad), *blocks, grad_rows)
        return form.unpack(grad_rows), None


@njit(**PARALLEL)
def distances(x: Array, start: Array, first_pair: Array, shift: Any, out: Array) -> None:
    """Distances (pairs, lanes) of rows (nodes, width); each pair of nodes is computed once."""
    lanes, width = out.shape[1], x.shape[1]
    blocks, steps = lanes // LANES, width // lanes
    for graph in prange(len(start) - 1):
        low, size = start[graph], start[graph + 1] - start[graph]
        for i in range(size):
            for j in range(i, size):
                for block in range(blocks):
                    total = fill(np.float32(0))
                    for at in range(block * steps * LANES, (block + 1) * steps * LANES, LANES):
                        total = total + absolute(
                            load(x, (low + i) * width + at) - load(x, (low + j) * width + at)
                        )
                    total = fold(total, shift)
                    store(out, (first_pair[graph] + i * size + j) * lanes + block * LANES, total)
                    store(out, (first_pair[graph] + j * size + i) * lanes + block * LANES, total)


@njit(**PARALLEL)
def distances_back(x: Array, grad: Array, start: Array, first_pair: Array, grad_x: Array) -> None:
    """``Σ_j (g_ij + g_ji) sign(x_i - x_j)``."""
    lanes, width = grad.shape[1], x.shape[1]
    blocks, steps = lanes // LANES, width // lanes
    for graph in prange(len(start) - 1):
        low, size = start[graph], start[graph + 1] - start[graph]
        for at in range(low * width, (low + size) * width, LANES):
            store(grad_x, at, fill(np.float32(0)))
        for i in range(size):
            for j in range(i + 1, size):
                for block in range(blocks):
                    there = load(grad, (first_pair[graph] + i * size + j) * lanes + block * LANES)
                    back = load(grad, (first_pair[graph] + j * size + i) * lanes + block * LANES)
                    both = there + back
                    for at in range(block * steps * LANES, (block + 1) * steps * LANES, LANES):
                        own, other = (low + i) * width + at, (low + j) * width + at
                        slope = both * sign(load(x, own) - load(x, other))
                        store(grad_x, own, load(grad_x, own) + slope)
                        store(grad_x, other, load(grad_x, other) - slope)
