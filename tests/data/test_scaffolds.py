"""Splits by scaffold: groups stay whole, nothing is random, what cannot be split is said."""

from pathlib import Path

import pytest
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

from detgraph.data.molecules import read_molecules
from detgraph.data.scaffolds import scaffold_splits
from detgraph.errors import DetError

# 12 benzenes, 4 pyridines, 2 cyclohexanes, a thiophene and a molecule without a ring.
SMILES = (
    *("c1ccccc1" + "C" * length for length in range(12)),
    *("c1ccncc1" + "C" * length for length in range(4)),
    *("C1CCCCC1", "C1CCCCC1O"),
    *("c1ccsc1", "CCO"),
)


def test_a_scaffold_is_in_one_split() -> None:
    splits = scaffold_splits(SMILES, "mine")
    assert [len(splits[name]) for name in ("train", "valid", "test")] == [16, 2, 2]
    scaffolds = {
        name: {MurckoScaffoldSmiles(SMILES[row]) for row in rows}  # type: ignore[no-untyped-call]  # RDKit
        for name, rows in splits.items()
    }
    assert scaffolds == {"train": {"c1ccccc1", "c1ccncc1"}, "valid": {"C1CCCCC1"}, "test": {"c1ccsc1", ""}}
    order = list(range(19, -1, -1))
    turned = scaffold_splits([SMILES[row] for row in order], "mine")
    assert {SMILES[row] for row in splits["train"]} == {SMILES[order[row]] for row in turned["train"]}


def test_rules_of_deepchem() -> None:
    def ring(atoms: str, count: int) -> list[str]:
        return [atoms + "C" * length for length in range(count)]

    benzene, pyridine, thiophene = "c1ccccc1", "c1ccncc1", "c1ccsc1"
    # Validation takes what fits into 90 % together with training: 3 of 20 rows here, not 2.
    splits = scaffold_splits([*ring(thiophene, 2), *ring(benzene, 15), *ring(pyridine, 3)], "mine")
    assert [part.tolist() for part in splits.values()] == [[*range(2, 17)], [17, 18, 19], [0, 1]]
    # Of two groups of one size the later one goes first.
    splits = scaffold_splits([*ring(thiophene, 2), *ring(benzene, 16), *ring(pyridine, 2)], "mine")
    assert [part.tolist() for part in splits.values()] == [[*range(2, 18)], [18, 19], [0, 1]]


def test_what_cannot_be_split() -> None:
    with pytest.raises(DetError, match=r"leaves train empty; the largest of 1 scaffolds has 5 of 5 .*random"):
        scaffold_splits(["C" * length for length in range(1, 6)], "chains")


def test_from_a_table(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("smiles,y,fold\n" + "".join(f"{text},1.5,train\n" for text in (*SMILES, "C(")))
    molecules = read_molecules(path, targets=["y"], split="scaffold", bad_rows="skip")
    assert sorted(map(len, molecules.splits.values())) == [2, 2, 16]
    assert "80/10/10 split by Murcko scaffold" in molecules.notes
    with pytest.raises(DetError, match=r"has a column 'fold', .*data\.split_column=null"):
        read_molecules(path, targets=["y"], split="scaffold", split_column="fold")
    path.write_text(path.read_text().replace("fold", "split"))
    read_molecules(path, targets=["y"], split="scaffold", split_column=None, bad_rows="skip")
