import os
from pathlib import Path

import pytest
from tiny_runs import TaskName, tiny_yaml
from typer.testing import CliRunner

from detgraph.cli.data import app
from detgraph.data.benchmarks import BENCHMARKS
from detgraph.errors import DetError


def run(*arguments: str) -> tuple[int, str]:
    """The exit code and what was printed."""
    result = CliRunner().invoke(app, list(arguments))
    if isinstance(result.exception, DetError):
        raise result.exception
    return result.exit_code, result.output


def needs_cora() -> None:
    if not Path(os.environ.get("DET_DATA", ""), "planetoid/ind.cora.x").is_file():
        pytest.skip("needs DET_DATA with planetoid/")


def test_list_names_every_benchmark_and_its_place() -> None:
    code, output = run("list")
    assert code == 0
    for name in BENCHMARKS:
        assert name in output
    assert "generated" in output
    assert "Next: det data info NAME" in output


def test_info_of_one_that_is_here() -> None:
    code, output = run("info", "papers")
    assert code == 0
    assert "2,000" in output
    assert "num_nodes=2000" in output
    assert "Next: det train node/papers" in output


def test_info_of_one_that_is_not_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DET_DATA", raising=False)
    monkeypatch.setenv("DET_CACHE", str(tmp_path))
    _, output = run("info", "zinc")
    assert "not here" in output
    assert "substitute" in output
    assert "Next: det data fetch zinc" in output


def test_unknown_name() -> None:
    for command in ("info", "fetch", "check"):
        with pytest.raises(DetError, match=r"Did you mean 'cora'\?"):
            run(command, "coraa")


def test_fetch_of_what_is_here() -> None:
    needs_cora()
    _, output = run("fetch", "cora", "papers")
    assert "cora: 8 files, whole, below" in output
    assert "papers: nothing to fetch (generated)" in output


def test_fetch_of_what_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DET_DATA", raising=False)
    monkeypatch.setenv("DET_CACHE", str(tmp_path))
    with pytest.raises(DetError, match="3 of 3 files are missing and cannot be fetched"):
        run("fetch", "zinc")


def test_check_of_a_benchmark() -> None:
    needs_cora()
    _, output = run("check", "cora")
    assert output.count("checksum right") == 8
    assert "5,278" in output
    assert "140 nodes" in output
    assert "Next: det train node/cora" in output


def test_check_of_good_molecules(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("smiles,gap\nCCO,1.5\nC,2.5\n[NH4+],\n")
    code, output = run("check", str(path), "--targets", "gap")
    assert code == 0
    assert "2 values mean 2.0000" in output
    assert "[NH4+]" in output  # not taken for markup
    assert "No problems." in output


def test_check_reports_bad_molecules(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("smiles\nCCO\n" + "C(\n" * 12)
    code, output = run("check", str(path))
    assert code == 2
    assert "mine.csv:3: it is not SMILES" in output
    assert "and 2 more" in output
    assert "data.bad_rows=skip" in output


def test_check_of_triples(tmp_path: Path) -> None:
    path = tmp_path / "kg.tsv"
    path.write_text("".join(f"a{i}\tknows\ta{i + 1}\n" for i in range(20)))
    code, output = run("check", str(path))
    assert code == 0
    assert "16 triples" in output
    assert "No problems." in output


def test_check_of_triples_with_quotes(tmp_path: Path) -> None:
    path = tmp_path / "KG.TSV"
    path.write_text("".join(f'"Weird Al" {i}\tplays\taccordion\n' for i in range(20)))
    assert run("check", str(path))[0] == 0


def test_check_of_columns_with_brackets(tmp_path: Path) -> None:
    path = tmp_path / "MINE.CSV"
    path.write_text("smiles,dose [/kg]\nC,1\nCC,2\n")
    code, output = run("check", str(path), "--targets", "dose [/kg]")
    assert code == 0
    assert "target dose [/kg]" in output


@pytest.mark.parametrize(("task", "count"), [("graph", "20"), ("node", "200"), ("entity", "18 triples")])
def test_check_of_a_configuration(task: TaskName, count: str, tmp_path: Path) -> None:
    path = tiny_yaml(task, tmp_path)
    code, output = run("check", str(path))
    assert code == 0
    assert count in output
    assert f"No problems. Next: det train {path}" in output
    path.write_text(path.read_text() + "modle: {}\n")
    with pytest.raises(DetError, match="unknown key 'modle'"):
        run("check", str(path))


def test_check_of_data_without_validation(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("smiles,y,split\nC,1,train\nCC,2,train\n")
    path = tmp_path / "c.yaml"
    path.write_text("task: graph\ndata: {file: m.csv, targets: [y]}\nmodel: {layers: 1}\n")
    with pytest.raises(DetError, match="nothing to validate on"):
        run("check", str(path))


def test_check_of_another_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("structure,gap\nC,1\n")
    with pytest.raises(DetError, match=r"neither a table of molecules \(no column 'smiles'\) nor triples"):
        run("check", str(path))
    path.write_text("smiles;gap\nC;1\n")
    with pytest.raises(DetError, match=r"Columns there: smiles;gap\. The separator seems to be ';'"):
        run("check", str(path))
    with pytest.raises(DetError, match="no such file"):
        run("check", str(tmp_path / "absent.csv"))
