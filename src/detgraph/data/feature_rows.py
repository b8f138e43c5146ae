"""Rows of node features, dense or sparse CSR: some of them, normalised, sketched."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

SKETCH_CHANNELS = 256


def take_rows(x: Tensor, rows: Tensor) -> Tensor:
    """The ``rows`` (numbers, or where True) of a dense or sparse matrix."""
    if x.layout != torch.sparse_csr:
        return x[rows]
    if rows.dtype == torch.bool:
        rows = rows.nonzero()[:, 0]
    start = x.crow_indices()
    length = start.diff()[rows]
    new_start = torch.cat([length.new_zeros(1), length.cumsum(0)])
    shift = (start[:-1][rows] - new_start[:-1]).repeat_interleave(length)
    place = torch.arange(len(shift)) + shift
    return torch.sparse_csr_tensor(
        new_start, x.col_indices()[place], x.values()[place], (len(rows), x.size(1)), check_invariants=False
    )


def normalize_rows(x: Tensor) -> Tensor:
    """Scale each row to sum to 1 in absolute value; rows of zeros stay."""
    if x.layout != torch.sparse_csr:
        return functional.normalize(x, p=1.0)
    lengths = x.crow_indices().diff()
    row = torch.arange(len(lengths)).repeat_interleave(lengths)
    total = torch.zeros(len(lengths)).index_add(0, row, x.values().abs()).clamp(min=1e-12)
    return torch.sparse_csr_tensor(
        x.crow_indices(), x.col_indices(), x.values() / total[row], x.shape, check_invariants=False
    )


def cosines(x: Tensor) -> Callable[[Tensor], Tensor]:
    """Rows to their cosines with all rows, (block, rows); sparse features stay sparse but for the block."""
    length = torch.zeros(x.size(0))
    if x.layout == torch.sparse_csr:
        row = torch.arange(x.size(0)).repeat_interleave(x.crow_indices().diff())
        length = length.index_add(0, row, x.values().square()).sqrt()
    else:
        length = x.norm(dim=1)
    length = length.clamp(min=1e-12)

    def score(rows: Tensor) -> Tensor:
        block = take_rows(x, rows).to_dense()  # (block, features)
        return (x @ block.t()).t() / (length[rows, None] * length)

    return score


def sketch(x: Tensor) -> Tensor:
    """Dense unit rows; of many features a random projection with nearly the same angles."""
    if x.size(1) > SKETCH_CHANNELS:
        generator = torch.Generator().manual_seed(0)
        x = x @ torch.randn(x.size(1), SKETCH_CHANNELS, generator=generator)
    return functional.normalize(x.to_dense())
