"""`det predict` on networks: a row for every node, in agreement with the evaluation."""

import csv
import json
from pathlib import Path

import pytest
import torch
import yaml
from builders import network, node_task
from tiny_runs import det, tiny_yaml

from detgraph.cli.node_predictions import node_rows
from detgraph.data.npz import write_npz
from detgraph.tasks.node import micro_f1


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def own_network(folder: Path, *, multi_label: bool) -> Path:
    """A ring of 40 nodes named by their own ids; every eighth has no label and no split."""
    labels = ["red;blue", "blue", "red", "green;red"] if multi_label else ["red", "blue", "red", "green"]
    splits = ["train", "train", "valid", "test"]
    lines = ["id,label,split,a,b"]
    for node in range(40):
        label, split = ("", "") if node % 8 == 0 else (labels[node // 2 % 4], splits[node % 4])
        lines.append(f"n{node},{label},{split},{node % 3},{node % 5}")
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n")
    (folder / "edges.csv").write_text(
        "source,target\n" + "".join(f"n{i},n{(i + 1) % 40}\n" for i in range(40))
    )
    path = folder / "own.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "task": "node",
                "data": {"nodes": "nodes.csv", "edges": "edges.csv", "multi_label": multi_label},
                "model": {"heads": 2, "head_channels": 4},
                "neighbors": {"k": 2, "warmup": 1},
                "training": {"epochs": 4},
            }
        )
    )
    return path


@pytest.mark.parametrize("case", ["benchmark", "own", "multi-label"])
def test_predictions_agree_with_the_evaluation(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    multi_label, run = case == "multi-label", tmp_path / "run"
    path = (
        tiny_yaml("node", tmp_path) if case == "benchmark" else own_network(tmp_path, multi_label=multi_label)
    )
    assert det(capsys, "train", path, "--output", run).code == 0
    answer = det(capsys, "predict", run)
    assert answer.code == 0
    assert str(run / "predictions.csv") in answer.out.replace("\n", "")
    rows = read(run / "predictions.csv")
    names = json.loads((run / "vocabulary.json").read_text())
    assert [row["id"] for row in rows] == names["nodes"]
    measured = json.loads(det(capsys, "evaluate", run, "--json").out)
    test = [row for row in rows if row["split"] == "test"]
    if multi_label:
        found, true = (
            torch.tensor([[name in row[column].split(";") for name in names["classes"]] for row in test])
            for column in ("predicted", "label")
        )
        assert micro_f1(found, true) == pytest.approx(measured["f1"])
        assert all(len(row["predicted"].split(";")) == len(row["probability"].split(";")) for row in rows)
    else:
        right = sum(row["predicted"] == row["label"] for row in test)
        assert right / len(test) == pytest.approx(measured["accuracy"])
        assert all(1 / len(names["classes"]) <= float(row["probability"]) <= 1 for row in rows)
    if case != "benchmark":
        assert rows[8] == {**rows[8], "id": "n8", "split": "", "label": ""}
        assert rows[1]["label"] == ("red;blue" if multi_label else "red") or rows[1]["label"] == "blue;red"


def test_several_graphs_keep_the_order_of_the_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = torch.arange(30) % 2
    data = network(edge_index=torch.stack([torch.arange(28), torch.arange(2, 30)]), graph_id=part)
    write_npz(data.graph, tmp_path / "two.npz")
    (tmp_path / "two.yaml").write_text("task: node\ndata: {npz: two.npz}\ntraining: {epochs: 2}\n")
    run, output = tmp_path / "run", tmp_path / "out.tsv"
    assert det(capsys, "train", tmp_path / "two.yaml", "--output", run).code == 0
    assert det(capsys, "predict", run, "-o", output).code == 0
    lines = [line.split("\t") for line in output.read_text().splitlines()]
    assert lines[0][:2] == ["graph", "id"]
    assert [line[0] for line in lines[1:]] == [str(graph) for graph in part.tolist()]
    task = node_task(data)
    for split in ("train", "valid", "test"):
        logits, y = task.predict(split)  # of one graph after the other
        here = [row for row in node_rows(task) if row[1] == split]
        assert sum(row[2] == row[3] for row in here) == int((logits.argmax(dim=1) == y).sum())


def test_other_input_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, table = tmp_path / "run", tmp_path / "in.csv"
    table.write_text("id\nn1\n")
    assert det(capsys, "train", tiny_yaml("node", tmp_path, epochs=1), "--output", run).code == 0
    for given in ((table,), ("--head", "n1"), ("--bad-rows", "skip")):
        answer = det(capsys, "predict", run, *given)
        assert answer.code == 2
        assert "is a run on a network" in answer.err
    assert not (run / "predictions.csv").exists()
