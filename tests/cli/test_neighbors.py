"""`det neighbors` and the figure made of it."""

import json
from pathlib import Path

import pytest
import torch
from builders import network, node_task
from tiny_runs import det, tiny_yaml

from detgraph.config import load_config
from detgraph.report.node_neighbors import node_neighborhood
from detgraph.reproduce import figure_neighbors
from detgraph.reproduce.results import Results
from detgraph.tasks import EntityTask, NodeTask
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


def test_molecules_have_no_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start(load_config(tiny_yaml("graph", tmp_path, epochs=1)), tmp_path / "run").train()
    answer = det(capsys, "neighbors", tmp_path / "run", "e1")
    assert answer.code == 2
    assert "is a run on molecules" in answer.err


def test_nodes_of_a_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run"
    start(load_config(tiny_yaml("node", tmp_path, epochs=3)), path).train()
    task = load_run(path)
    assert isinstance(task, NodeTask)
    node = 7
    source, target = task.data.graph.edge_index
    answer = det(capsys, "neighbors", path, task.data.nodes[node], "--json")
    assert answer.code == 0
    found = json.loads(answer.out)
    classes, y = task.data.classes, task.data.graph.y
    assert (found["id"], found["label"]) == (task.data.nodes[node], classes[y[node]])
    for kind, expected in (
        ("connected", source[target == node].tolist()),
        ("distant", task.parts[0].neighbors.found[node].tolist()),
    ):
        assert expected
        assert found[kind] == [{"id": task.data.nodes[n], "label": classes[y[n]]} for n in expected]
    text = det(capsys, "neighbors", path, task.data.nodes[node], "--top", "1").out
    assert found["distant"][0]["id"] in text
    answer = det(capsys, "neighbors", path, "nowhere")
    assert (answer.code, "no node has the id 'nowhere'" in answer.err) == (2, True)
    answer = det(capsys, "neighbors", path, task.data.nodes[node], "-o", tmp_path / "x.svg")
    assert (answer.code, "only neighbours of entities are drawn" in answer.err) == (2, True)


def test_distant_nodes_are_of_the_same_graph() -> None:
    part = torch.arange(30) % 2
    data = network(edge_index=torch.stack([torch.arange(28), torch.arange(2, 30)]), graph_id=part)
    task = node_task(data)
    task.start_epoch(0)
    found = node_neighborhood(task, "13")
    assert {node.id for node in found.connected} == {"11", "15"}
    assert len(found.distant) == 3
    assert all(int(node.id) % 2 for node in found.distant)
    assert not {"11", "13", "15"} & {node.id for node in found.distant}


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
    assert "--only, --runs and --jobs are for other targets" in answer.err
    answer = det(capsys, "reproduce", "figure-neighbors", "--results", str(studies), "--json")
    (record,) = map(json.loads, answer.out.splitlines())
    assert record["dataset"] == label
    assert record["connected"]
