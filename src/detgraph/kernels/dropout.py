"""Dropout whose random bits come from a counter: many times quicker than torch's on a CPU."""

from typing import Any

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from detgraph.kernels.choice import fused_on
from detgraph.kernels.lanes import PARALLEL, Array, draw_seed, dropout_limit, use_threads
from detgraph.kernels.vector import LANES, fill, keep, load, store

CHUNK = 4096  # numbers, a multiple of LANES


class Dropout(nn.Dropout):
    """`torch.nn.Dropout` with the fused form where that can be used."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return drop(x, self.p) if self.training and self.p > 0 else x


def drop(x: Tensor, rate: float) -> Tensor:
    """Each number is 0 with probability ``rate``, the others are scaled up by 1/(1 - rate)."""
    if not fused_on(x) or rate == 1:
        return functional.dropout(x, rate)
    out: Tensor = _Dropout.apply(x, draw_seed(), rate)  # type: ignore[no-untyped-call]  # torch
    return out


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: np.uint32, rate: float) -> Tensor:
        ctx.seed, ctx.rate = seed, rate
        return scaled(x, seed, rate)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return scaled(grad, ctx.seed, ctx.rate), None, None


def scaled(x: Tensor, seed: np.uint32, rate: float) -> Tensor:
    """Zero where the bits of ``seed`` say so, the rest scaled up."""
    flat = x.detach().contiguous().view(-1).numpy()
    out = np.empty_like(flat)
    use_threads(4 * len(flat))
    scale_kept(flat, seed, dropout_limit(rate), np.float32(1 / (1 - rate)), out)
    return torch.from_numpy(out).view(x.shape)


@njit(**PARALLEL)
def scale_kept(x: Array, seed: Any, limit: Any, grow: Any, out: Array) -> None:
    """``grow · x`` in places that stay, else 0."""
    for chunk in prange((len(x) + CHUNK - 1) // CHUNK):
        end = min((chunk + 1) * CHUNK, len(x))
        whole = chunk * CHUNK + (end - chunk * CHUNK) // LANES * LANES
        for at in range(chunk * CHUNK, whole, LANES):
            stays = keep(seed, np.uint32(at), np.uint32(0), limit)
            store(out, at, load(x, at) * fill(grow) * stays)
        if whole < end:  # the last few of all
            last = np.zeros(LANES, np.float32)
            store(last, 0, keep(seed, np.uint32(whole), np.uint32(0), limit))
            for at in range(whole, end):
                out[at] = x[at] * grow * last[at - whole]
