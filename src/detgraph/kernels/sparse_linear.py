"""Sparse features × dense weights, with dropout on the stored values: no dense features are ever made."""

from typing import Any

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from detgraph.kernels.choice import fused_on
from detgraph.kernels.lanes import PARALLEL, Array, draw_seed, dropout_limit, use_threads
from detgraph.kernels.vector import LANES, fill, load, store

PIECES = 4  # each sums a gradient of its own; fixed, so that results do not depend on the number of threads
NO_DROPOUT = (np.uint32(0), dropout_limit(0.0), np.float32(1))  # seed, limit, growth of what stays


def sparse_linear(x: Tensor, weight: Tensor, dropout: float = 0.0, row_scale: Tensor | None = None) -> Tensor:
    """``diag(row_scale) dropout(x) Wᵀ`` of CSR features.

    Args:
        x: (rows, features), sparse CSR; gets no gradient.
        weight: (out, features).
        dropout: rate at which stored values are dropped.
        row_scale: (rows,) factors, e.g. 0 for nodes that are dropped; default 1.
    """
    if fused_on(weight):
        out: Tensor = _SparseLinear.apply(x, weight, dropout, row_scale)  # type: ignore[no-untyped-call]  # torch
        return out
    if dropout:
        values = torch.nn.functional.dropout(x.values(), dropout)
        x = torch.sparse_csr_tensor(
            x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=False
        )
    product = x @ weight.t()
    return product if row_scale is None else product * row_scale[:, None]


def sparse_product(matrix: Tensor, x: Tensor) -> Tensor:
    """``A·x`` of a CSR matrix, (rows, channels); without gradient."""
    if not fused_on(x):
        return matrix @ x
    return _multiply(_arrays(matrix), _pad(x), NO_DROPOUT)[:, : x.size(1)]


class _SparseLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, dropout: float, row_scale: Tensor | None) -> Tensor:
        matrix, table = _arrays(x, row_scale), _pad(weight.t())
        drop = (draw_seed(), dropout_limit(dropout), np.float32(1 / (1 - dropout))) if dropout else NO_DROPOUT
        ctx.saved = (matrix, drop, weight.shape)
        return _multiply(matrix, table, drop)[:, : weight.size(0)]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        matrix, drop, (columns, features) = ctx.saved
        padded = _pad(grad)
        out = np.zeros((PIECES, features, padded.shape[1]), np.float32)
        use_threads(len(matrix[2]) * padded.shape[1])
        _transposed_product(*matrix, padded, *drop, out)
        return None, torch.from_numpy(out.sum(axis=0)[:, :columns]).t(), None, None


def _arrays(matrix: Tensor, row_scale: Tensor | None = None) -> tuple[Array, ...]:
    """Row starts, columns, values and factors of rows."""
    scale = np.ones(matrix.size(0), np.float32) if row_scale is None else row_scale.numpy()
    return matrix.crow_indices().numpy(), matrix.col_indices().numpy(), matrix.values().numpy(), scale


def _pad(x: Tensor) -> Array:
    """(rows, channels) in memory row by row, with zeros up to a multiple of LANES."""
    rows, channels = x.shape
    if channels % LANES == 0:
        return np.ascontiguousarray(x.detach().numpy())
    padded = np.zeros((rows, -channels % LANES + channels), np.float32)
    padded[:, :channels] = x.detach().numpy()
    return padded


def _multiply(matrix: tuple[Array, ...], table: Array, drop: tuple[Any, ...]) -> Tensor:
    """The product, (rows, width of the table)."""
    out = np.empty((len(matrix[3]), table.shape[1]), np.float32)
    use_threads(len(matrix[2]) * table.shape[1])
    _product(*matrix, table, *drop, out)
    return torch.from_numpy(out)


@njit
def scramble(x: Any) -> Any:
    """A 32-bit hash."""
    x = np.uint32(np.uint32(x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D))
    x = np.uint32(np.uint32(x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B))
    return np.uint32(x ^ (x >> np.uint32(16)))


@njit
def dropped(value: Any, place: Any, seed: Any, limit: Any, grow: Any) -> Any:
    """The stored value number ``place`` after dropout; random bits come from its number."""
    if limit == 0:
        return value
    stays = scramble(np.uint32(scramble(np.uint32(place)) ^ seed)) >= limit
    return value * grow if stays else np.float32(0)


@njit(**PARALLEL)
def _product(
    start: Array,
    column: Array,
    values: Array,
    scale: Array,
    table: Array,
    seed: Any,
    limit: Any,
    grow: Any,
    out: Array,
) -> None:
    width = table.shape[1]
    for i in prange(len(start) - 1):
        for at in range(0, width, LANES):
            store(out, i * width + at, fill(np.float32(0)))
        for place in range(start[i], start[i + 1]):
            value = scale[i] * dropped(values[place], place, seed, limit, grow)
            if value != 0:
                for at in range(0, width, LANES):
                    total = load(out, i * width + at) + fill(value) * load(table, column[place] * width + at)
                    store(out, i * width + at, total)


@njit(**PARALLEL)
def _transposed_product(
    start: Array,
    column: Array,
    values: Array,
    scale: Array,
    grad: Array,
    seed: Any,
    limit: Any,
    grow: Any,
    out: Array,
) -> None:
    pieces, features, width = out.shape
    rows = len(start) - 1
    for piece in prange(pieces):
        for i in range(rows * piece // pieces, rows * (piece + 1) // pieces):
            for place in range(start[i], start[i + 1]):
                value = scale[i] * dropped(values[place], place, seed, limit, grow)
                if value != 0:
                    for at in range(0, width, LANES):
                        to = (piece * features + column[place]) * width + at
                        store(out, to, load(out, to) + fill(value) * load(grad, i * width + at))
