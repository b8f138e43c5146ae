"""Atoms and bonds of RDKit molecules as tables of numbers.

Asking RDKit for each property of each atom takes longer than parsing the SMILES. Its binary form has them
all: known layouts of it are read here by a compiled loop, everything else (bonds with a direction, isotopes,
over 255 atoms, another version) property by property.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from detgraph.data.paths import starts

ATOM_COLUMNS = (
    *("number", "chirality", "charge", "explicit_hydrogens", "implicit_hydrogens"),
    *("radicals", "hybridization", "aromatic", "in_ring"),
)
BOND_COLUMNS = ("begin", "end", "type", "stereo", "conjugated")

HEADER = bytes.fromhex("efbeadde 00000000 10000000 04000000 00000000")  # magic number, version 16.4.0
FIRST_ATOM = len(HEADER) + 10  # after both counts and two tags
ATOMS_END, RINGS = 0x0B, 0x42  # tags
SINGLE, SP3 = 1, 4  # what is left out


class Tables(NamedTuple):
    """Atoms and bonds of several molecules, one after the other, in RDKit's own numbers."""

    atom_counts: NDArray[np.int64]  # (molecules,)
    bond_counts: NDArray[np.int64]
    atoms: NDArray[np.int16]  # (atoms, ATOM_COLUMNS)
    bonds: NDArray[np.int32]  # (bonds, BOND_COLUMNS), atoms numbered within their molecule

    def atom(self, column: str) -> NDArray[np.int16]:
        """(atoms,) one property."""
        return self.atoms[:, ATOM_COLUMNS.index(column)]

    def bond(self, column: str) -> NDArray[np.int32]:
        """(bonds,) one property."""
        return self.bonds[:, BOND_COLUMNS.index(column)]

    def degree(self) -> NDArray[np.int64]:
        """(atoms,) number of bonds."""
        first = np.repeat(np.cumsum(self.atom_counts) - self.atom_counts, self.bond_counts)
        ends = np.concatenate([first + self.bond("begin"), first + self.bond("end")])
        return np.bincount(ends, minlength=len(self.atoms))


def make_tables(molecules: Sequence[Any]) -> Tables:
    """The tables of RDKit molecules."""
    atom_counts = np.array([mol.GetNumAtoms() for mol in molecules], np.int64)
    bond_counts = np.array([mol.GetNumBonds() for mol in molecules], np.int64)
    tables = Tables(
        atom_counts,
        bond_counts,
        np.zeros((int(atom_counts.sum()), len(ATOM_COLUMNS)), np.int16),
        np.zeros((int(bond_counts.sum()), len(BOND_COLUMNS)), np.int32),
    )
    binary = [mol.ToBinary() for mol in molecules]
    known = np.array([part.startswith(HEADER) for part in binary], np.bool_)
    first_atom, first_bond = starts(atom_counts), starts(bond_counts)
    first_byte = starts(np.array([len(part) for part in binary], np.int64))
    data = np.frombuffer(b"".join(binary), np.uint8)
    decode(data, first_byte, first_atom, first_bond, known, tables.atoms, tables.bonds)
    for m in np.flatnonzero(~known).tolist():
        atoms, bonds = slice(*first_atom[m : m + 2]), slice(*first_bond[m : m + 2])
        ask(molecules[m], tables.atoms[atoms], tables.bonds[bonds])
    return tables


def ask(mol: Any, atoms: NDArray[np.int16], bonds: NDArray[np.int32]) -> None:
    """Fill the rows of a molecule property by property."""
    for row, atom in enumerate(mol.GetAtoms()):
        atoms[row] = (
            atom.GetAtomicNum(),
            int(atom.GetChiralTag()),
            atom.GetFormalCharge(),
            atom.GetNumExplicitHs(),
            atom.GetNumImplicitHs(),
            atom.GetNumRadicalElectrons(),
            int(atom.GetHybridization()),
            atom.GetIsAromatic(),
            atom.IsInRing(),
        )
    for row, bond in enumerate(mol.GetBonds()):
        bonds[row] = (
            bond.GetBeginAtomIdx(),
            bond.GetEndAtomIdx(),
            int(bond.GetBondType()),
            int(bond.GetStereo()),
            bond.GetIsConjugated(),
        )


@njit(cache=True)
def decode(
    data: Any, first_byte: Any, first_atom: Any, first_bond: Any, known: Any, atoms: Any, bonds: Any
) -> None:
    """Fill the rows of all molecules whose layout is ``known``; that is set to False where it is not."""
    for m in range(len(known)):
        if known[m]:
            own = data[first_byte[m] : first_byte[m + 1]]
            rows = atoms[first_atom[m] : first_atom[m + 1]]
            known[m] = len(rows) < 256 and decode_one(own, rows, bonds[first_bond[m] : first_bond[m + 1]])


@njit(cache=True)
def decode_one(data: Any, atoms: Any, bonds: Any) -> bool:
    """Fill the rows of one molecule; False if its layout is not a known one."""
    at = FIRST_ATOM
    for row in range(len(atoms)):
        if at + 6 > len(data):
            return False
        number, flags, given = data[at], data[at + 1], data[at + 2]
        # Properties that need more than a byte, or atoms that are more than an atom
        if flags & 0x9F or data[at + 3] or data[at + 4] or data[at + 5] or given & 0x01:
            return False
        at += 6
        charge = chirality = hydrogens = implicit = radicals = 0
        hybridization = SP3
        for bit in range(1, 8):
            if given >> bit & 1:
                value = data[at]
                at += 1
                if bit == 1:
                    charge = value - 256 if value > 127 else value
                elif bit == 2:
                    chirality = value
                elif bit == 3:
                    hybridization = value
                elif bit == 4:
                    hydrogens = value
                elif bit == 6:
                    implicit = value
                elif bit == 7:
                    radicals = value
        atoms[row, 0], atoms[row, 1], atoms[row, 2], atoms[row, 3] = number, chirality, charge, hydrogens
        atoms[row, 4], atoms[row, 5], atoms[row, 6] = implicit, radicals, hybridization
        atoms[row, 7], atoms[row, 8] = flags >> 6 & 1, 0
    if at >= len(data) or data[at] != ATOMS_END:
        return False
    at += 1
    for row in range(len(bonds)):
        if at + 4 > len(data):
            return False
        flags = data[at + 2]
        if flags & 0x97:  # a direction, stereo, or a query
            return False
        bonds[row, 0], bonds[row, 1] = data[at], data[at + 1]
        bonds[row, 2], bonds[row, 3], bonds[row, 4] = SINGLE, 0, flags >> 5 & 1
        at += 3
        if flags & 0x08:
            bonds[row, 2] = data[at]
            at += 1
    if at + 5 > len(data) or data[at] != RINGS:
        return False
    rings = data[at + 1] + 256 * data[at + 2]
    at += 5
    for _ in range(rings):
        size = data[at]
        if at + 1 + size > len(data):
            return False
        for place in range(at + 1, at + 1 + size):
            atoms[data[place], 8] = 1
        at += 1 + size
    return True
