"""Ways through molecules: shortest paths with the bonds met on them, and random walks.

Everything is computed for many molecules at once, which lie one after the other in flat arrays.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

FARTHEST = 254  # the highest code of a distance; longer ones have it, too

OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy"}


class Bonds(NamedTuple):
    """The bonds of some molecules; molecule m has atoms ``atom_start[m]`` to ``atom_start[m + 1]``."""

    atom_start: NDArray[np.int64]  # (molecules + 1,)
    start: NDArray[np.int64]  # (molecules + 1,) where each molecule's bonds begin
    ends: NDArray[np.uint16]  # (bonds, 2), atoms numbered within their molecule
    kinds: NDArray[np.uint8]  # (bonds,)


class Paths(NamedTuple):
    """All atoms as seen from each atom, nearest first; one number a pair of atoms of a molecule.

    Place t of row i is about the t-th atom that a search from i meets.
    """

    atom: NDArray[np.uint16]  # its number in the molecule
    before: NDArray[np.uint16]  # the place of the atom before it on the way from i
    bond: NDArray[np.uint8]  # the kind of the bond between these two
    distance: NDArray[np.uint8]  # bonds on the way, plus 1; 0 where there is no way


def shortest_paths(bonds: Bonds) -> Paths:
    """Shortest paths between all atoms of each molecule, pairs lying molecule by molecule, row by row."""
    sizes = np.diff(bonds.atom_start)
    pair_start = pairs_before(sizes)
    pairs = int(pair_start[-1])
    paths = Paths(
        np.empty(pairs, np.uint16),
        np.empty(pairs, np.uint16),
        np.empty(pairs, np.uint8),
        np.empty(pairs, np.uint8),
    )
    breadth_first(*bonds, pair_start, *paths)
    return paths


def starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each of several parts of so many begins, and the end of the last: (parts + 1,)."""
    return np.concatenate([[0], np.cumsum(counts)])


def pairs_before(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the pairs of each molecule of so many atoms begin, and how many there are: (molecules + 1,)."""
    return starts(sizes.astype(np.int64) ** 2)


@njit(**OPTIONS)
def neighbor_lists(ends: Any, first: int, last: int, size: int) -> Any:
    """Neighbours and bonds of each atom of a molecule in CSR form: start, atoms, bonds."""
    start = np.zeros(size + 2, np.int64)
    for b in range(first, last):
        start[ends[b, 0] + 2] += 1
        start[ends[b, 1] + 2] += 1
    for atom in range(size):
        start[atom + 2] += start[atom + 1]
    atoms, bonds = np.empty(2 * (last - first), np.int64), np.empty(2 * (last - first), np.int64)
    for b in range(first, last):
        for side in range(2):
            own = ends[b, side]
            atoms[start[own + 1]] = ends[b, 1 - side]
            bonds[start[own + 1]] = b
            start[own + 1] += 1
    return start, atoms, bonds


@njit(**OPTIONS, parallel=True)
def breadth_first(
    atom_start: Any,
    bond_start: Any,
    ends: Any,
    kinds: Any,
    pair_start: Any,
    atom: Any,
    before: Any,
    bond: Any,
    distance: Any,
) -> None:
    """Fill the arrays of `Paths`."""
    for m in prange(len(atom_start) - 1):
        size = atom_start[m + 1] - atom_start[m]
        start, near, near_bond = neighbor_lists(ends, bond_start[m], bond_start[m + 1], size)
        for i in range(size):
            row = pair_start[m] + i * size
            met = np.zeros(size, np.bool_)
            met[i] = True
            atom[row], before[row], bond[row], distance[row] = i, 0, 0, 1
            count = 1
            place = 0
            while place < count:
                here = atom[row + place]
                for at in range(start[here], start[here + 1]):
                    j = near[at]
                    if not met[j]:
                        met[j] = True
                        atom[row + count], before[row + count] = j, place
                        bond[row + count] = kinds[near_bond[at]]
                        distance[row + count] = min(distance[row + place] + 1, FARTHEST)
                        count += 1
                place += 1
            for j in range(size):
                if not met[j]:
                    atom[row + count], before[row + count] = j, 0
                    bond[row + count], distance[row + count] = 0, 0
                    count += 1


@njit(**OPTIONS, parallel=True)
def walk(atom_start: Any, bond_start: Any, ends: Any, pair_start: Any, chances: Any) -> None:
    """Chance that a random walk from i is at j after 1, 2, … steps: (pairs, steps), row by row.

    ``P = D⁻¹A``; an atom without bonds goes nowhere.
    """
    steps = chances.shape[1]
    for m in prange(len(atom_start) - 1):
        size = atom_start[m + 1] - atom_start[m]
        start, near, _ = neighbor_lists(ends, bond_start[m], bond_start[m + 1], size)
        here, there = np.zeros(size, np.float32), np.zeros(size, np.float32)
        for i in range(size):
            here[:] = 0
            here[i] = 1
            for step in range(steps):
                there[:] = 0
                for j in range(size):
                    if here[j] > 0:
                        degree = start[j + 1] - start[j]
                        for at in range(start[j], start[j + 1]):
                            there[near[at]] += here[j] / np.float32(degree)
                for j in range(size):
                    chances[pair_start[m] + i * size + j, step] = there[j]
                here, there = there, here
