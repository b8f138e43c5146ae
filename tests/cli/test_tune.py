"""`det tune`: from a space to settings that can be pasted, and what goes wrong."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from tiny_runs import det, tiny_yaml
from typing_extensions import override

from detgraph.cli.tune import TrialLines


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    tiny_yaml("node", tmp_path, epochs=2)
    Path("space.yaml").write_text("model.tau: {low: 0.1, high: 0.9}\nmodel.semantic_heads: [1, 3, null]\n")


def test_round_trip(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("tune", "node.yaml", "space.yaml", "--seeds", "1", "--trials")
    answer = det(capsys, *command, "3")
    assert (answer.code, answer.err) == (0, "")
    assert "3 of 3 trials" in answer.out
    answer = det(capsys, *command, "4")
    assert "3 of 4 trials are there already" in answer.out
    content = json.loads(Path("results/tuning/papers.json").read_text(encoding="utf-8"))
    done = {trial["number"]: trial["value"] for trial in content["trials"] if trial["value"] is not None}
    failed = 4 - len(done)
    assert failed > 0, "some have 3 semantic heads"
    assert content["best"]["value"] == max(done.values())
    pasted = " ".join(content["best"]["overrides"])
    for text in (
        f"Best of 4 trials ({failed} failed)",
        f"  {pasted}\n",
        f"Next: det compare node.yaml {pasted} --models det,structural",
        "results/tuning/papers.json",
        "the test split is not read",
    ):
        assert text in answer.out
    assert det(capsys, "train", "node.yaml", *content["best"]["overrides"]).code == 0


def test_changes_are_for_all_trials(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("tune", "node.yaml", "space.yaml", "data.num_nodes=150", "--seeds", "1", "--trials", "2")
    answer = det(capsys, *command)
    assert (answer.code, answer.err) == (0, "")
    assert "Next: det compare node.yaml data.num_nodes=150 model.tau=" in answer.out
    content = json.loads(Path("results/tuning/papers.json").read_text(encoding="utf-8"))
    assert content["config"]["data"]["num_nodes"] == 150
    answer = det(capsys, "tune", "node.yaml", "space.yaml", "--seeds", "1", "--trials", "2")
    assert (answer.code, "is of another search" in answer.err) == (2, True)
    assert "use --seeds" in det(capsys, "tune", "node.yaml", "space.yaml", "seed=1").err


def test_a_baseline_can_be_tuned(capsys: pytest.CaptureFixture[str]) -> None:
    Path("gcn.yaml").write_text(
        "task: node\ndata: {name: papers, num_nodes: 200}\nbaseline: {name: gcn, channels: 4}\n"
        "training: {epochs: 2}\n"
    )
    Path("dropout.yaml").write_text("baseline.dropout: {low: 0.1, high: 0.9}\n")
    answer = det(capsys, "tune", "gcn.yaml", "dropout.yaml", "--trials", "1", "--output", "gcn.json")
    assert (answer.code, answer.err) == (0, "")
    assert "Next: det train gcn.yaml baseline.dropout=" in answer.out
    assert Path("gcn.json").is_file()


def test_interrupted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class InterruptSecond(TrialLines):
        @override
        def step(self, done: int, total: int) -> None:
            if self.tuning.trials:
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("detgraph.cli.tune.TrialLines", InterruptSecond)
    Path("space.yaml").write_text("model.tau: {low: 0.1, high: 0.9}\n")
    answer = det(capsys, "tune", "node.yaml", "space.yaml", "--seeds", "1", "--trials", "3")
    assert answer.code == 130
    assert "Stopped; finished trials are kept in results/tuning/papers.json" in answer.out
    assert len(json.loads(Path("results/tuning/papers.json").read_text(encoding="utf-8"))["trials"]) == 1


def test_mistakes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("wrong.yaml").write_text("model.tua: [1]\n")
    Path("failing.yaml").write_text("model.semantic_heads: [3]\n")
    for arguments, message in (
        (("node.yaml", "nowhere.yaml"), "no such search space: nowhere.yaml. For example"),
        (("node.yaml", "wrong.yaml"), "unknown setting to search 'model.tua'. Did you mean 'model.tau'?"),
        (("node/coras", "space.yaml"), "unknown recipe 'node/coras'"),
        (("node.yaml", "failing.yaml", "--trials", "1"), "all 1 trials failed, the last one so: model.sem"),
        (("node.yaml", "space.yaml", "--minutes", "0"), "no trial was begun: give more --minutes"),
    ):
        answer = det(capsys, "tune", *arguments, "--output", f"{arguments[1]}.json")
        assert answer.code == 2
        assert message in answer.err
    monkeypatch.setitem(sys.modules, "optuna", None)
    answer = det(capsys, "tune", "node.yaml", "space.yaml")
    assert (answer.code, answer.out) == (2, "")
    assert "pip install 'detgraph[tune]'" in answer.err
