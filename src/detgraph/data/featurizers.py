"""From a SMILES to integer codes: what the atom and bond columns mean."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem, rdBase

from detgraph.errors import unknown_name

Codes = Callable[[Any], tuple[int, ...]]  # an RDKit atom or bond -> one code per column

# The official vocabulary of ZINC: element, hydrogens written in the SMILES, charge.
ZINC_ATOMS = (
    *("C", "O", "N", "F", "C H1", "S", "Cl", "O -", "N H1 +", "Br", "N H3 +", "N H2 +", "N +", "N -"),
    *("S -", "I", "P", "O H1 +", "N H1 -", "O +", "S +", "P H1", "P H2", "C H2 -", "P +", "S H1 +"),
    *("C H1 -", "P H1 +"),
)
_ZINC_CODES = {word: code for code, word in enumerate(ZINC_ATOMS)}


class MoleculeCodes(NamedTuple):
    """One molecule."""

    atoms: NDArray[np.uint8]  # (atoms, columns)
    ends: NDArray[np.uint16]  # (bonds, 2), each bond once
    kinds: NDArray[np.uint8]  # (bonds,)


@dataclass(frozen=True)
class Featurizer:
    """Turns a SMILES into codes; a value outside its column gets the column's last code.

    A bond's columns together are its kind: one number, which `bond_columns` takes apart again.
    """

    name: str
    atom_sizes: tuple[int, ...]  # how many codes each column has
    bond_sizes: tuple[int, ...]
    atom_codes: Codes = field(repr=False)
    bond_codes: Codes = field(repr=False)
    kekulized: bool = False  # aromatic rings as alternating single and double bonds

    @property
    def bond_kinds(self) -> int:
        """How many kinds of bonds there can be."""
        return prod(self.bond_sizes)

    def bond_columns(self, kinds: NDArray[Any]) -> NDArray[np.int64]:
        """(bonds,) kinds to (bonds, columns) codes."""
        return np.stack(np.unravel_index(kinds, self.bond_sizes), axis=-1).astype(np.int64)

    def __call__(self, smiles: str) -> MoleculeCodes:
        """The codes of a SMILES; raises ValueError with the reason if RDKit refuses it."""
        mol = parse_smiles(smiles)
        if self.kekulized:
            Chem.Kekulize(mol, clearAromaticFlags=True)
        atoms: list[int] = []
        for atom in mol.GetAtoms():
            atoms += self.atom_codes(atom)
        ends: list[int] = []
        bonds: list[int] = []
        for bond in mol.GetBonds():
            ends += (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
            bonds += self.bond_codes(bond)
        columns = _clip(bonds, self.bond_sizes)
        return MoleculeCodes(
            _clip(atoms, self.atom_sizes).astype(np.uint8),
            np.array(ends, np.uint16).reshape(-1, 2),
            np.ravel_multi_index(tuple(columns.T), self.bond_sizes).astype(np.uint8),
        )


class ReadCodes(NamedTuple):
    """The molecules that could be read, and (row, reason) of the others."""

    molecules: list[MoleculeCodes]
    bad: list[tuple[int, str]]


def read_codes(smiles: Iterable[str], featurizer: str) -> ReadCodes:
    """The codes of some SMILES."""
    encode, read = get_featurizer(featurizer), ReadCodes([], [])
    for row, text in enumerate(smiles):
        try:
            read.molecules.append(encode(text))
        except ValueError as reason:
            read.bad.append((row, str(reason)))
    return read


def parse_smiles(smiles: str) -> Any:
    """An RDKit molecule; whatever follows a blank (CXSMILES, a name) is not read.

    Raises:
        ValueError: with RDKit's reason, which RDKit itself would only print.
    """
    words = smiles.split()
    if not words:
        raise ValueError("it is empty")
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(words[0])
        if mol is None:
            unchecked = Chem.MolFromSmiles(words[0], sanitize=False)
            if unchecked is None:
                raise ValueError("it is not SMILES (check brackets, ring numbers and element symbols)")
            problems = Chem.DetectChemistryProblems(unchecked)
            raise ValueError(problems[0].Message() if problems else "it describes no possible molecule")
    return mol


def get_featurizer(name: str) -> Featurizer:
    """The featurizer of that name."""
    if name not in FEATURIZERS:
        raise unknown_name("featurizer", name, FEATURIZERS)
    return FEATURIZERS[name]


def _clip(codes: list[int], sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Codes as an array (rows, columns); a code outside its column becomes the column's last one."""
    rows, last = np.array(codes, np.int64).reshape(-1, len(sizes)), np.array(sizes) - 1
    return np.where((rows < 0) | (rows > last), last, rows)


def _standard_atom(atom: Any) -> tuple[int, ...]:
    return (
        atom.GetAtomicNum(),
        int(atom.GetChiralTag()),
        atom.GetTotalDegree(),
        atom.GetFormalCharge() + 5,
        atom.GetTotalNumHs(),
        atom.GetNumRadicalElectrons(),
        int(atom.GetHybridization()),
        int(atom.GetIsAromatic()),
        int(atom.IsInRing()),
    )


def _standard_bond(bond: Any) -> tuple[int, ...]:
    return (_BOND_TYPES.get(bond.GetBondType(), 4), int(bond.GetStereo()), int(bond.GetIsConjugated()))


def _zinc_atom(atom: Any) -> tuple[int, ...]:
    """The official code of an atom.

    Kekulising with cleared flags drops the hydrogen of an aromatic [nH], so the hydrogens that are left
    explicit are those of charged atoms and of stereo centres: the rule behind words such as "C H1".
    """
    hydrogens, charge = atom.GetNumExplicitHs(), atom.GetFormalCharge()
    word = atom.GetSymbol()
    if hydrogens:
        word += f" H{hydrogens}"
    if charge:
        word += " " + ("+" if charge > 0 else "-") * abs(charge)
    return (_ZINC_CODES.get(word, len(ZINC_ATOMS)),)


def _zinc_bond(bond: Any) -> tuple[int, ...]:
    return (_BOND_TYPES.get(bond.GetBondType(), 3) + 1,)  # 1 single, 2 double, 3 triple, 4 other


_BOND_TYPES = {
    Chem.BondType.SINGLE: 0,
    Chem.BondType.DOUBLE: 1,
    Chem.BondType.TRIPLE: 2,
    Chem.BondType.AROMATIC: 3,
}

FEATURIZERS = {
    featurizer.name: featurizer
    for featurizer in (
        Featurizer(
            name="standard",
            # atomic number, chirality, degree, charge, hydrogens, radical electrons, hybridisation,
            # aromatic, in a ring
            atom_sizes=(120, 4, 12, 12, 10, 6, 9, 2, 2),
            bond_sizes=(5, 7, 2),  # type, stereo, conjugated
            atom_codes=_standard_atom,
            bond_codes=_standard_bond,
        ),
        Featurizer(
            name="zinc",
            atom_sizes=(63,),  # 28 words and "other"; 63 codes and padding fill a table of 64
            bond_sizes=(63,),
            atom_codes=_zinc_atom,
            bond_codes=_zinc_bond,
            kekulized=True,
        ),
    )
}
