import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from detgraph.data.ppi import read_node2vec_ppi, read_ppi
from detgraph.errors import DetError

SPLITS = {"train": (1, [5, 4]), "valid": (3, [3]), "test": (4, [4, 3])}  # first graph id, nodes of each graph


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Small files in the layout of the 24-graph data set: 7 features, 121 labels, 5 graphs."""
    rng = np.random.default_rng(0)
    raw = tmp_path / "raw"
    raw.mkdir()
    for split, (first, sizes) in SPLITS.items():
        total, start, links = sum(sizes), 0, []
        for size in sizes:
            for source in range(start, start + size):
                links.append({"source": source, "target": start + (source - start + 1) % size})
                links.append({"source": source, "target": source})
            start += size
        nodes = [{"id": node} for node in range(total)]
        graph = {"directed": False, "multigraph": False, "graph": {}, "nodes": nodes, "links": links}
        (raw / f"{split}_graph.json").write_text(json.dumps(graph), encoding="utf-8")
        np.save(raw / f"{split}_feats.npy", rng.random((total, 7)))
        np.save(raw / f"{split}_labels.npy", rng.integers(0, 2, (total, 121)))
        np.save(raw / f"{split}_graph_id.npy", np.repeat(np.arange(first, first + len(sizes)), sizes))
    return raw


def test_same_as_torch_geometric(folder: Path) -> None:
    pytest.importorskip("networkx", reason="networkx is not installed: only a referee")
    from torch_geometric.datasets import PPI
    from torch_geometric.utils import coalesce

    graph = read_ppi(folder).graph
    for key, split in (("train_mask", "train"), ("val_mask", "val"), ("test_mask", "test")):
        graphs = list(PPI(str(folder.parent), split=split))
        assert torch.equal(graph.x[graph[key]], torch.cat([part.x for part in graphs]))
        assert torch.equal(graph.y[graph[key]], torch.cat([part.y for part in graphs]))
        for part, number in zip(graphs, graph.graph_id[graph[key]].unique(), strict=True):
            start = int((graph.graph_id == number).nonzero()[0])
            own = graph.graph_id[graph.edge_index[0]] == number
            assert torch.equal(graph.edge_index[:, own] - start, coalesce(part.edge_index, sort_by_row=False))


def test_splits_are_whole_graphs(folder: Path) -> None:
    network = read_ppi(folder)
    graph = network.graph
    assert network.multi_label
    assert len(network.classes) == 121
    assert [int(graph[key].sum()) for key in ("train_mask", "val_mask", "test_mask")] == [9, 3, 7]
    assert graph.graph_id.unique().tolist() == [1, 2, 3, 4, 5]
    assert network.nodes[5] == "2:5"
    assert "19 self-loops dropped" in network.notes


def test_bad_files_are_refused(folder: Path) -> None:
    np.save(folder / "valid_labels.npy", np.ones((9, 121)))
    with pytest.raises(DetError, match=r"valid_labels\.npy: has the shape \(9, 121\), expected 2 dimensions"):
        read_ppi(folder)
    (folder / "train_graph.json").write_text('{"links": [{"source": 0, "target": 99}]}', encoding="utf-8")
    with pytest.raises(DetError, match=r"train_graph\.json: link 0 joins \[0, 99\], expected nodes 0 to 8"):
        read_ppi(folder)
    (folder / "train_graph.json").write_text('{"edges": []}', encoding="utf-8")
    with pytest.raises(DetError, match=r"train_graph\.json: expected node-link JSON .*KeyError: 'links'"):
        read_ppi(folder)
    (folder / "train_feats.npy").unlink()
    with pytest.raises(DetError, match=r"train_feats\.npy: there is no such file"):
        read_ppi(folder)


def test_node2vec_network() -> None:
    path = Path(os.environ.get("DET_DATA", "")) / "ppi_node2vec"
    if "DET_DATA" not in os.environ or not path.is_dir():
        pytest.skip("needs DET_DATA with ppi_node2vec/")
    network = read_node2vec_ppi(path)
    graph = network.graph
    assert graph.x is None
    assert graph.y.shape == (3890, 50)
    assert network.nodes == tuple(str(node) for node in range(1, 3891))
    assert network.classes == tuple(str(label) for label in range(1, 51))
    assert graph.y[0].nonzero().view(-1).tolist() == [5, 15, 36, 38, 45]  # the file: 1 6 16 37 39 46
    # 38739 links are published; 894 of them join a protein with itself
    assert graph.edge_index.shape[1] // 2 == 38739 - 894
    assert "894 self-loops dropped" in network.notes
    assert network.counts_known
    assert "as node2vec does it, a prediction is told how many labels a node has" in network.notes
    assert [int(graph[key].sum()) for key in ("train_mask", "val_mask", "test_mask")] == [2334, 778, 778]


def test_node2vec_errors(tmp_path: Path) -> None:
    (tmp_path / "node2vec_PPI_labels.txt").write_text("1 2\n2 x\n", encoding="utf-8")
    with pytest.raises(DetError, match=r"labels\.txt:2: expected whole numbers from 1"):
        read_node2vec_ppi(tmp_path)
    (tmp_path / "node2vec_PPI_labels.txt").write_text("1 2\n2 1\n", encoding="utf-8")
    (tmp_path / "node2vec_PPI.edgelist").write_text("1 2 1.0\n1 3 1.0\n", encoding="utf-8")
    with pytest.raises(DetError, match=r"edgelist:2: the node '3' is not in"):
        read_node2vec_ppi(tmp_path)
