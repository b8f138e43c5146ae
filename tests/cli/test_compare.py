"""`det compare`: from a recipe to a table, and what goes wrong."""

import json
from pathlib import Path

import pytest
from tiny_runs import det, tiny_yaml

from detgraph.studies.statistics import paired


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def test_round_trip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe, output = tiny_yaml("node", tmp_path, epochs=2), tmp_path / "results"
    changes = ("model.tau=0.4", "training.patience=2")
    command = ("compare", recipe, *changes, "--models", "det, structural,gcn", "--output", output)
    answer = det(capsys, *command, "--seeds", "1")
    assert (answer.code, answer.err) == (0, "")
    assert "3 of 3 runs" in answer.out
    assert "gcn: published settings; training.patience=2 does not apply" in answer.out
    assert "det: published" not in answer.out
    answer = det(capsys, *command, "--seeds", "2")
    assert (answer.code, answer.err) == (0, "")
    assert "3 of 6 runs are there already" in answer.out
    assert "papers-det seed 0" not in answer.out
    files = [output / f"papers-{model}.json" for model in ("det", "structural", "gcn")]
    assert sorted(output.iterdir()) == sorted(files)
    contents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    assert [content["config"].get("model", {}).get("tau") for content in contents] == [0.4, 1, None]
    assert contents[2]["config"]["baseline"]["name"] == "gcn"
    scores = [{run["seed"]: run["test"]["accuracy"] for run in content["runs"]} for content in contents]
    gap = paired(scores[0], scores[1], higher_is_better=True)
    assert gap is not None
    row = next(line for line in answer.out.splitlines() if line.startswith("│ det"))
    assert f"{gap.difference:+.4f}" in row
    assert f"{gap.wins} of 2" in row
    for text in (
        "to structural",
        "accuracy ↑",
        "papers-gcn seed 1",
        "6 of 6 runs",
        str(files[0]),
        "--seeds 4",
    ):
        assert text in answer.out


def test_the_reference_is_the_first_where_there_is_no_twin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny_yaml("graph", tmp_path, epochs=1)
    answer = det(capsys, "compare", "graph.yaml", "--models", "det", "--seeds", "1")
    assert answer.code == 0
    assert "to det" in answer.out
    assert "mae ↓" in answer.out
    assert Path("results/molecules-det.json").is_file()


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe, output = tiny_yaml("node", tmp_path, epochs=1), tmp_path / "results"
    for arguments, message in (
        ((recipe, "--models", "det,gtc"), "unknown model for the task node 'gtc'."),
        (("node/coras",), "unknown recipe 'node/coras'. Did you mean 'node/cora'?"),
        ((recipe, "seed=3"), "use --seeds"),
        ((recipe, "model.tua=1"), "unknown key 'model.tua'. Did you mean 'tau'?"),
    ):
        answer = det(capsys, "compare", *arguments, "--output", output)
        assert (answer.code, answer.out) == (2, "")
        assert message in answer.err
        assert not output.exists()
    det(capsys, "compare", recipe, "--models", "det", "--seeds", "1", "--output", output)
    answer = det(capsys, "compare", recipe, "model.heads=1", "--models", "det", "--output", output)
    assert answer.code == 2
    assert "model.heads is 2 there, 1 now" in answer.err
    assert "choose another folder" in answer.err


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    answer = det(capsys, "compare", "--help")
    assert answer.code == 0
    for text in (
        "--models",
        "--seeds",
        "--jobs",
        "--output",
        "structural",
        "gcnii",
        "deepergcn",
        "rotate",
        "*/baselines/",
        "paired t-test",
        "node/cora",
    ):
        assert text in answer.out
