"""From a SMILES to a graph of integer codes: what the atom and bond columns mean."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from rdkit import Chem, rdBase
from torch_geometric.data import Data

from detgraph.errors import unknown_name

Codes = Callable[[Any], tuple[int, ...]]  # an RDKit atom or bond -> one code per column

# The official vocabulary of ZINC: element, hydrogens written in the SMILES, charge.
ZINC_ATOMS = (
    *("C", "O", "N", "F", "C H1", "S", "Cl", "O -", "N H1 +", "Br", "N H3 +", "N H2 +", "N +", "N -"),
    *("S -", "I", "P", "O H1 +", "N H1 -", "O +", "S +", "P H1", "P H2", "C H2 -", "P +", "S H1 +"),
    *("C H1 -", "P H1 +"),
)
_ZINC_CODES = {word: code for code, word in enumerate(ZINC_ATOMS)}


@dataclass(frozen=True)
class Featurizer:
    """Turns a SMILES into a graph of codes; a value outside its column gets the column's last code."""

    name: str
    atom_sizes: tuple[int, ...]  # how many codes each column has
    bond_sizes: tuple[int, ...]
    atom_codes: Codes = field(repr=False)
    bond_codes: Codes = field(repr=False)
    kekulized: bool = False  # aromatic rings as alternating single and double bonds

    def __call__(self, smiles: str) -> Data:
        """The graph of a SMILES; raises ValueError with the reason if RDKit refuses it."""
        mol = parse_smiles(smiles)
        if self.kekulized:
            Chem.Kekulize(mol, clearAromaticFlags=True)
        ends: list[tuple[int, int]] = []
        bonds: list[tuple[int, ...]] = []
        for bond in mol.GetBonds():
            begin, end = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            ends += [(begin, end), (end, begin)]
            bonds += [self.bond_codes(bond)] * 2
        return Data(
            x=_clip([self.atom_codes(atom) for atom in mol.GetAtoms()], self.atom_sizes),
            edge_index=torch.tensor(ends, dtype=torch.int64).view(-1, 2).t().contiguous(),  # (2, bonds·2)
            edge_attr=_clip(bonds, self.bond_sizes),
        )


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


def _clip(rows: Sequence[tuple[int, ...]], sizes: tuple[int, ...]) -> torch.Tensor:
    """Codes as a tensor (rows, columns); a code outside its column becomes the column's last one."""
    codes = torch.tensor(rows, dtype=torch.int64).view(-1, len(sizes))
    last = torch.tensor(sizes) - 1
    return torch.where((codes < 0) | (codes > last), last, codes)


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
