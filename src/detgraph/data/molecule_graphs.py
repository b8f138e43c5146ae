"""Molecules as flat arrays: all their atoms, bonds and shortest paths one after the other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data
from typing_extensions import override

from detgraph.data.featurizers import Featurizer, MoleculeCodes
from detgraph.data.paths import Bonds, Paths, pairs_before, shortest_paths, starts

PAIRS = 2**24  # of atoms, whose shortest paths are held at once: about 100 MB


@dataclass(frozen=True, eq=False)
class MoleculeGraphs(Sequence[Data]):
    """Many molecules, in memory or mapped from files; ``graphs[i]`` is a PyG graph.

    ``x`` is int64 (atoms, atom columns), ``edge_index`` int64 (2, bonds·2) in both directions, ``edge_attr``
    int64 (bonds·2, bond columns).
    """

    featurizer: Featurizer
    atoms: NDArray[np.uint8]  # (atoms, columns)
    bonds: Bonds
    paths: Paths

    @classmethod
    def of(cls, featurizer: Featurizer, molecules: Sequence[MoleculeCodes]) -> "MoleculeGraphs":
        """The molecules with their shortest paths."""
        atom_counts, bond_counts, atoms, ends, kinds = (
            np.concatenate(parts) for parts in zip(*molecules, strict=True)
        )
        bonds = Bonds(starts(atom_counts), starts(bond_counts), ends, kinds)
        return cls(featurizer, atoms, bonds, shortest_paths(bonds))

    @classmethod
    def in_pieces(cls, featurizer: Featurizer, codes: MoleculeCodes) -> Iterator["MoleculeGraphs"]:
        """The molecules in their order, no more at once than have about `PAIRS` pairs of atoms."""
        atom_start, bond_start = starts(codes.atom_counts), starts(codes.bond_counts)
        cuts = np.flatnonzero(np.diff(np.cumsum(codes.atom_counts**2) // PAIRS)) + 1
        for first, last in pairwise([0, *cuts.tolist(), len(codes.atom_counts)]):
            own, atoms = slice(first, last), slice(atom_start[first], atom_start[last])
            bonds = slice(bond_start[first], bond_start[last])
            counts = codes.atom_counts[own], codes.bond_counts[own]
            part = MoleculeCodes(*counts, codes.atoms[atoms], codes.ends[bonds], codes.kinds[bonds])
            yield cls.of(featurizer, [part])

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """(molecules,) atoms of each."""
        return np.diff(self.bonds.atom_start)

    @cached_property
    def pair_start(self) -> NDArray[np.int64]:
        """(molecules + 1,) where each molecule's pairs begin."""
        return pairs_before(self.sizes)

    def degrees(self, molecules: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many atoms of some molecules have 0, 1, 2 and so on bonds."""
        first = np.repeat(self.bonds.atom_start[:-1], np.diff(self.bonds.start))  # (bonds,) atom
        degree = np.bincount((self.bonds.ends + first[:, None]).ravel(), minlength=len(self.atoms))
        meant = np.zeros(len(self), bool)
        meant[molecules] = True
        return np.bincount(degree[np.repeat(meant, self.sizes)])

    @override
    def __len__(self) -> int:
        return len(self.bonds.atom_start) - 1

    @overload
    def __getitem__(self, index: int) -> Data: ...

    @overload
    def __getitem__(self, index: slice) -> list[Data]: ...

    @override
    def __getitem__(self, index: int | slice) -> Data | list[Data]:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        i = range(len(self))[index]
        own = slice(self.bonds.start[i], self.bonds.start[i + 1])
        ends = torch.from_numpy(self.bonds.ends[own].astype(np.int64)).repeat_interleave(2, dim=0)
        ends[1::2] = ends[1::2].flip(1)
        kinds = torch.from_numpy(self.featurizer.bond_columns(self.bonds.kinds[own]))
        atoms = self.atoms[self.bonds.atom_start[i] : self.bonds.atom_start[i + 1]]
        return Data(
            x=torch.from_numpy(atoms.astype(np.int64)),
            edge_index=ends.t().contiguous(),
            edge_attr=kinds.repeat_interleave(2, dim=0),
        )
