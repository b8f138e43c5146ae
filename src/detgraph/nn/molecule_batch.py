"""A batch of molecules without padding: one after the other, a virtual node before the atoms of each."""

from typing import NamedTuple

import torch
from torch import Tensor


class MoleculeBatch(NamedTuple):
    """Molecules as the model reads them.

    Nodes are virtual nodes and atoms; a *pair* is one of two nodes of a molecule, row by row. ``path_*`` are
    about pairs of atoms alone, those that start at an atom sorted by distance.
    """

    atoms: Tensor  # (atoms, columns) codes
    degree: Tensor  # (atoms,)
    node: Tensor  # (atoms,) the atom's number among the nodes
    molecule: Tensor  # (atoms,) the molecule it belongs to
    sizes: Tensor  # (molecules,) nodes of each molecule
    path_pair: Tensor  # (atom pairs,) number of the pair
    path_before: Tensor  # (atom pairs,) the path without its last bond: its place in these lists
    path_bond: Tensor  # (atom pairs,) kind of the last bond
    path_distance: Tensor  # (atom pairs,) bonds + 1; 0 = no path
    path_self: Tensor  # (atoms,) the path from each atom to itself
    bonds: Tensor  # (2, bonds · 2) nodes (source, target), both directions
    bond_kinds: Tensor  # (bonds · 2,)
    bond_rings: Tensor  # (bonds · 2,) code of the smallest ring; 0 = none, or not read
    y: Tensor  # (molecules, targets), NaN = missing
    walks: Tensor  # (atom pairs, steps) chance that a random walk is there after 1, 2, … steps

    @property
    def paths(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Pair, shorter path, last bond and distance."""
        return self.path_pair, self.path_before, self.path_bond, self.path_distance

    def to(self, device: torch.device) -> "MoleculeBatch":
        """The same on another device."""
        return MoleculeBatch(*(tensor.to(device) for tensor in self))
