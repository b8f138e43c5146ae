"""ComplEx's product: a relation turns and stretches an entity, as complex numbers do."""

import torch
from torch import Tensor


def complex_product(a: Tensor, b: Tensor) -> Tensor:
    r""":math:`a \circ b` of vectors (..., channels) whose first half is real, whose second is imaginary."""
    a_real, a_imaginary = a.chunk(2, dim=-1)
    b_real, b_imaginary = b.chunk(2, dim=-1)
    return torch.cat(
        [a_real * b_real - a_imaginary * b_imaginary, a_real * b_imaginary + a_imaginary * b_real], dim=-1
    )


def cubes(x: Tensor) -> Tensor:
    """``Σ_d |x_d|³`` of complex vectors (rows, channels): what N3 keeps small, (rows,)."""
    real, imaginary = x.chunk(2, dim=-1)
    square = real.square() + imaginary.square() + 1e-12
    return (square * square.sqrt()).sum(dim=-1)  # a power of 1.5 takes twice the time
