"""Rings of molecules: how many atoms the smallest ring through each bond has."""

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from detgraph.data.paths import OPTIONS, neighbor_lists

LARGEST = 20  # larger rings count as this
RING_CODES = LARGEST - 1  # 0 = in no ring, 1 = three atoms, …


def ring_codes(
    atom_start: NDArray[np.int64], bond_start: NDArray[np.int64], ends: NDArray[np.uint16]
) -> NDArray[np.uint8]:
    """(bonds,) the ring of each bond, a code below `RING_CODES`; the arguments are those of `Bonds`."""
    codes = np.zeros(len(ends), np.uint8)
    smallest_rings(atom_start, bond_start, ends, codes)
    return codes


@njit(**OPTIONS, parallel=True)
def smallest_rings(atom_start: Any, bond_start: Any, ends: Any, codes: Any) -> None:
    """Without its bond, how far are two atoms apart? One more is the ring."""
    for m in prange(len(atom_start) - 1):
        size = atom_start[m + 1] - atom_start[m]
        start, near, near_bond = neighbor_lists(ends, bond_start[m], bond_start[m + 1], size)
        order, distance = np.empty(size, np.int64), np.empty(size, np.int64)
        for bond in range(bond_start[m], bond_start[m + 1]):
            goal = ends[bond, 1]
            distance[:] = -1
            order[0] = ends[bond, 0]
            distance[order[0]] = 0
            count, place = 1, 0
            while place < count and distance[goal] < 0:
                here = order[place]
                for at in range(start[here], start[here + 1]):
                    if near_bond[at] != bond and distance[near[at]] < 0:
                        distance[near[at]] = distance[here] + 1
                        order[count] = near[at]
                        count += 1
                place += 1
            if distance[goal] > 0:
                codes[bond] = min(distance[goal] + 1, LARGEST) - 2
