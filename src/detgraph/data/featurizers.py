"""From a SMILES to integer codes: what the atom and bond columns mean."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem, rdBase

from detgraph.data.rdkit_tables import Tables, make_tables
from detgraph.errors import unknown_name

MOST_ATOMS = 1000  # of a molecule: attention looks at all pairs of them

Codes = Callable[[Tables], NDArray[np.int64]]  # one code per column, of all atoms or bonds

# The official vocabulary of ZINC: element, hydrogens written in the SMILES, charge.
ZINC_ATOMS = (
    *("C", "O", "N", "F", "C H1", "S", "Cl", "O -", "N H1 +", "Br", "N H3 +", "N H2 +", "N +", "N -"),
    *("S -", "I", "P", "O H1 +", "N H1 -", "O +", "S +", "P H1", "P H2", "C H2 -", "P +", "S H1 +"),
    *("C H1 -", "P H1 +"),
)
_ZINC_CODES = {word: code for code, word in enumerate(ZINC_ATOMS)}


class MoleculeCodes(NamedTuple):
    """One molecule or several, one after the other."""

    atom_counts: NDArray[np.int64]  # (molecules,)
    bond_counts: NDArray[np.int64]
    atoms: NDArray[np.uint8]  # (atoms, columns)
    ends: NDArray[np.uint16]  # (bonds, 2), each bond once, atoms numbered within their molecule
    kinds: NDArray[np.uint8]  # (bonds,)


@dataclass(frozen=True)
class Featurizer:
    """Turns molecules into codes; a value outside its column gets the column's last code.

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
        return self.encode([parse_smiles(smiles)])

    def encode(self, molecules: Sequence[Any]) -> MoleculeCodes:
        """The codes of RDKit molecules, which may be changed."""
        if self.kekulized:
            for mol in molecules:
                Chem.Kekulize(mol, clearAromaticFlags=True)
        tables = make_tables(molecules)
        bonds = _clip(self.bond_codes(tables), self.bond_sizes)
        return MoleculeCodes(
            tables.atom_counts,
            tables.bond_counts,
            _clip(self.atom_codes(tables), self.atom_sizes).astype(np.uint8),
            tables.bonds[:, :2].astype(np.uint16),
            np.ravel_multi_index(tuple(bonds.T), self.bond_sizes).astype(np.uint8),
        )


class ReadCodes(NamedTuple):
    """The molecules that could be read, and (row, reason) of the others."""

    molecules: MoleculeCodes
    bad: list[tuple[int, str]]


def read_codes(smiles: Iterable[str], featurizer: str) -> ReadCodes:
    """The codes of some SMILES."""
    molecules, bad = list[Any](), list[tuple[int, str]]()
    for row, text in enumerate(smiles):
        try:
            molecules.append(parse_smiles(text))
        except ValueError as reason:
            bad.append((row, str(reason)))
    return ReadCodes(get_featurizer(featurizer).encode(molecules), bad)


def parse_smiles(smiles: str) -> Any:
    """An RDKit molecule; whatever follows a blank (CXSMILES, a name) is not read.

    Raises:
        ValueError: with RDKit's reason, which RDKit itself would only print, or if it has too many atoms.
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
    if mol.GetNumAtoms() > MOST_ATOMS:
        raise ValueError(f"it has {mol.GetNumAtoms():,} atoms, at most {MOST_ATOMS:,} can be read")
    return mol


def get_featurizer(name: str) -> Featurizer:
    """The featurizer of that name."""
    if name not in FEATURIZERS:
        raise unknown_name("featurizer", name, FEATURIZERS)
    return FEATURIZERS[name]


def _clip(codes: NDArray[np.int64], sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Codes (rows, columns); one outside its column becomes the column's last one."""
    last = np.array(sizes) - 1
    return np.where((codes < 0) | (codes > last), last, codes)


def _standard_atoms(tables: Tables) -> NDArray[np.int64]:
    hydrogens = tables.atom("explicit_hydrogens") + tables.atom("implicit_hydrogens")
    columns = (
        tables.atom("number"),
        tables.atom("chirality"),
        tables.degree() + hydrogens,
        tables.atom("charge") + 5,
        hydrogens,
        *(tables.atom(name) for name in ("radicals", "hybridization", "aromatic", "in_ring")),
    )
    return np.stack([column.astype(np.int64) for column in columns], axis=1)


def _standard_bonds(tables: Tables) -> NDArray[np.int64]:
    types = _bond_types(tables, other=4)
    return np.stack([types, tables.bond("stereo"), tables.bond("conjugated")], axis=1).astype(np.int64)


def _zinc_atoms(tables: Tables) -> NDArray[np.int64]:
    """The official codes.

    Kekulising with cleared flags drops the hydrogen of an aromatic [nH], so the hydrogens that are left
    explicit are those of charged atoms and of stereo centres: the rule behind words such as "C H1".
    """
    columns = [tables.atom(name) for name in ("number", "explicit_hydrogens", "charge")]
    kinds, kind_of = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    codes = [_ZINC_CODES.get(_zinc_word(*kind), len(ZINC_ATOMS)) for kind in kinds.tolist()]
    return np.array(codes, np.int64)[kind_of.reshape(-1)][:, None]


def _zinc_word(number: int, hydrogens: int, charge: int) -> str:
    word: str = _SYMBOLS.GetElementSymbol(number)
    if hydrogens:
        word += f" H{hydrogens}"
    if charge:
        word += " " + ("+" if charge > 0 else "-") * abs(charge)
    return word


def _zinc_bonds(tables: Tables) -> NDArray[np.int64]:
    return _bond_types(tables, other=3)[:, None] + 1  # 1 single, 2 double, 3 triple, 4 other


def _bond_types(tables: Tables, other: int) -> NDArray[np.int64]:
    """0 single, 1 double, 2 triple, 3 aromatic, or ``other``."""
    types = np.full(len(tables.bonds), other, np.int64)
    for code, kind in enumerate(_BOND_TYPES):
        types[tables.bond("type") == int(kind)] = code
    return types


_SYMBOLS = Chem.GetPeriodicTable()
_BOND_TYPES = (Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE, Chem.BondType.AROMATIC)

FEATURIZERS = {
    featurizer.name: featurizer
    for featurizer in (
        Featurizer(
            name="standard",
            # atomic number, chirality, degree, charge, hydrogens, radical electrons, hybridisation,
            # aromatic, in a ring
            atom_sizes=(120, 4, 12, 12, 10, 6, 9, 2, 2),
            bond_sizes=(5, 7, 2),  # type, stereo, conjugated
            atom_codes=_standard_atoms,
            bond_codes=_standard_bonds,
        ),
        Featurizer(
            name="zinc",
            atom_sizes=(63,),  # 28 words and "other"; 63 codes and padding fill a table of 64
            bond_sizes=(63,),
            atom_codes=_zinc_atoms,
            bond_codes=_zinc_bonds,
            kekulized=True,
        ),
    )
}
