import gzip
import importlib.util
import os
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from detgraph.data.benchmarks import (
    BENCHMARKS,
    benchmark_options,
    get_benchmark,
    load_benchmark,
    whereabouts,
)
from detgraph.data.molecule_sets import read_pcqm4m, read_zinc
from detgraph.data.molecules import Molecules
from detgraph.data.networks import Network
from detgraph.data.triples import Triples
from detgraph.errors import DetError


def need(name: str) -> None:
    folder = Path(os.environ.get("DET_DATA", ""))
    if any(file.find(folder) is None for file in BENCHMARKS[name].files):
        pytest.skip(f"needs DET_DATA with {BENCHMARKS[name].files[0].path.split('/')[0]}/")


@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_every_row_of_the_table_is_whole(name: str) -> None:
    benchmark = get_benchmark(name)
    assert benchmark.name == name
    assert all((benchmark.title, benchmark.metric, benchmark.split, benchmark.source, benchmark.licence))
    assert isinstance(benchmark_options(name), dict)  # every benchmark can be loaded
    assert len({file.path for file in benchmark.files}) == len(benchmark.files)
    for file in benchmark.files:
        assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
        assert file.url is None or file.url.startswith("https://")
        assert file.sha256 is not None or "checksums are not known" in benchmark.note


def test_unknown_benchmark() -> None:
    with pytest.raises(DetError, match=r"unknown benchmark 'corra'. Did you mean 'cora'\?"):
        load_benchmark("corra")


def test_unknown_options() -> None:
    with pytest.raises(DetError, match=r"benchmark 'cora' takes no options, got 'limit'"):
        load_benchmark("cora", limit=3)
    with pytest.raises(DetError, match=r"Did you mean 'limit'\?"):
        load_benchmark("nci", limits=3)


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "classes"),
    [("cora", 2708, 5278, 7), ("citeseer", 3327, 4552, 6), ("pubmed", 19717, 44324, 3)],
)
def test_citation_networks(name: str, nodes: int, edges: int, classes: int) -> None:
    need(name)
    network = load_benchmark(name)
    assert isinstance(network, Network)
    assert (len(network.nodes), network.graph.edge_index.shape[1]) == (nodes, 2 * edges)
    assert int(network.graph.train_mask.sum()) == 20 * classes


@pytest.mark.parametrize(
    ("name", "entities", "relations", "sizes"),
    [("fb15k-237", 14541, 237, [272115, 17535, 20466]), ("wn18rr", 40943, 11, [86835, 3034, 3134])],
)
def test_knowledge_graphs(name: str, entities: int, relations: int, sizes: list[int]) -> None:
    need(name)
    triples = load_benchmark(name)
    assert isinstance(triples, Triples)
    assert (len(triples.entities), len(triples.relations)) == (entities, relations)
    assert [len(triples.train), len(triples.valid), len(triples.test)] == sizes
    assert triples.entity_names != triples.entities


@pytest.mark.parametrize(("name", "count"), [("umls", 6529), ("kinships", 10686), ("nations", 1992)])
def test_graphs_inside_pykeen(name: str, count: int) -> None:
    if importlib.util.find_spec("pykeen") is None:
        pytest.skip("needs pykeen")
    imported = "pykeen" in sys.modules
    triples = load_benchmark(name)
    assert isinstance(triples, Triples)
    assert len(triples.train) + len(triples.valid) + len(triples.test) == count
    assert ("pykeen" in sys.modules) == imported


def test_papers() -> None:
    network = load_benchmark("papers", num_nodes=300, seed=1)
    assert isinstance(network, Network)
    assert len(network.nodes) == 300


def test_node2vec_ppi() -> None:
    need("ppi-node2vec")
    network = load_benchmark("ppi-node2vec")
    assert isinstance(network, Network)
    assert len(network.nodes) == 3890


def test_zinc_sample() -> None:
    need("zinc")
    molecules = load_benchmark("zinc", limit=200)
    assert isinstance(molecules, Molecules)
    assert molecules.featurizer.name == "zinc"
    assert len(molecules.graphs) == sum(len(rows) for rows in molecules.splits.values()) == 200
    assert len(molecules.splits["train"]) > 130
    assert molecules.notes[0].startswith("the training split is a substitute")
    again = load_benchmark("zinc", limit=200)
    assert isinstance(again, Molecules)
    assert again.smiles == molecules.smiles


def test_zinc_elsewhere_says_what_to_put_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DET_DATA", raising=False)
    monkeypatch.setenv("DET_CACHE", str(tmp_path))
    assert whereabouts(BENCHMARKS["zinc"]) == "not here"
    with pytest.raises(DetError) as caught:
        load_benchmark("zinc")
    message = str(caught.value)
    assert f"put these below {tmp_path}, or below a folder named by DET_DATA" in message
    for name in ("train_SUBSTITUTE", "val_official", "test_official"):
        assert f"zinc12k/{name}.csv" in message


def test_qm9_gap() -> None:
    need("qm9-gap")
    molecules = load_benchmark("qm9-gap", limit=300)
    assert isinstance(molecules, Molecules)
    gaps = torch.from_numpy(molecules.y)
    assert float(gaps.mean()) == pytest.approx(6.858, abs=0.3)  # eV
    assert len(molecules.splits["train"]) == pytest.approx(300 * 110 / 130.831, abs=25)


def test_pcqm4m_sample_is_cxsmiles() -> None:
    need("pcqm4m-v2-sample")
    molecules = load_benchmark("pcqm4m-v2-sample")
    assert isinstance(molecules, Molecules)
    assert len(molecules.graphs) == 1999
    assert "|" in molecules.smiles[0]
    hydrogens = sum(int((graph.x[:, 0] == 1).sum()) for graph in molecules.graphs)
    atoms = sum(graph.num_nodes for graph in molecules.graphs)
    assert hydrogens < 0.01 * atoms  # RDKit keeps only those that fix the stereo of a double bond


def test_nci() -> None:
    molecules = load_benchmark("nci", limit=60)
    assert isinstance(molecules, Molecules)
    assert len(molecules.graphs) == len(set(molecules.smiles)) == 60
    assert [len(molecules.splits[name]) for name in ("train", "valid", "test")] == [48, 6, 6]
    assert max(graph.num_nodes for graph in molecules.graphs) <= 40
    assert "63 over 40 heavy atoms" in molecules.notes[0]


def make_pcqm4m(folder: Path, splits: dict[str, object]) -> Path:
    """Four molecules in the layout of OGB's archive."""
    (folder / "raw").mkdir(parents=True)
    table = "idx,smiles,homolumogap\n0,CCO,5.5\n1,C,8.25\n2,c1ccccc1,6.0\n3,CC,\n"
    (folder / "raw/data.csv.gz").write_bytes(gzip.compress(table.encode()))
    torch.save(splits, folder / "split_dict.pt")
    return folder


@pytest.mark.parametrize("test", ["test", "test-dev"])
def test_pcqm4m_in_the_layout_of_ogb(tmp_path: Path, test: str) -> None:
    splits = {"train": np.array([0, 1]), "valid": np.array([2]), test: np.array([3])}
    molecules = read_pcqm4m(make_pcqm4m(tmp_path / "p", dict(splits)), "pcqm4m-v2")
    assert molecules.name == "pcqm4m-v2"
    assert {name: rows.tolist() for name, rows in molecules.splits.items()} == {
        "train": [0, 1],
        "valid": [2],
        "test": [3],
    }
    assert molecules.y[1].tolist() == [8.25]
    assert np.isnan(molecules.y[3]).all()
    assert "the test targets are hidden: report the validation error" in molecules.notes


def test_pcqm4m_limit(tmp_path: Path) -> None:
    folder = make_pcqm4m(tmp_path / "p", {"train": torch.tensor([0, 1]), "valid": [2], "test": [3]})
    molecules = read_pcqm4m(folder, "pcqm4m", limit=2, seed=0)
    assert len(molecules.graphs) == sum(len(rows) for rows in molecules.splits.values()) == 2


def test_a_target_of_a_benchmark_that_is_no_number_is_named(tmp_path: Path) -> None:
    folder = make_pcqm4m(tmp_path / "p", {"train": [0], "valid": [2], "test": [3]})
    (folder / "raw/data.csv.gz").unlink()
    (folder / "raw/data.csv").write_text("idx,smiles,homolumogap\n0,CCO,5.5\n1,C,x\n2,CC,6.0\n3,CC,\n")
    with pytest.raises(DetError, match=r"data\.csv:3: target 'homolumogap' is 'x', expected a finite number"):
        read_pcqm4m(folder, "pcqm4m")


def test_a_bad_row_of_a_benchmark_is_named_or_left_out(tmp_path: Path) -> None:
    folder = make_pcqm4m(tmp_path / "p", {"train": [0], "valid": [2], "test": [3, 1]})
    file = folder / "raw/data.csv"
    file.write_text("idx,smiles,homolumogap\n0,CCO,5.5\n1,XX,8.25\n2,c1ccccc1,6.0\n3,CC,\n")
    (folder / "raw/data.csv.gz").unlink()
    for limit in (None, 3):
        with pytest.raises(DetError, match=f"{file}:3: the SMILES 'XX' cannot be read.*data.bad_rows=skip"):
            read_pcqm4m(folder, "pcqm4m", limit=limit, seed=1)
    molecules = read_pcqm4m(folder, "pcqm4m", bad_rows="skip")
    assert [len(rows) for rows in molecules.splits.values()] == [1, 1, 1]
    assert [(bad.row, bad.split) for bad in molecules.bad_rows] == [(2, "test")]


def test_a_bad_row_of_zinc_is_named_by_its_own_file(tmp_path: Path) -> None:
    for name, smiles in (("train_SUBSTITUTE", "CCO"), ("val_official", "XX"), ("test_official", "C")):
        (tmp_path / f"{name}.csv").write_text(f"smiles,y\nCC,1\n{smiles},2\n")
    with pytest.raises(DetError, match=r"val_official\.csv:3: the SMILES 'XX'"):
        read_zinc(tmp_path)
    assert len(read_zinc(tmp_path, bad_rows="skip").graphs) == 5


class Malicious:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("exit 1",)


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"train": [0], "valid": [9], "test": [3]}, "split 'valid' names rows up to 9, the table has 4"),
        ({"train": [0], "valid": [1]}, "expected the splits train, valid and test; got train, valid"),
        ({"train": Malicious()}, "not a split dictionary of OGB"),
    ],
)
def test_wrong_split_dictionary(tmp_path: Path, splits: dict[str, object], message: str) -> None:
    folder = make_pcqm4m(tmp_path / "p", splits)
    with pytest.raises(DetError, match=message):
        read_pcqm4m(folder, "pcqm4m")


def test_split_dictionary_of_numpy_1(tmp_path: Path) -> None:
    """OGB's files were written when the private module was still called numpy.core."""
    splits = {"train": np.array([0, 1]), "valid": np.array([2]), "test": np.array([3])}
    folder = make_pcqm4m(tmp_path / "p", dict(splits))
    path = folder / "split_dict.pt"
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content.replace(b"numpy._core.", b"numpy.core."))
    assert read_pcqm4m(folder, "pcqm4m").splits["train"].tolist() == [0, 1]
