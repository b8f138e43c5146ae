"""A batch of molecules without padding: graphs one after the other, a virtual node before the atoms of each."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from detgraph.data.molecule_graphs import MoleculeGraphs
from detgraph.data.paths import pairs_before, walk


class MoleculeBatch(NamedTuple):
    """Molecules as the model reads them.

    Nodes are virtual nodes and atoms; a *pair* is one of two nodes of a molecule, row by row. ``path_*`` are
    about pairs of atoms alone, those that start at an atom sorted by distance.
    """

    atoms: Tensor  # (atoms, columns) codes
    degree: Tensor  # (atoms,)
    node: Tensor  # (atoms,) the atom's number among the nodes
    sizes: Tensor  # (molecules,) nodes of each molecule
    path_pair: Tensor  # (atom pairs,) number of the pair
    path_before: Tensor  # (atom pairs,) the path without its last bond: its place in these lists
    path_bond: Tensor  # (atom pairs,) kind of the last bond
    path_distance: Tensor  # (atom pairs,) bonds + 1; 0 = no path
    bonds: Tensor  # (2, bonds · 2) nodes (source, target), both directions
    bond_kinds: Tensor  # (bonds · 2,)
    y: Tensor  # (molecules, targets), NaN = missing
    walks: Tensor  # (atom pairs, steps) chances of random walks, in the order of pairs of atoms

    def to(self, device: torch.device) -> "MoleculeBatch":
        """The same on another device."""
        return MoleculeBatch(*(tensor.to(device) for tensor in self))


def make_batch(
    graphs: MoleculeGraphs, y: NDArray[np.float32], index: NDArray[np.int64], walk_steps: int = 0
) -> MoleculeBatch:
    """The molecules at ``index``.

    Args:
        graphs: all molecules.
        y: (molecules, targets) of all molecules.
        index: (batch,) numbers of molecules.
        walk_steps: steps of random walks.
    """
    sizes = graphs.sizes[index]
    counts = graphs.bonds.start[index + 1] - graphs.bonds.start[index]
    atoms = gather(graphs.atoms, graphs.bonds.atom_start[index], sizes)
    ends = gather(graphs.bonds.ends, graphs.bonds.start[index], counts)
    kinds = gather(graphs.bonds.kinds, graphs.bonds.start[index], counts)
    paths = [gather(array, graphs.pair_start[index], sizes**2) for array in graphs.paths]
    first_node = np.concatenate([[0], np.cumsum(sizes + 1)])
    local = Layout(sizes, first_node, np.concatenate([[0], np.cumsum(counts)]))
    pair, before = np.empty(len(paths[0]), np.int64), np.empty(len(paths[0]), np.int64)
    number_pairs(sizes, pairs_before(sizes), pairs_before(sizes + 1), paths[0], paths[1], pair, before)
    node = np.arange(len(atoms)) + np.repeat(np.arange(1, len(index) + 1), sizes)
    offset = np.repeat(first_node[:-1] + 1, counts)[:, None]
    both = (ends.astype(np.int64) + offset).T
    edges = np.concatenate([both, both[::-1]], axis=1)
    degree = np.bincount(edges[1], minlength=int(first_node[-1]))[node]
    walks = np.empty((len(pair), walk_steps), np.float32)
    if walk_steps:
        atom_start = np.concatenate([[0], np.cumsum(sizes)])
        walk(atom_start, local.bond_start, ends, pairs_before(sizes), walks)
    tensors = (
        atoms.astype(np.int64),
        degree,
        node,
        sizes + 1,
        pair,
        before,
        paths[2].astype(np.int64),
        paths[3].astype(np.int64),
        edges,
        np.tile(kinds, 2).astype(np.int64),
        y[index],
        walks,
    )
    return MoleculeBatch(*(torch.from_numpy(np.ascontiguousarray(array)) for array in tensors))
