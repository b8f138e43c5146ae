"""The page docs/why-the-defaults.md: its tables are what the benchmark measured."""

import importlib.util
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "why-the-defaults.md").read_text(encoding="utf-8")
RESULTS: dict[str, Any] = json.loads((ROOT / "results" / "why-the-defaults.json").read_text(encoding="utf-8"))
TINY = {"data.name": "papers", "data.num_nodes": 200, "training.epochs": 2, "training.evaluate_every": 1}


def load_script() -> ModuleType:
    """The benchmark, which is no part of the package."""
    spec = importlib.util.spec_from_file_location(
        "why_the_defaults", ROOT / "benchmarks" / "why_the_defaults.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


script = load_script()
TABLES: dict[str, str] = script.tables(RESULTS)


@pytest.mark.parametrize("name", TABLES)
def test_page_shows_the_table_that_was_measured(name: str) -> None:
    assert f"\n\n{TABLES[name]}\n\n" in PAGE


def test_page_has_no_other_table() -> None:
    rendered = "\n".join(TABLES.values()).splitlines()
    assert sorted(re.findall(r"^\|.*$", PAGE, flags=re.MULTILINE)) == sorted(rendered)


def test_results_belong_to_the_rows_of_the_script() -> None:
    assert RESULTS["rows"].keys() == script.ROWS.keys()
    for name, row in script.ROWS.items():
        measured = RESULTS["rows"][name]
        assert measured["overrides"] == row.overrides, name
        assert len(measured["seeds"]) == row.seeds, name
        assert measured["seconds"] > 0


def test_results_say_what_made_them() -> None:
    assert RESULTS["versions"]["torch"]
    assert re.fullmatch(r"[0-9a-f]{40}", RESULTS["versions"]["commit"])


def test_tables_follow_the_results() -> None:
    changed = json.loads(json.dumps(RESULTS))
    changed["rows"]["union"]["seeds"][0]["test"] = 0.1234
    assert script.tables(changed)["set"] != TABLES["set"]
    assert "12.3 / " in script.tables(changed)["set"]


@pytest.mark.parametrize("name", script.ROWS)
def test_row_can_be_measured(name: str) -> None:
    row = script.ROWS[name]
    config = replace(row, changes=row.changes | TINY).config(seed=0)
    values = script.rounded(row.measure(config))
    assert values.keys() == RESULTS["rows"][name]["seeds"][0].keys()


def test_rows_that_are_there_are_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {name: script.ROWS[name] for name in ("random l1", "random difference")}
    monkeypatch.setattr(script, "ROWS", rows)
    monkeypatch.setattr(script, "RESULTS", tmp_path / "results.json")
    first = script.measure_all()
    assert first["rows"].keys() == rows.keys()
    assert capsys.readouterr().out.count(" s  random") == 2

    kept = json.loads(script.RESULTS.read_text(encoding="utf-8"))
    del kept["rows"]["random l1"]
    script.RESULTS.write_text(json.dumps(kept), encoding="utf-8")
    assert script.measure_all()["rows"]["random l1"]["seeds"] == first["rows"]["random l1"]["seeds"]
    assert capsys.readouterr().out.count(" s  random") == 1

    kept["versions"]["commit"] = "0" * 40
    script.RESULTS.write_text(json.dumps(kept), encoding="utf-8")
    script.measure_all()
    assert capsys.readouterr().out.count(" s  random") == 2


def test_cora_is_left_out_where_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DET_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(script, "ROWS", {"cora union": script.ROWS["cora union"]})
    monkeypatch.setattr(script, "RESULTS", tmp_path / "results.json")
    assert script.measure_all()["rows"] == {}
    assert "cora is left out" in capsys.readouterr().out
    assert not script.RESULTS.exists()


def test_cora_is_found_where_it_is() -> None:
    if not Path(os.environ.get("DET_DATA", ""), "planetoid", "ind.cora.x").is_file():
        pytest.skip("needs DET_DATA with planetoid/")
    assert script.has_cora()
