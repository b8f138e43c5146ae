import re
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from detgraph.data.npz import read_npz, write_npz
from detgraph.data.papers import generate_papers
from detgraph.errors import DetError


def fails(text: str) -> "pytest.RaisesExc[DetError]":
    return pytest.raises(DetError, match=re.escape(text))


def test_npz_dense_and_sparse_agree(tmp_path: Path) -> None:
    x = sparse.random(6, 9, density=0.3, random_state=1, format="csr")
    common = {
        "edge_index": np.array([[0, 1], [1, 2]]),
        "y": np.array([0, 1, 0, 1, -1, 1]),
        "train_mask": np.arange(6) < 2,
        "val_mask": np.arange(6) == 2,
        "test_mask": np.arange(6) == 3,
        "nodes": np.array(list("uvwxyz")),
        "classes": np.array(["no", "yes"]),
    }
    np.savez(tmp_path / "dense.npz", x=x.toarray(), **common)
    np.savez(
        tmp_path / "sparse.npz",
        x_data=x.data,
        x_indices=x.indices,
        x_indptr=x.indptr,
        x_shape=x.shape,
        **common,
    )
    dense, thin = read_npz(tmp_path / "dense.npz"), read_npz(tmp_path / "sparse.npz")
    assert thin.graph.x.layout == torch.sparse_csr
    assert torch.equal(dense.graph.x, thin.graph.x.to_dense())
    assert dense.nodes == ("u", "v", "w", "x", "y", "z")
    assert dense.classes == ("no", "yes")
    assert dense.graph.train_mask.tolist() == [True, True, False, False, False, False]


def test_bad_npz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "n.npz"
    with fails("n.npz: there is no such file"):
        read_npz(path)
    path.write_bytes(b"not an archive")
    with fails("n.npz: is not an archive of plain arrays"):
        read_npz(path)
    np.savez(path, y=np.array([0]))
    with fails("n.npz: has no array 'edge_index'. Its arrays: y."):
        read_npz(path)
    np.savez(path, y=np.array([0, None], dtype=object), edge_index=np.zeros((2, 0), dtype=np.int64))
    with fails("n.npz: is not an archive of plain arrays"):
        read_npz(path)
    np.savez(
        path,
        y=np.array([0]),
        edge_index=np.zeros((2, 0), dtype=np.int64),
        x_data=np.ones(1),
        x_indices=np.array([7]),
        x_indptr=np.array([0, 1]),
        x_shape=np.array([1, 3]),
    )
    with fails("Expected arrays of numbers, sparse x as a CSR matrix"):
        read_npz(path)
    np.savez_compressed(path, y=np.arange(1000), edge_index=np.zeros((2, 0), dtype=np.int64))
    content = bytearray(path.read_bytes())
    content[60:200] = b"\xff" * 140
    path.write_bytes(content)
    with fails("n.npz: is not an archive of plain arrays"):
        read_npz(path)


@pytest.mark.parametrize("dense", [False, True])
def test_a_pyg_graph_comes_back_as_it_was(tmp_path: Path, dense: bool) -> None:
    network = generate_papers(200)
    if dense:
        network.graph.x = network.graph.x.to_dense()
    write_npz(network.graph, tmp_path / "papers.npz", nodes=network.nodes, classes=network.classes)
    back = read_npz(tmp_path / "papers.npz")
    assert (back.nodes, back.classes) == (network.nodes, network.classes)
    assert back.graph.x.layout == network.graph.x.layout
    assert torch.equal(back.graph.x.to_dense(), network.graph.x.to_dense())
    for key in ("edge_index", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(back.graph[key], network.graph[key])
