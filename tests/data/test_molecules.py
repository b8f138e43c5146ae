import csv
import gzip
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch_geometric.data import Data

from detgraph.data import molecule_graphs
from detgraph.data.featurizers import FEATURIZERS, ZINC_ATOMS, Featurizer, get_featurizer, read_codes
from detgraph.data.molecule_graphs import MoleculeGraphs
from detgraph.data.molecules import make_molecules, random_splits, read_molecules
from detgraph.data.table_stream import read_rows
from detgraph.errors import DetError

STANDARD, ZINC = get_featurizer("standard"), get_featurizer("zinc")


def graph_of(featurizer: Featurizer, smiles: str) -> Data:
    """A PyG graph."""
    return MoleculeGraphs.of(featurizer, [featurizer(smiles)])[0]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def words(smiles: str) -> list[str]:
    return [ZINC_ATOMS[code] for code in graph_of(ZINC, smiles).x[:, 0].tolist()]


def test_standard_graph_of_ethanol() -> None:
    graph = graph_of(STANDARD, "CCO")
    assert graph.x.dtype == graph.edge_index.dtype == graph.edge_attr.dtype == torch.int64
    assert graph.x.shape == (3, 9)
    assert graph.x[:, 0].tolist() == [6, 6, 8]
    assert graph.x[:, 4].tolist() == [3, 2, 1]  # hydrogens
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.edge_attr.tolist() == [[0, 0, 0]] * 4


@pytest.mark.parametrize("name", sorted(FEATURIZERS))
@pytest.mark.parametrize("smiles", ["C", "[Na+]", "[H][H]", "CC.O", "[238U]", "F/C=C/F", "c1cc[nH]c1", "*C"])
def test_codes_stay_in_their_columns(name: str, smiles: str) -> None:
    featurizer = get_featurizer(name)
    graph = graph_of(featurizer, smiles)
    assert graph.edge_index.shape[1] == graph.edge_attr.shape[0]
    for codes, sizes in ((graph.x, featurizer.atom_sizes), (graph.edge_attr, featurizer.bond_sizes)):
        assert codes.shape[1] == len(sizes)
        assert bool((codes >= 0).all())
        assert bool((codes < torch.tensor(sizes)).all())


def test_single_atom_has_no_bonds() -> None:
    graph = graph_of(ZINC, "C")
    assert graph.x.tolist() == [[0]]
    assert graph.edge_index.shape == (2, 0)
    assert graph.edge_attr.shape == (0, 1)


def test_value_out_of_range_gets_the_last_code() -> None:
    charges = graph_of(STANDARD, "[Mn+7]").x[:, 3].tolist()
    assert charges == [STANDARD.atom_sizes[3] - 1]


def test_zinc_words() -> None:
    assert words("C[C@H](F)[NH3+]") == ["C", "C H1", "F", "N H3 +"]
    assert words("c1cc[nH]c1") == ["C", "C", "C", "N", "C"]
    assert graph_of(ZINC, "[Si]").x.tolist() == [[len(ZINC_ATOMS)]]
    assert sorted(graph_of(ZINC, "c1ccccc1").edge_attr[:, 0].tolist()) == [1] * 6 + [2] * 6


def test_text_after_a_blank_is_not_read() -> None:
    assert graph_of(STANDARD, "CCO |(0,0,0;1,0,0;2,0,0)|").x.tolist() == graph_of(STANDARD, "CCO").x.tolist()
    assert graph_of(STANDARD, "[H]OC ethanol").x.shape[0] == 2  # explicit hydrogens are removed


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("C(C)(C)(C)(C)C", "greater than permitted"),
        ("c1cccc1", "kekulize"),
        ("C(", "not SMILES"),
        ("", "empty"),
    ],
)
def test_reason_of_a_bad_smiles(smiles: str, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=reason):
        graph_of(STANDARD, smiles)
    assert capfd.readouterr() == ("", "")  # RDKit prints nothing of its own


def test_unknown_featurizer() -> None:
    with pytest.raises(DetError, match=r"unknown featurizer 'zink'. Did you mean 'zinc'\?"):
        get_featurizer("zink")


def signature(types: list[int], edges: Any, bonds: list[int]) -> tuple[Any, Any]:
    degrees = Counter(int(end) for end in edges[0])
    return Counter((kind, degrees[atom]) for atom, kind in enumerate(types)), Counter(bonds)


def test_zinc_codes_are_the_official_ones() -> None:
    """Atom types with their degrees, and bond types, of all 2000 molecules; the order of atoms may differ."""
    folder = Path(os.environ.get("DET_DATA", ""), "zinc12k")
    if not (folder / "val_test_official_graphs.npz").is_file():
        pytest.skip("needs DET_DATA with zinc12k/")
    with np.load(folder / "val_test_official_graphs.npz") as file:
        official = dict(file)
    agree = 0
    for split in ("val", "test"):
        with (folder / f"{split}_official.csv").open() as table:
            smiles = [row["smiles"] for row in csv.DictReader(table)]
        for number, text in enumerate(smiles):
            nodes = slice(*official[f"{split}_node_ptr"][number : number + 2])
            edges = slice(*official[f"{split}_edge_ptr"][number : number + 2])
            graph = graph_of(ZINC, text)
            agree += signature(
                graph.x[:, 0].tolist(), graph.edge_index.numpy(), graph.edge_attr[:, 0].tolist()
            ) == signature(
                official[f"{split}_atom_type"][nodes].tolist(),
                official[f"{split}_edge_index"][:, edges],
                official[f"{split}_bond_type"][edges].tolist(),
            )
    assert agree == 2000


TABLE = "id,SMILES,y,z,split\na,CCO,1.5,0,train\nb,C,,1,val\nc,c1ccccc1,-2,1,test\n"


@pytest.mark.parametrize("kind", ["csv", "tsv", "csv.gz", "parquet"])
def test_read_table(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"mine.{kind}"
    if kind == "parquet":
        pl.read_csv(TABLE.encode()).write_parquet(path)
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress(TABLE.encode()))
    else:
        path.write_text(TABLE.replace(",", "," if kind == "csv" else "\t"))
    molecules = read_molecules(path, targets=["y", "z"])
    assert molecules.name == "mine"
    assert molecules.smiles == ("CCO", "C", "c1ccccc1")
    assert {name: rows.tolist() for name, rows in molecules.splits.items()} == {
        "train": [0],
        "valid": [1],
        "test": [2],
    }
    y = torch.from_numpy(molecules.y)
    assert y.dtype == torch.float32
    assert y.shape == (3, 2)
    torch.testing.assert_close(y[:, 0], torch.tensor([1.5, float("nan"), -2.0]), equal_nan=True)


def test_random_split_without_a_column(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", "smiles,y\n" + "CCO,1.5\n" * 50)
    first, again, other = (read_molecules(path, targets=["y"], split_seed=seed) for seed in (0, 0, 1))
    assert [len(first.splits[name]) for name in ("train", "valid", "test")] == [40, 5, 5]
    assert sorted(np.concatenate(list(first.splits.values())).tolist()) == list(range(50))
    assert first.splits["test"].tolist() == again.splits["test"].tolist() != other.splits["test"].tolist()
    assert first.notes == ("no split column: random 80/10/10 split with seed 0",)


def test_rows_without_a_split_are_not_used(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", "smiles,y,split\nCCO,1,train\nC,2,\nCC,3, \nCN,4,valid\n")
    molecules = read_molecules(path, targets=["y"])
    assert {name: rows.tolist() for name, rows in molecules.splits.items()} == {
        "train": [0],
        "valid": [3],
        "test": [],
    }
    assert molecules.notes == ("2 molecules without a split are not used",)


def test_numbers_that_may_be_classes_are_noted(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", "smiles,y,z,split\nCCO,1,1,train\nC,,0.5,train\nCC,0,0,test\n")
    (note,) = read_molecules(path, targets=["y", "z"]).notes
    assert note == "target 'y' holds only 0 and 1: for a class, set data.kind=classification"
    assert read_molecules(path, targets=["y"], kind="classification").notes == ()


def test_text_in_another_encoding_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_bytes("smiles,y\nCCO,1\nC,é\n".encode("latin-1"))
    with pytest.raises(DetError, match=r"m\.csv:3: is not UTF-8 text\. Save the file as UTF-8"):
        read_molecules(path, targets=["y"])
    with pytest.raises(DetError, match=r"m\.csv:3: is not UTF-8 text"):
        list(read_rows(path)[1])


def test_sizes_of_a_random_split() -> None:
    splits = random_splits(10, seed=3, sizes=(5, 2))
    assert [len(rows) for rows in splits.values()] == [5, 2, 3]


def test_no_targets_to_predict_only(tmp_path: Path) -> None:
    molecules = read_molecules(write(tmp_path / "m.csv", "smiles\nCCO\n"), targets=[])
    assert molecules.y[:1].shape == (1, 0)


def test_limit(tmp_path: Path) -> None:
    rows = [f"{'C' * (row + 1)},{row},{'train' if row < 30 else 'valid'}\n" for row in range(40)]
    path = write(tmp_path / "m.csv", f"smiles,y,split\n{''.join(rows)}nonsense,3,train\n")
    some = read_molecules(path, targets=["y"], limit=20, bad_rows="skip")
    assert "a random sample of 20 of 41 molecules, seed 0" in some.notes
    assert len(some.splits["valid"]) > 2  # a table sorted by split loses none of them
    assert [len(text) - 1 for text in some.smiles] == some.y[:, 0].tolist()
    assert len(read_molecules(path, targets=["y"], limit=50, bad_rows="skip").graphs) == 40
    with pytest.raises(DetError, match=r"m\.csv:42: the SMILES 'nonsense'"):
        read_molecules(path, targets=["y"], limit=40)


def test_one_column_under_two_names(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", "smiles,LogP\nCCO,1\n")
    with pytest.raises(DetError, match="names the column 'LogP' twice"):
        read_molecules(path, targets=["logp", "LOGP"])


def test_a_number_too_large_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", "smiles,y\nCCO,1\nC,1e39\nCC,nan\n")
    with pytest.raises(DetError, match=r"m\.csv:3: target 'y' is '1e39', expected a finite number"):
        read_molecules(path, targets=["y"])


def test_pieces_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    read = read_codes(["C" * size for size in (3, 1, 9, 2, 2, 7)], "standard")
    encode = get_featurizer("standard")
    whole = MoleculeGraphs.of(encode, [read.molecules])
    monkeypatch.setattr(molecule_graphs, "PAIRS", 30)
    pieces = list(MoleculeGraphs.in_pieces(encode, read.molecules))
    assert [len(piece) for piece in pieces] == [2, 3, 1]
    for one, other in zip(whole, (graph for piece in pieces for graph in piece), strict=True):
        assert one.x.equal(other.x)
        assert one.edge_index.equal(other.edge_index)
    assert (
        np.concatenate([piece.paths.distance for piece in pieces]).tolist() == whole.paths.distance.tolist()
    )


BAD = "smiles,y,split\nCCO,1,train\nC(C)(C)(C)(C)C,2,train\nC,3,valid\n"


def test_bad_row_fails_with_its_place(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.csv", BAD)
    with pytest.raises(DetError, match="greater than permitted") as caught:
        read_molecules(path, targets=["y"])
    message = str(caught.value)
    assert message.startswith(f"{path}:3: the SMILES 'C(C)(C)(C)(C)C' cannot be read")
    assert message.endswith("set data.bad_rows=skip to leave such rows out.")


def test_bad_row_skipped_is_reported(tmp_path: Path) -> None:
    molecules = read_molecules(write(tmp_path / "bad.csv", BAD), targets=["y"], bad_rows="skip")
    assert molecules.smiles == ("CCO", "C")
    assert molecules.splits["train"].tolist() == [0]
    assert molecules.splits["valid"].tolist() == [1]
    assert [(bad.row, bad.split) for bad in molecules.bad_rows] == [(2, "train")]
    assert "1 of 3 rows were left out" in molecules.notes[0]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("structure,y\nC,1\n", {}, "no column 'smiles'. Columns there: structure, y."),
        ("smiles,y\nC,1\n", {"targets": ["gap"]}, "no column 'gap'. Columns there: smiles, y."),
        ("smiles,y\nC,1\nCC,high\n", {}, ":3: target 'y' is 'high', expected a finite number"),
        ("smiles,y\nC,inf\n", {}, ":2: target 'y' is 'inf', expected a finite number"),
        ("smiles,y\nC,1\nCC,2\n", {"kind": "classification"}, ":3: target 'y' is 2, expected 0 or 1."),
        ("smiles,y,split\nC,1,dev\n", {}, ":2: split is 'dev', expected train, valid, test or blank."),
        ("smiles;y\nC;1\n", {}, "no column 'smiles'. Columns there: smiles;y. The separator seems to be ';'"),
        ("smiles,y\nC,1\n", {"split_column": "fold"}, "no column 'fold'"),
        (f"smiles,y\nC,1\n{'C' * 1001},1\n", {}, "it has 1,001 atoms, at most 1,000 can be read"),
        ("smiles,y\nC(,1\n", {"bad_rows": "skip"}, "no valid molecule among 1 rows. The first, at"),
    ],
)
def test_mistakes_in_a_table(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "mine.csv", text)
    with pytest.raises(DetError) as caught:
        read_molecules(path, **({"targets": ["y"]} | options))
    assert message in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DetError, match=r"nowhere.csv: there is no such file"):
        read_molecules(tmp_path / "nowhere.csv", targets=["y"])


def test_classes_may_be_missing(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", "smiles,toxic\nC,1\nCC,\nCCC,0\n")
    molecules = read_molecules(path, targets=["toxic"], kind="classification")
    assert molecules.kind == "classification"
    assert np.isnan(molecules.y[1]).all()


def test_make_molecules_from_lists() -> None:
    splits = {"train": np.array([0]), "valid": np.array([1]), "test": np.array([], dtype=np.int64)}
    molecules = make_molecules(["C", "CC"], np.array([[1.0], [2.0]]), targets=["y"], splits=splits)
    assert [graph.num_nodes for graph in molecules.graphs] == [1, 2]


def test_endings_in_capitals(tmp_path: Path) -> None:
    assert len(read_molecules(write(tmp_path / "m.CSV", "smiles,y\nCCO,1\n"), targets=["y"]).graphs) == 1
