import os
import pickle
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from torch_geometric.datasets import Planetoid

from detgraph.data.planetoid import read_planetoid
from detgraph.errors import DetError

COUNTS = {  # nodes, words, undirected edges, training nodes, sizes of the classes
    "cora": (2708, 1433, 5278, 140, [351, 217, 418, 818, 426, 298, 180]),
    "citeseer": (3327, 3703, 4552, 120, [249, 590, 668, 701, 596, 508]),
    "pubmed": (19717, 500, 44324, 60, [4103, 7739, 7875]),
}


@pytest.fixture
def folder() -> Path:
    path = Path(os.environ.get("DET_DATA", "")) / "planetoid"
    if "DET_DATA" not in os.environ or not path.is_dir():
        pytest.skip("needs DET_DATA with planetoid/")
    return path


@pytest.mark.parametrize("name", COUNTS)
def test_published_counts(folder: Path, name: str) -> None:
    network = read_planetoid(folder, name)
    graph = network.graph
    nodes, words, edges, train, sizes = COUNTS[name]
    assert graph.x.shape == (nodes, words)
    assert graph.x.layout == torch.sparse_csr
    assert graph.edge_index.shape == (2, 2 * edges)
    assert [int(graph[key].sum()) for key in ("train_mask", "val_mask", "test_mask")] == [train, 500, 1000]
    assert torch.bincount(graph.y[graph.y >= 0]).tolist() == sizes
    assert len(network.classes) == len(sizes)


@pytest.mark.parametrize("name", COUNTS)
def test_same_as_torch_geometric(folder: Path, name: str, tmp_path: Path) -> None:
    raw = tmp_path / name / "raw"
    raw.mkdir(parents=True)
    for file in folder.glob(f"ind.{name}.*"):
        (raw / file.name).symlink_to(file.resolve())
    with warnings.catch_warnings():  # about old pickles
        warnings.simplefilter("ignore")
        referee = Planetoid(str(tmp_path), name)[0]
    graph = read_planetoid(folder, name).graph
    assert torch.equal(graph.x.to_dense(), referee.x)
    assert torch.equal(graph.edge_index, referee.edge_index)
    for key in ("train_mask", "val_mask", "test_mask"):
        assert torch.equal(graph[key], referee[key])
    known = graph.y >= 0  # the referee calls CiteSeer's 15 unknown nodes class 0
    assert int((~known).sum()) == (15 if name == "citeseer" else 0)
    assert torch.equal(graph.y[known], referee.y[known])


class Attack:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (str(self.target),))


def test_malicious_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    victim = tmp_path / "made-by-the-attack"
    (tmp_path / "ind.cora.y").write_bytes(pickle.dumps(Attack(victim)))
    with pytest.raises(DetError, match=r"ind\.cora\.y: refers to (posix|nt)\.mkdir, .* was not loaded"):
        read_planetoid(tmp_path, "cora")
    assert not victim.exists()


def test_broken_file_is_refused(folder: Path, tmp_path: Path) -> None:
    for file in folder.glob("ind.cora.*"):
        shutil.copy(file, tmp_path)
    whole = (tmp_path / "ind.cora.tx").read_bytes()
    (tmp_path / "ind.cora.tx").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DetError, match=r"ind\.cora\.tx: is not a Planetoid file"):
        read_planetoid(tmp_path, "cora")


def test_files_that_do_not_fit_are_refused(folder: Path, tmp_path: Path) -> None:
    for file in folder.glob("ind.cora.*"):
        shutil.copy(file, tmp_path)
    shutil.copy(folder / "ind.cora.graph", tmp_path / "ind.cora.tx")
    with pytest.raises(DetError, match="the eight files do not fit together"):
        read_planetoid(tmp_path, "cora")

    matrix = sparse.csr_matrix((1000, 1433), dtype=np.float32)
    matrix.indptr[-1] = 1
    matrix.indices, matrix.data = np.array([9999], dtype=np.int32), np.ones(1, dtype=np.float32)
    wild = pickle.dumps(matrix, protocol=3)
    for new, old in ((b"scipy.sparse._csr", b"scipy.sparse.csr"), (b"numpy._core", b"numpy.core")):
        wild = wild.replace(new, old)  # the names Python 2 knew
    (tmp_path / "ind.cora.tx").write_bytes(wild)
    with pytest.raises(DetError, match=r"do not fit together: .*indices must be < 1433"):
        read_planetoid(tmp_path, "cora")

    shutil.copy(folder / "ind.cora.tx", tmp_path)
    (tmp_path / "ind.cora.test.index").write_text("2692\ntwo\n", encoding="utf-8")
    with pytest.raises(DetError, match="expected one node index a line"):
        read_planetoid(tmp_path, "cora")


def test_missing_file_and_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(DetError, match=r"ind\.cora\.y: there is no such file"):
        read_planetoid(tmp_path, "cora")
    with pytest.raises(DetError, match=r"unknown Planetoid network 'Core'.* Known: citeseer, cora, pubmed"):
        read_planetoid(tmp_path, "Core")
