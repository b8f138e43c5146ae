"""Many SMILES: read in parallel, kept in files, mapped; the same as one by one."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rdkit

from detgraph.data import featurize as module
from detgraph.data.featurize import Featurized, content_key, featurize, read_cache, to_arrays, write_cache
from detgraph.errors import DetError

SMILES = [
    *("CCO", "c1ccccc1", "not a molecule", "C", "[Na+].[Cl-]", "", "CC(=O)Oc1ccccc1C(=O)O", "C1CC1"),
    *("C" * 300, "[H][H]", "N#Cc1ccc(F)cc1"),
]


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(module, "FEW", 4)
    monkeypatch.setattr(module, "CHUNK", 3)
    monkeypatch.setenv("DET_CACHE", str(tmp_path))
    return tmp_path / "molecules"


def same(one: Featurized, other: Featurized) -> bool:
    first, second = to_arrays(one.graphs), to_arrays(other.graphs)
    return one.bad == other.bad and all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("featurizer", ["standard", "zinc"])
def test_files_hold_what_was_read(
    small_limits: Path, featurizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "FEW", 100)
        expected = featurize(SMILES, featurizer, "reading")
    assert [row for row, _ in expected.bad] == [2, 5]
    assert len(expected.graphs) == len(SMILES) - 2
    written = featurize(SMILES, featurizer, "reading")
    assert same(written, expected)
    [folder] = small_limits.iterdir()
    assert isinstance(written.graphs.atoms, np.memmap)
    changed = folder.stat().st_mtime_ns
    again = featurize(SMILES, featurizer, "reading")  # mapped, not read anew
    assert same(again, expected)
    assert folder.stat().st_mtime_ns == changed


def test_the_key_is_the_content(monkeypatch: pytest.MonkeyPatch) -> None:
    assert content_key(["C", "CC"], "zinc") == content_key(["C", "CC"], "zinc")
    keys = [
        content_key(smiles, kind)
        for smiles in (["C", "CC"], ["CC", "C"], ["CCC"])
        for kind in ("zinc", "standard")
    ]
    assert len(set(keys)) == len(keys)
    monkeypatch.setattr(rdkit, "__version__", "another")  # which may give other codes
    assert content_key(["C", "CC"], "zinc") not in keys


def test_an_interrupted_reading_leaves_nothing(small_limits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "to_arrays", stop)
    with pytest.raises(KeyboardInterrupt):
        featurize(SMILES, "standard", "reading")
    assert os.listdir(small_limits) == []


def test_another_process_may_have_been_quicker(tmp_path: Path) -> None:
    for _ in range(2):  # the second saw no folder when it began
        write_cache(tmp_path / "key", [], "standard", "reading")
    assert os.listdir(tmp_path) == ["key"]
    assert len(read_cache(tmp_path / "key", "standard").graphs) == 0


class Deadly(list[str]):
    """Ends the process that receives it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (1,)


def test_a_process_that_ends_early_has_a_likely_reason() -> None:
    with pytest.raises(DetError, match='put all that it does under `if __name__ == "__main__":`'):
        list(module.read_many([Deadly()], "standard"))


def test_only_bad_rows() -> None:
    graphs, bad = featurize(["x", "y"], "standard", "reading")
    assert len(graphs) == 0
    assert len(bad) == 2
    assert graphs.sizes.tolist() == []


def test_a_graph_of_pyg() -> None:
    graphs = featurize(["CC=O"], "standard", "reading").graphs
    graph = graphs[0]
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.edge_attr.shape == (4, 3)
    assert graph.edge_attr[:, 0].tolist() == [0, 0, 1, 1]
    assert [part.num_nodes for part in graphs[:1]] == [3]
    with pytest.raises(IndexError):
        graphs[1]
