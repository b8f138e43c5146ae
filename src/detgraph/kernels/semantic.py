"""The operators ⊖ and their derivatives, on vectors of lanes."""

from typing import Any

import numpy as np
from numba import njit

from detgraph.kernels.vector import LANES, absolute, fill, load, sign

NONE, L1, L2, DOT = 0, 1, 2, 3
FORMS = {"l1": L1, "l2": L2, "dot": DOT}
"""Forms of ⊖ that have a kernel: those with one positive weight a channel."""


@njit
def score(h: Any, i: Any, j: Any, weight: Any, at_weight: Any, steps: Any, form: Any) -> Any:
    """``v_i ⊖ v_j`` of one block of lanes, at positions ``i`` and ``j`` of ``h``; lanes not yet folded."""
    total = fill(np.float32(0))
    if form == L1:
        for at in range(0, steps * LANES, LANES):
            total = total - load(weight, at_weight + at) * absolute(load(h, i + at) - load(h, j + at))
    elif form == L2:
        for at in range(0, steps * LANES, LANES):
            apart = load(h, i + at) - load(h, j + at)
            total = total - load(weight, at_weight + at) * (apart * apart)
    elif form == DOT:
        for at in range(0, steps * LANES, LANES):
            total = total + load(weight, at_weight + at) * (load(h, i + at) * load(h, j + at))
    return total


@njit
def slope(own: Any, other: Any, weight: Any, form: Any) -> Any:
    """Derivative in ``own``. ⊖ is symmetric: exchange the two for that in ``other``."""
    if form == L1:
        return weight * sign(other - own)
    if form == L2:
        return fill(np.float32(2)) * weight * (other - own)
    return weight * other


@njit
def weight_slope(own: Any, other: Any, form: Any) -> Any:
    """Derivative in the weight."""
    apart = own - other
    if form == L1:
        return fill(np.float32(0)) - absolute(apart)
    if form == L2:
        return fill(np.float32(0)) - apart * apart
    return own * other
