"""`det reproduce`: rendering, JSON lines, and training of what is missing."""

import json
import os
import signal
from pathlib import Path

import pytest
from tiny_runs import det
from typing_extensions import override

from detgraph.cli.compare import StudyBar
from detgraph.reproduce import TARGETS
from detgraph.reproduce.results import committed_results
from detgraph.reproduce.target import ACCURACY, MICRO_F1, Cell, Column, Plan, Published, Target

SMALL = ("data.num_nodes=200", "training.epochs=2", "model.heads=2", "neighbors.k=2")
KEYS = {"dataset", "model", "metric", "mean", "std", "runs", "paper", "note"}


def tiny() -> Target:
    """Two studies on the generated network, and what cannot be trained."""
    plan = Plan("det", "node/papers", 2, overrides=SMALL)
    return Target(
        "table-tiny",
        "A tiny table",
        "A caption.",
        (Column("papers", "Papers", ACCURACY), Column("ppi", "PPI", MICRO_F1, missing="no data")),
        (
            Cell("papers", "DET", plan, paper=Published(84.6, 0.4), twin="structural"),
            Cell(
                "papers",
                "structural only",
                Plan("structural", "node/papers", 1, model="structural", overrides=SMALL),
            ),
            Cell("papers", "planned", Plan("planned", "node/nowhere", 1)),
            Cell("papers", "cited", None, paper=Published(81.0), note="published number"),
            Cell("ppi", "DET", Plan("det", "node/ppi", 2)),
        ),
    )


@pytest.fixture(autouse=True)
def tiny_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(TARGETS, "table-tiny", tiny)
    # No data is at hand.
    monkeypatch.delenv("DET_DATA", raising=False)
    monkeypatch.setenv("DET_CACHE", str(tmp_path / "cache"))


def test_a_folder_of_results_is_there_and_may_be_grouped(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("table-nodes", "figure-neighbors"):
        answer = det(capsys, "reproduce", name, "--results", "nope")
        assert (answer.code, answer.out) == (2, "")
        assert "--results nope: no such folder" in answer.err
    ours = det(capsys, "reproduce", "table-nodes", "--json").out
    named = det(capsys, "reproduce", "table-nodes", "--json", "--results", committed_results().path)
    assert named.out == ours
    assert "figure-neighbors" in det(capsys, "reproduce", "table-nope").err


@pytest.mark.parametrize("name", ["table-nodes", "table-ablation", "figure-tau"])
def test_committed_results_in_all_forms(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = det(capsys, "reproduce", name)
    assert (answer.code, answer.err) == (0, "")
    kinds = ("md", "json", "svg", "png") if name == "figure-tau" else ("md", "json")
    for kind in kinds:
        assert Path(f"reproduced/{name}.{kind}").stat().st_size > 0
        assert f"reproduced/{name}.{kind}" in answer.out
    answer = det(capsys, "reproduce", name, "--json", "--output", "other")
    assert (answer.code, answer.err) == (0, "")
    records = [json.loads(line) for line in answer.out.splitlines()]
    assert len(records) == len(TARGETS[name]().cells)
    assert all(set(record) == KEYS for record in records)
    assert all((record["mean"] is None) == (record["runs"] == 0) for record in records)
    assert not Path("other").exists()


def test_only(capsys: pytest.CaptureFixture[str]) -> None:
    answer = det(capsys, "reproduce", "figure-tau", "--json", "--only", "pubmed, cora")
    datasets = {json.loads(line)["dataset"] for line in answer.out.splitlines()}
    assert datasets == {"cora", "pubmed"}


def test_recompute_trains_only_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("reproduce", "table-tiny", "--recompute", "--results", "studies", "--only", "papers")
    answer = det(capsys, *command)
    assert (answer.code, answer.err) == (0, "")
    assert "note: there is no recipe node/nowhere: planned is not trained" in answer.out
    assert sorted(path.name for path in Path("studies").iterdir()) == [
        "papers-det.json",
        "papers-structural.json",
    ]
    runs = {key: len(content(key)["runs"]) for key in ("det", "structural")}
    assert runs == {"det": 2, "structural": 1}, "each has the runs it is planned with"
    for part in ("papers-det seed 1", "better in", "not run", "A caption.", "reproduced/table-tiny.md"):
        assert part in answer.out

    before = Path("studies/papers-structural.json").read_bytes()
    kept = content("det")
    Path("studies/papers-det.json").write_text(json.dumps({**kept, "runs": kept["runs"][:1]}))
    answer = det(capsys, *command, "--json")
    assert answer.code == 0
    assert "papers-det seed 1" in answer.err
    assert "seed 0" not in answer.err
    first, second, *others = [json.loads(line) for line in answer.out.splitlines()]
    assert (first["model"], first["runs"], first["paper"]) == ("DET", 2, 84.6)
    assert second["runs"] == 1
    assert [record["runs"] for record in others] == [0, 0]
    assert Path("studies/papers-structural.json").read_bytes() == before
    scores = [run["test"] for run in content("det")["runs"]]
    assert scores == [run["test"] for run in kept["runs"]]


def content(key: str, folder: str = "studies") -> dict[str, list[dict[str, object]]]:
    found = json.loads(Path(folder, f"papers-{key}.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def test_a_quick_look_has_a_folder_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    answer = det(
        capsys, "reproduce", "table-tiny", "--recompute", "--runs", "1", "--only", "papers", "--output", "out"
    )
    assert (answer.code, answer.err) == (0, "")
    assert len(content("det", "out/1-runs/studies")["runs"]) == 1
    assert Path("out/1-runs/table-tiny.md").is_file()
    assert not Path("out/table-tiny.md").exists()
    assert "runs so far" not in answer.out, "one run is what was asked for"


def test_data_that_cannot_be_had_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens there
    answer = det(capsys, "reproduce", "table-tiny", "--recompute", "--only", "ppi", "--results", "studies")
    assert (answer.code, answer.err) == (0, "")
    assert "note: ppi is left out: benchmark 'ppi'" in answer.out
    assert "DET on PPI: no data" in answer.out
    assert not Path("studies").exists()


def test_interrupted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class InterruptSecond(StudyBar):
        @override
        def step(self, done: int, total: int) -> None:
            if self.done:
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("detgraph.cli.reproduce.StudyBar", InterruptSecond)
    command = ("reproduce", "table-tiny", "--recompute", "--results", "studies", "--only", "papers")
    answer = det(capsys, *command)
    assert answer.code == 130
    assert "Run the same command again to go on" in answer.out
    assert "1 of 2 runs so far" in answer.out


def test_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (
            ("table-tinny",),
            "unknown target 'table-tinny'. Did you mean 'table-tiny'? Known: figure-n",
        ),
        (("table-tiny", "--only", "paper"), "unknown data set of table-tiny 'paper'. Did you mean 'papers'?"),
        (("table-tiny", "--runs", "1"), "--runs is a quick look with studies of its own"),
        (("table-tiny", "--recompute", "--runs", "1", "--results", "x"), "without --results"),
        (("table-tiny", "--jobs", "2"), "--jobs is for training"),
        (("figure-neighbors", "--jobs", "2"), "--jobs are for other targets"),
    ):
        answer = det(capsys, "reproduce", *arguments)
        assert (answer.code, answer.out) == (2, "")
        assert message in answer.err
    assert list(Path().iterdir()) == []


def test_a_study_of_other_settings_is_not_gone_on_with(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("reproduce", "table-tiny", "--recompute", "--results", "studies", "--only", "papers")
    det(capsys, *command)
    kept = content("det")
    changed = json.loads(json.dumps(kept))
    changed["config"]["model"]["tau"] = 0.2
    Path("studies/papers-det.json").write_text(json.dumps(changed))
    answer = det(capsys, *command)
    assert (answer.code, answer.out) == (2, "")
    for part in ("papers-det.json was made with other settings", "model.tau is 0.2 there", "--results"):
        assert part in answer.err
