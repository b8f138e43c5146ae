"""Eight heads side by side: the layout in which the kernels keep states.

A row of states (heads, channels) is stored as (blocks, steps, 8): eight heads fill the eight lanes of a
vector, so scores of all heads come out of one run over channels, without horizontal sums. Fewer than eight
heads take 8, 4 or 2 lanes each and share out their channels; `fold` then adds these lanes up.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numba
import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from detgraph.kernels.vector import LANES, swap_1, swap_2, swap_4

ALONE_UP_TO = 2**22  # numbers: some milliseconds of work
Array = np.ndarray[Any, np.dtype[Any]]
PARALLEL: dict[str, Any] = {"parallel": True, "cache": True, "error_model": "numpy"}


@dataclass(frozen=True)
class Layout:
    """Where channel c of head h stands in a row."""

    heads: int
    channels: int
    shift: np.uint32  # 2^shift lanes belong to one head
    blocks: int  # groups of eight lanes
    steps: int  # vectors a block
    place: Array  # (heads * channels,) position in the row

    @property
    def lanes(self) -> int:
        """Lanes of all blocks, padding included."""
        return self.blocks * LANES

    @property
    def width(self) -> int:
        """Numbers a row, padding included."""
        return self.lanes * self.steps

    def pack(self, x: Tensor) -> Array:
        """(rows, heads, channels) to (rows, width)."""
        flat = x.detach().reshape(len(x), -1).contiguous().numpy()
        out = np.empty((len(flat), self.width), np.float32)
        _pack(flat, self.place, out)
        return out

    def unpack(self, rows: Array) -> Tensor:
        """(rows, width) to (rows, heads, channels)."""
        out = np.empty((len(rows), len(self.place)), np.float32)
        _unpack(rows, self.place, out)
        return torch.from_numpy(out).view(-1, self.heads, self.channels)

    def per_head(self, lanes: Array) -> Tensor:
        """(rows, lanes), the same number in all lanes of a head, to (rows, heads)."""
        return torch.from_numpy(lanes)[:, :: 2 ** int(self.shift)][:, : self.heads]

    def spread(self, per_head: Tensor) -> Array:
        """(rows, heads) to (rows, lanes): each head's number in all of its lanes, 0 in padding."""
        array = per_head.detach().numpy()
        if self.heads == self.lanes:
            return np.ascontiguousarray(array)
        out = np.zeros((len(array), self.lanes), np.float32)
        share = 1 << int(self.shift)
        out[:, : self.heads * share] = array.repeat(share, axis=1)
        return out

    def to_lanes(self, per_head: Tensor) -> Array:
        """(heads,) to (lanes,), 0 in padding."""
        out: Array = self.spread(per_head[None])[0]
        return out


@cache
def layout(heads: int, channels: int) -> Layout:
    """The layout of ``heads`` × ``channels``."""
    shift = max(0, 3 - math.ceil(math.log2(heads)))
    share = 2**shift
    head, channel = np.divmod(np.arange(heads * channels), channels)
    blocks, steps = math.ceil(heads * share / LANES), math.ceil(channels / share)
    lane = head * share + channel % share
    place = ((lane // LANES) * steps + channel // share) * LANES + lane % LANES
    return Layout(heads, channels, np.uint32(shift), blocks, steps, place)


@njit
def fold(value: Any, shift: Any) -> Any:
    """Add up the ``2^shift`` lanes of each head; all of them get the sum."""
    if shift > 0:
        value = value + swap_1(value)
    if shift > 1:
        value = value + swap_2(value)
    if shift > 2:
        value = value + swap_4(value)
    return value


def use_threads(numbers: int) -> None:
    """As many threads as torch uses for work on ``numbers``; one where waking others takes longer."""
    threads = torch.get_num_threads()
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS) if numbers > ALONE_UP_TO else 1)
    if torch.get_num_threads() != threads:  # numba's first call resets the OpenMP setting that torch reads
        torch.set_num_threads(threads)


def draw_seed() -> np.uint32:
    """32 random bits from torch's generator."""
    return np.uint32(int(torch.randint(2**32, ())))


def dropout_limit(rate: float) -> np.uint32:
    """A dropout rate as `keep` takes it, in units of 2^-32."""
    return np.uint32(min(round(rate * 2**32), 2**32 - 1))


@njit(**PARALLEL)
def _pack(flat: Array, place: Array, out: Array) -> None:
    for i in prange(len(flat)):
        row = out[i]
        for position in range(len(row)):
            row[position] = 0
        for k in range(len(place)):
            row[place[k]] = flat[i, k]


@njit(**PARALLEL)
def _unpack(rows: Array, place: Array, out: Array) -> None:
    for i in prange(len(rows)):
        for k in range(len(place)):
            out[i, k] = rows[i, place[k]]
