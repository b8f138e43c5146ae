"""Properties of atoms and bonds: read from RDKit's binary form as RDKit itself tells them."""

from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem, RDConfig, rdBase

from detgraph.data import rdkit_tables
from detgraph.data.rdkit_tables import Tables, ask, make_tables

ODD = [
    *("F/C=C/F", "[13CH4]", "[CH3:1]C", "*C", "[Na+].[Cl-]", "[Fe+2]", "[H][H]", "[NH3]->[Pt]", "C"),
    *("C1CC1C2CC2", "O=[N+]([O-])C", "S(=O)(=O)(O)O", "[238U]", "C" * 300, "[CH3]", "c1cc[nH]c1"),
    *("[Cu+2].[O-]S(=O)(=O)[O-]", "N[C@@H](C)C(=O)O", "C1CC12CC2", "c1ccc2ccccc2c1", "C$C", "[2H]C"),
]


def asked(molecules: list[Chem.Mol]) -> Tables:
    """All properties one by one."""
    tables = make_tables(molecules)
    atoms, bonds = np.zeros_like(tables.atoms), np.zeros_like(tables.bonds)
    atom = bond = 0
    for mol in molecules:
        ask(mol, atoms[atom : atom + mol.GetNumAtoms()], bonds[bond : bond + mol.GetNumBonds()])
        atom, bond = atom + mol.GetNumAtoms(), bond + mol.GetNumBonds()
    return tables._replace(atoms=atoms, bonds=bonds)


def collection(count: int) -> list[Chem.Mol]:
    """Molecules of NCI, which come with RDKit."""
    path = Path(RDConfig.RDDataDir, "NCI", "first_5K.smi")
    lines = path.read_text(encoding="utf-8").splitlines()[:count]
    with rdBase.BlockLogs():
        read = [Chem.MolFromSmiles(line.split()[0]) for line in lines]
    return [mol for mol in read if mol is not None]


@pytest.mark.parametrize("kekulized", [False, True])
def test_the_binary_form_tells_the_same(kekulized: bool) -> None:
    molecules = [Chem.MolFromSmiles(smiles) for smiles in ODD] + collection(1500)
    if kekulized:
        for mol in molecules:
            Chem.Kekulize(mol, clearAromaticFlags=True)
    found, expected = make_tables(molecules), asked(molecules)
    assert np.array_equal(found.atoms, expected.atoms)
    assert np.array_equal(found.bonds, expected.bonds)


def test_the_quick_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    slow: list[Chem.Mol] = []
    monkeypatch.setattr(rdkit_tables, "ask", lambda mol, atoms, bonds: slow.append(mol))
    make_tables([Chem.MolFromSmiles(smiles) for smiles in ("CCO", "c1ccccc1", "C[NH3+]", "N[C@@H](C)C(=O)O")])
    assert slow == []
    make_tables([Chem.MolFromSmiles("F/C=C/F"), Chem.MolFromSmiles("C" * 300)])
    assert len(slow) == 2


def test_another_version_is_asked_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    molecules = collection(50)
    expected = make_tables(molecules)
    monkeypatch.setattr(rdkit_tables, "HEADER", b"another version")
    found = make_tables(molecules)
    assert np.array_equal(found.atoms, expected.atoms)
    assert np.array_equal(found.bonds, expected.bonds)


def test_degrees_and_no_molecules() -> None:
    tables = make_tables([Chem.MolFromSmiles(smiles) for smiles in ("CC(C)C", "[Na+]", "C=O")])
    assert tables.degree().tolist() == [1, 3, 1, 1, 0, 1, 1]
    assert make_tables([]).degree().tolist() == []
