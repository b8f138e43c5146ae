"""Tables that are counted in the data: hops against walks one by one, and files that hold the counts."""

from importlib import import_module
from itertools import pairwise, product
from pathlib import Path

import pytest
from builders import triples
from tiny_runs import det

from detgraph.errors import DetError
from detgraph.reproduce import find_target
from detgraph.reproduce.entries import read_entries
from detgraph.reproduce.facts import read_facts
from detgraph.reproduce.results import Results, committed_results

# The function of the same name hides the module.
table_hops = import_module("detgraph.reproduce.table_hops")
TRAIN = [(0, 0, 1), (0, 1, 1), (1, 0, 2), (2, 0, 2), (2, 0, 3), (3, 1, 0), (4, 0, 4)]


def test_hops_count_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_hops, "load_benchmark", lambda name: triples(TRAIN, entities=6))
    found = table_hops.count_walks("wn18rr")
    for hops in (1, 2, 3):
        ends = [
            walk[-1][2]
            for walk in product(TRAIN, repeat=hops)
            if all(one[2] == other[0] for one, other in pairwise(walk))
        ]
        label = "1 hop" if hops == 1 else f"{hops} hops"
        assert found[label] == pytest.approx(len(ends) / len(set(ends)))


def test_committed_counts_beside_the_papers() -> None:
    entries = {
        (entry.cell.dataset, entry.cell.model): entry
        for name in ("table-hops", "table-statistics")
        for entry in read_entries(find_target(name), committed_results())
    }
    agreeing = [
        ("wn18rr", "1 hop"),
        ("wn18rr", "5 hops"),
        ("fb15k-237", "2 hops"),
        ("wn18rr", "nodes"),
        ("fb15k-237", "edges"),
    ]
    for key in agreeing:
        entry = entries[key]
        assert entry.mean is not None
        assert entry.cell.paper is not None
        assert round(entry.mean, entry.measure.digits) == entry.cell.paper.mean, key
    assert entries["fb15k-237", "nodes"].mean == 14_541
    assert "FB15K" in entries["fb15k-237", "nodes"].note
    assert entries["ppi", "nodes"].mean is None


def test_counting_again_needs_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(table_hops, "load_benchmark", lambda name: triples(TRAIN, entities=6))
    for name in ("fb15k-237", "wn18rr"):
        (tmp_path / "data" / name).mkdir(parents=True)
    monkeypatch.setenv("DET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DET_DATA", str(tmp_path / "data"))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    answer = det(capsys, "reproduce", "table-hops", "--recompute", "--results", "counted")
    assert answer.code == 0
    assert "fb15k-237 is left out" in answer.out
    assert "not counted" in answer.out
    assert read_facts(tmp_path / "counted/table-hops.json") == {}


def test_files_that_hold_no_facts(tmp_path: Path) -> None:
    (tmp_path / "table-hops.json").write_text("{}")
    with pytest.raises(DetError, match="holds no facts"):
        read_entries(find_target("table-hops"), Results(tmp_path))
