"""`det neighbors` and the figure made of it."""

import json
from pathlib import Path

import pytest
from tiny_runs import det, tiny_yaml

from detgraph.config import load_config
from detgraph.reproduce import figure_neighbors
from detgraph.reproduce.results import Results
from detgraph.tasks import EntityTask
from detgraph.training.launch import load_run, start


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("neighbors")
    path = tiny_yaml("entity", folder, epochs=2)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("model:\n", "model:\n  composition: complex\n"), encoding="utf-8")
    start(load_config(path), folder / "run").train()
    return folder / "run"


def test_as_text_and_as_a_picture(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "e1.svg"
    answer = det(capsys, "neighbors", str(run), "e1", "-o", str(picture))
    assert (answer.code, answer.err) == (0, "")
    assert "r1" in answer.out
    assert "distant neighbour" in answer.out
    assert str(picture) in answer.out
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_as_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = det(capsys, "neighbors", str(run), "e1", "--json")
    found = json.loads(answer.out)
    assert (found["id"], found["name"]) == ("e1", "e1")
    scores = [neighbor["score"] for neighbor in found["connected"]]
    assert scores == sorted(scores, reverse=True)
    assert {"id", "name", "relation", "structural", "semantic", "score"} == set(found["connected"][0])
    inverse = [neighbor for neighbor in found["connected"] if neighbor["relation"].endswith(" (inverse)")]
    assert inverse


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("e99",), "no entity is called 'e99'"),
        (("e1", "-o", "e1.txt"), "a picture ends in .svg, .png, .pdf"),
    ],
)
def test_mistakes(
    run: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    answer = det(capsys, "neighbors", str(run), *arguments)
    assert answer.code == 2
    assert message in answer.err


def test_runs_of_other_tasks_have_no_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start(load_config(tiny_yaml("node", tmp_path, epochs=1)), tmp_path / "run").train()
    answer = det(capsys, "neighbors", str(tmp_path / "run"), "e1")
    assert answer.code == 2
    assert "not of a knowledge graph" in answer.err


def test_the_figure(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    task = load_run(run)
    assert isinstance(task, EntityTask)
    label = task.data.name
    monkeypatch.setattr(figure_neighbors, "EXAMPLES", ((label, "e1"), ("elsewhere", "e2")))
    studies = tmp_path / "studies"
    studies.mkdir()
    answer = det(capsys, "reproduce", "figure-neighbors", "--results", str(studies))
    assert (answer.code, answer.err) == (0, "")
    assert f"{label}: not run" in answer.out
    figure_neighbors.keep_example(Results(studies), label, "e1", run)
    answer = det(capsys, "reproduce", "figure-neighbors", "--results", str(studies))
    assert "elsewhere: not run" in answer.out
    for kind in ("md", "json", "svg", "png"):
        assert Path(f"reproduced/figure-neighbors.{kind}").stat().st_size > 0
    file = studies / "figure-neighbors-examples.json"
    whole = file.read_text(encoding="utf-8")
    for damaged in ("{}", '{"examples": [1]}', '{"examples": {"umls": {}}}', "{"):
        file.write_text(damaged, encoding="utf-8")
        answer = det(capsys, "reproduce", "figure-neighbors", "--results", str(studies))
        assert answer.code == 2
        assert file.name in answer.err
    file.write_text(whole, encoding="utf-8")
    answer = det(capsys, "reproduce", "figure-neighbors", "--only", "umls")
    assert answer.code == 2
    assert "--only and --runs are for other targets" in answer.err
    answer = det(capsys, "reproduce", "figure-neighbors", "--results", str(studies), "--json")
    (record,) = map(json.loads, answer.out.splitlines())
    assert record["dataset"] == label
    assert record["connected"]
