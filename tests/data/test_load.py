"""From a configuration's data section to the data, with every option handed on."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from detgraph.config import MoleculeData, NetworkData, TripleData, parse_config
from detgraph.data.load import load_molecules, load_network, load_triples
from detgraph.errors import DetError
from detgraph.tasks import EntityTask, GraphTask, NodeTask, build_task


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# --- molecules --------------------------------------------------------------------------------------


def test_molecules_of_a_table(tmp_path: Path) -> None:
    rows = [
        "key,structure,gap,toxic,fold",
        "a,CCO,1.5,0,train",
        "b,XX,2.5,1,train",
        "c,CC,3.5,1,test",
        "d,C,4.5,0,valid",
    ]
    file = write(tmp_path / "m.csv", "\n".join(rows))
    columns = {"smiles_column": "structure", "split_column": "fold"}
    data = load_molecules(
        MoleculeData(file=file, targets=("toxic",), kind="classification", bad_rows="skip", **columns)
    )
    assert data.smiles == ("CCO", "CC", "C")
    assert data.targets == ("toxic",)
    assert data.kind == "classification"
    assert {split: index.tolist() for split, index in data.splits.items()} == {
        "train": [0],
        "valid": [2],
        "test": [1],
    }
    some = load_molecules(MoleculeData(file=file, targets=("gap",), bad_rows="skip", limit=2, **columns))
    assert "a random sample of 2 of 4 molecules, seed 0" in some.notes
    with pytest.raises(DetError, match=r"m\.csv:3: the SMILES 'XX'.*data\.bad_rows=skip"):
        load_molecules(MoleculeData(file=file, targets=("gap",), **columns))


def test_molecules_are_split_by_the_seed(tmp_path: Path) -> None:
    file = write(tmp_path / "m.csv", "smiles,y\n" + "".join(f"{'C' * n},{n}\n" for n in range(1, 31)))
    splits = [
        load_molecules(MoleculeData(file=file, targets=("y",), split_seed=seed)).splits["test"].tolist()
        for seed in (0, 0, 1)
    ]
    assert splits[0] == splits[1] != splits[2]


# --- networks ---------------------------------------------------------------------------------------


def network_files(folder: Path) -> dict[str, Any]:
    nodes = write(
        folder / "people.csv", "key,topic,fold,a\n" + "x,red;blue,train,1\ny,blue,valid,2\nz,red,test,3\n"
    )
    edges = write(folder / "edges.csv", "from,to\nx,y\ny,z\n")
    return {
        "nodes": nodes,
        "edges": edges,
        "id_column": "key",
        "label_column": "topic",
        "split_column": "fold",
    }


def test_network_of_tables(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[7.0], [8.0], [9.0]]))
    data = load_network(NetworkData(**network_files(tmp_path), multi_label=True, features=tmp_path / "x.npy"))
    assert (data.name, data.nodes, data.classes) == ("people", ("x", "y", "z"), ("blue", "red"))
    assert data.graph.y.tolist() == [[1, 1], [1, 0], [0, 1]]
    assert data.graph.x.tolist() == [[7], [8], [9]]
    assert data.graph.test_mask.tolist() == [False, False, True]
    assert load_network(NetworkData(**network_files(tmp_path))).classes == ("blue", "red", "red;blue")


def test_network_is_split_by_the_seed(tmp_path: Path) -> None:
    nodes = write(tmp_path / "n.csv", "id,label\n" + "".join(f"{n},{n % 2}\n" for n in range(40)))
    edges = write(tmp_path / "e.csv", "from,to\n0,1\n")
    masks = [
        load_network(NetworkData(nodes=nodes, edges=edges, split_seed=seed)).graph.test_mask
        for seed in (0, 0, 1)
    ]
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


def test_network_of_one_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "web.npz", edge_index=np.array([[0, 1], [1, 2]]), y=np.array([0, 1, 0]))
    data = load_network(NetworkData(npz=tmp_path / "web.npz"))
    assert (data.name, data.graph.num_nodes, data.graph.edge_index.shape[1]) == ("web", 3, 4)


def test_generated_network_of_a_size() -> None:
    assert load_network(NetworkData(name="papers", num_nodes=120)).graph.num_nodes == 120


# --- triples ----------------------------------------------------------------------------------------


def test_triples_of_files(tmp_path: Path) -> None:
    (tmp_path / "family").mkdir()
    train = write(tmp_path / "family" / "train.tsv", "ann\tmother\tbob\nbob\tson\tann\n")
    valid = write(tmp_path / "family" / "valid.tsv", "ann\tmother\tcid\n")
    test = write(tmp_path / "family" / "test.tsv", "cid\tson\tann\n")
    names = write(tmp_path / "names.tsv", "ann\tAnn A.\n")
    relations = write(tmp_path / "relations.tsv", "son\tis the son of\n")
    data = load_triples(
        TripleData(train=train, valid=valid, test=test, entity_names=names, relation_names=relations)
    )
    assert data.name == "family"
    assert data.entities == ("ann", "bob", "cid")
    assert data.entity_names == ("Ann A.", "bob", "cid")
    assert data.relation_names == ("mother", "is the son of")
    assert (data.train.tolist(), data.valid.tolist(), data.test.tolist()) == (
        [[0, 0, 1], [1, 1, 0]],
        [[0, 0, 2]],
        [[2, 1, 0]],
    )


def test_triples_are_split_by_the_seed(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "".join(f"e{n}\tr\te{n + 1}\n" for n in range(30)))
    tests = [load_triples(TripleData(train=train, split_seed=seed)).test.tolist() for seed in (0, 0, 1)]
    assert tests[0] == tests[1] != tests[2]


# --- benchmarks -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"task": "graph", "data": {"name": "nci", "limit": 20}, "model": {"layers": 1}}, GraphTask),
        ({"task": "node", "data": {"name": "papers", "num_nodes": 120}}, NodeTask),
        ({"task": "entity", "data": {"name": "nations"}}, EntityTask),
    ],
)
def test_a_configuration_becomes_its_task(values: dict[str, Any], kind: type) -> None:
    task = build_task(parse_config(values))
    assert isinstance(task, kind)
    assert task.describe().startswith(values["data"]["name"])


def test_a_benchmark_of_another_task() -> None:
    with pytest.raises(
        DetError, match=r"data\.name: 'papers' is no benchmark for the task 'graph'; see `det data list`"
    ):
        load_molecules(MoleculeData(name="papers"))
    with pytest.raises(DetError, match=r"'nations' is no benchmark for the task 'node'"):
        load_network(NetworkData(name="nations"))
    with pytest.raises(DetError, match=r"'papers' is no benchmark for the task 'entity'"):
        load_triples(TripleData(name="papers"))


def test_an_unknown_benchmark() -> None:
    with pytest.raises(DetError, match=r"unknown benchmark 'coraa'\. Did you mean 'cora'\?"):
        load_network(NetworkData(name="coraa"))


def test_an_option_that_a_benchmark_does_not_have() -> None:
    with pytest.raises(DetError, match=r"benchmark 'cora' takes no options, got 'num_nodes'"):
        load_network(NetworkData(name="cora", num_nodes=5))


def test_cora_as_a_task() -> None:
    if not (Path(os.environ.get("DET_DATA", "nowhere")) / "planetoid").is_dir():
        pytest.skip("needs DET_DATA with planetoid/")
    task = build_task(parse_config({"task": "node", "data": {"name": "cora"}}))
    assert task.describe() == (
        "cora: 2,708 nodes, 5,278 edges, 7 classes, 140 / 500 / 1,000 nodes to train / validate / test"
    )
