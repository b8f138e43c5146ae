"""The official ZINC: files as PyG writes them, read without their pickles' code."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset

from detgraph.data.benchmarks import load_benchmark
from detgraph.data.molecules import Molecules, make_molecules
from detgraph.data.pyg_zinc import read_pyg_zinc
from detgraph.errors import DetError

SMILES = ("CCO", "C", "c1ccccc1Cl", "C#N", "CC(=O)[O-]", "CCN", "FC1CC1")
SPLITS = {"train": np.array([0, 1, 2]), "valid": np.array([3, 4]), "test": np.array([5, 6])}


def reference() -> Molecules:
    y = np.arange(7.0)[:, None]
    return make_molecules(SMILES, y, targets=("y",), splits=SPLITS, featurizer="zinc")


def write_as_pyg_does(folder: Path) -> None:
    folder.mkdir(parents=True)
    known = reference()
    for split, name in (("train", "train"), ("valid", "val"), ("test", "test")):
        graphs = []
        for row in known.splits[split].tolist():
            # An adjacency matrix, as in the original files.
            graph = known.graphs[row]
            adjacency = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.long)
            adjacency[graph.edge_index[0], graph.edge_index[1]] = graph.edge_attr[:, 0]
            edge_index = adjacency.nonzero().t().contiguous()
            kinds = adjacency[edge_index[0], edge_index[1]]
            graphs.append(
                Data(x=graph.x, edge_index=edge_index, edge_attr=kinds, y=torch.tensor([float(row)]))
            )
        InMemoryDataset.save(graphs, str(folder / f"{name}.pt"))


def test_the_same_graphs_as_from_smiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_as_pyg_does(tmp_path / "ZINC/subset/processed")
    monkeypatch.setenv("DET_DATA", str(tmp_path))
    found, known = load_benchmark("zinc-official"), reference()
    assert isinstance(found, Molecules)
    assert found.y.tolist() == known.y.tolist()
    assert {name: rows.tolist() for name, rows in found.splits.items()} == {
        name: rows.tolist() for name, rows in known.splits.items()
    }
    assert found.graphs.paths.distance.tolist() == known.graphs.paths.distance.tolist()
    for ours, other in zip(found.graphs, known.graphs, strict=True):
        assert ours.x.equal(other.x)
        pairs = [
            sorted(torch.cat([graph.edge_index, graph.edge_attr.t()]).t().tolist()) for graph in (ours, other)
        ]
        assert pairs[0] == pairs[1]
    assert len(set(found.smiles)) == 7  # they tell molecules apart


def test_other_files_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "processed"
    write_as_pyg_does(folder)
    torch.save(({"x": torch.ones(1)}, {}, Data), folder / "val.pt")
    with pytest.raises(DetError, match=r"val\.pt: not a file of PyG's ZINC: .*subset=True"):
        read_pyg_zinc(folder)
    torch.save(Path("/"), folder / "val.pt")  # any other object
    with pytest.raises(DetError, match=r"val\.pt: not a file of PyG's ZINC"):
        read_pyg_zinc(folder)
