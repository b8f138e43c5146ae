"""Batches of molecules, gathered from flat arrays."""

from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from detgraph.data.molecule_graphs import MoleculeGraphs
from detgraph.data.paths import pairs_before, walk
from detgraph.data.rings import ring_codes
from detgraph.nn import MoleculeBatch


def make_batch(
    graphs: MoleculeGraphs,
    y: NDArray[np.float32],
    index: NDArray[np.int64],
    walk_steps: int = 0,
    rings: bool = False,
) -> MoleculeBatch:
    """The molecules at ``index``.

    Args:
        graphs: all molecules.
        y: (molecules, targets) of all molecules.
        index: (batch,) numbers of molecules.
        walk_steps: steps of random walks.
        rings: whether the rings of bonds are read; else they are 0.
    """
    sizes = graphs.sizes[index]
    counts = graphs.bonds.start[index + 1] - graphs.bonds.start[index]
    atoms = gather(graphs.atoms, graphs.bonds.atom_start[index], sizes)
    ends = gather(graphs.bonds.ends, graphs.bonds.start[index], counts)
    kinds = gather(graphs.bonds.kinds, graphs.bonds.start[index], counts)
    paths = [gather(array, graphs.pair_start[index], sizes**2) for array in graphs.paths]
    first_node = np.concatenate([[0], np.cumsum(sizes + 1)])
    first_path, count = pairs_before(sizes), len(paths[0])
    pair, before, place = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    number_pairs(sizes, first_path, pairs_before(sizes + 1), paths[0], paths[1], pair, before, place)
    molecule = np.repeat(np.arange(len(index)), sizes)
    node = np.arange(len(atoms)) + molecule + 1
    atom_start = np.concatenate([[0], np.cumsum(sizes)])
    own = first_path[molecule] + (np.arange(len(atoms)) - atom_start[molecule]) * sizes[molecule]
    offset = np.repeat(first_node[:-1] + 1, counts)[:, None]
    both = (ends.astype(np.int64) + offset).T
    edges = np.concatenate([both, both[::-1]], axis=1)
    degree = np.bincount(edges[1], minlength=int(first_node[-1]))[node]
    bond_start = np.concatenate([[0], np.cumsum(counts)])
    codes = ring_codes(atom_start, bond_start, ends) if rings else np.zeros(len(ends))
    walks = np.empty((count, walk_steps), np.float32)
    if walk_steps:
        walk(atom_start, bond_start, ends, first_path, walks)
        walks = walks[place]
    tensors = (
        atoms.astype(np.int64),
        degree,
        node,
        molecule,
        sizes + 1,
        pair,
        before,
        paths[2].astype(np.int64),
        paths[3].astype(np.int64),
        own,
        edges,
        np.tile(kinds, 2).astype(np.int64),
        np.tile(codes, 2).astype(np.int64),
        y[index],
        walks,
    )
    return MoleculeBatch(*(torch.from_numpy(np.ascontiguousarray(array)) for array in tensors))


def gather(array: NDArray[Any], start: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[Any]:
    """``array[start : start + count]`` of every part, one after the other."""
    out = np.empty((int(count.sum()), *array.shape[1:]), array.dtype)
    at = 0
    for first, length in zip(start.tolist(), count.tolist(), strict=True):
        out[at : at + length] = array[first : first + length]
        at += length
    return out


@njit(cache=True)
def number_pairs(
    sizes: Any, first_path: Any, first_pair: Any, atom: Any, before: Any, pair: Any, shorter: Any, place: Any
) -> None:
    """Each path's pair of nodes, the path one bond shorter, and its pair of atoms, numbered row by row."""
    for m in range(len(sizes)):
        size = sizes[m]
        for i in range(size):
            row = first_path[m] + i * size
            for t in range(row, row + size):
                pair[t] = first_pair[m] + (i + 1) * (size + 1) + atom[t] + 1
                shorter[t] = row + before[t]
                place[t] = row + atom[t]
