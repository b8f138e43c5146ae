"""Studies: kept run by run, restarted, never mixed, the same with several processes."""

import json
import os
import pickle
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import tiny_config
from typing_extensions import override

from detgraph.config import Config, parse_config
from detgraph.errors import DetError, unknown_name
from detgraph.studies import Study, StudyObserver, complete
from detgraph.studies.running import in_processes
from detgraph.studies.study import Outcome
from detgraph.training import Interrupted, RunFolder
from detgraph.training.launch import start
from detgraph.training.loop import Diverged
from detgraph.training.run import InUse


def study(folder: Path, model: str = "det", config: Config | None = None) -> Study:
    tau = {"model": {"tau": 1}} if model == "structural" else {}
    config = config or tiny_config("node", folder / "data", tau, epochs=2)
    return Study("papers", model, config, folder / f"papers-{model}.json")


class Record(StudyObserver):
    """Notes what is trained; a signal may come after so many runs, or within a run."""

    def __init__(self, interrupt_after: int | None = None) -> None:
        self.trained: list[tuple[str, int]] = []
        self.counts: list[int] = []
        self.interrupt_after = interrupt_after

    @override
    def begin(self, total: int, done: int) -> None:
        self.counts = [total, done]

    @override
    def finished(self, study: Study, outcome: Outcome) -> None:
        assert outcome.seed in study.runs(), "it is told of runs that are kept"
        self.trained.append((study.model, outcome.seed))
        if len(self.trained) == self.interrupt_after:
            os.kill(os.getpid(), signal.SIGINT)


def numbers(study: Study) -> list[dict[str, Any]]:
    return [{**vars(run), "seconds": None} for run in study.runs().values()]


def test_the_file_says_all_that_a_table_needs(tmp_path: Path) -> None:
    one = study(tmp_path)
    complete([one], [2, 0])
    content = json.loads(one.file.read_text(encoding="utf-8"))
    expected = {"dataset": "papers", "model": "det", "metric": "accuracy", "higher_is_better": True}
    assert {key: content[key] for key in expected} == expected
    assert [run["seed"] for run in content["runs"]] == [0, 2]
    assert set(content["runs"][0]) == {"seed", "valid", "test", "best_epoch", "epochs", "seconds"}
    assert "seed" not in content["config"]
    assert content["config"]["training"]["epochs"] == 2
    assert "torch" in content["versions"]
    assert {"trivial", "parameters", "notes", "commit"} <= set(content)

    alone = start(one.config.model_copy(update={"seed": 2}), tmp_path / "run").train()
    run = one.runs()[2]
    assert (run.valid, run.test, run.epochs) == (alone.valid, alone.test, alone.epochs)
    assert alone.test is not None
    assert one.scores()[2] == alone.test["accuracy"]
    assert content["parameters"] == alone.parameters


def test_only_missing_seeds_are_trained(tmp_path: Path) -> None:
    det, twin = study(tmp_path), study(tmp_path, "structural")
    first, second, third = Record(), Record(), Record()
    complete([det], [0], observer=first)
    before = numbers(det)
    complete([det, twin], [0, 1], observer=second)
    complete([det, twin], [0, 1], observer=third)
    assert first.trained == [("det", 0)]
    assert second.trained == [("structural", 0), ("det", 1), ("structural", 1)]
    assert second.counts == [4, 1]
    assert third.trained == []
    assert numbers(det)[:1] == before


class AtFirstStepOfSecondRun(Record):
    """A signal comes there."""

    @override
    def step(self, done: int, total: int) -> None:
        if self.trained and done == 1:
            os.kill(os.getpid(), signal.SIGINT)


def test_interrupted_within_a_run_and_gone_on(tmp_path: Path) -> None:
    class Steps(Record):
        def __init__(self) -> None:
            super().__init__()
            self.steps: list[int] = []

        @override
        def step(self, done: int, total: int) -> None:
            self.steps.append(done)

    (tmp_path / "whole").mkdir()
    one, whole = study(tmp_path), study(tmp_path / "whole")
    with pytest.raises(Interrupted):
        complete([one], range(3), observer=AtFirstStepOfSecondRun())
    assert list(one.runs()) == [0]
    assert [path.name for path in tmp_path.glob("*.json")] == [one.file.name]
    assert [path.name for path in (tmp_path / "unfinished").iterdir()] == ["papers-det-1"]
    rest = Steps()
    complete([one], range(3), observer=rest)
    assert rest.trained == [("det", 1), ("det", 2)]
    assert rest.steps == [2, 1, 2], "the interrupted run has gone on, not begun anew"
    assert not (tmp_path / "unfinished").exists()
    complete([whole], range(3))
    assert numbers(one) == numbers(whole)


def test_interrupted_between_two_runs(tmp_path: Path) -> None:
    one = study(tmp_path)
    with pytest.raises(Interrupted):
        complete([one], range(3), observer=Record(interrupt_after=1))
    assert list(one.runs()) == [0]


def test_a_run_that_another_process_trains_is_not_touched(tmp_path: Path) -> None:
    one = study(tmp_path)
    with pytest.raises(Interrupted):
        complete([one], range(3), observer=AtFirstStepOfSecondRun())
    with RunFolder(one.unfinished(1)).alone(), pytest.raises(InUse, match="another process is training"):
        complete([one], range(3))
    assert (one.unfinished(1) / "config.yaml").is_file()
    complete([one], range(3))
    assert list(one.runs()) == [0, 1, 2]


def test_what_a_kill_left_behind_does_not_stand_in_the_way(tmp_path: Path) -> None:
    one = study(tmp_path)
    for seed, name in ((0, "versions.json"), (1, "result.json")):
        one.unfinished(seed).mkdir(parents=True)
        (one.unfinished(seed) / name).write_text("{}")
    complete([one], [0, 1])
    assert list(one.runs()) == [0, 1]


def test_an_interrupted_run_goes_on_with_its_own_settings_only(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        complete([study(tmp_path)], range(2), observer=AtFirstStepOfSecondRun())
    other = Study(
        "papers", "det", tiny_config("node", tmp_path / "data", epochs=3), tmp_path / "papers-det.json"
    )
    other.file.unlink()
    with pytest.raises(DetError, match="papers-det-1 holds an interrupted run with other settings"):
        complete([other], [1])


def test_logs_are_kept_where_they_are_asked_for(tmp_path: Path) -> None:
    one = study(tmp_path)
    complete([one], [0])
    assert not one.log(0).exists()
    kept = replace(one, file=tmp_path / "kept.json", logs=True)
    complete([kept], [0])
    records = [json.loads(line) for line in kept.log(0).read_text(encoding="utf-8").splitlines()]
    assert [record["epoch"] for record in records] == [0, 1]
    assert records[-1]["valid"]["accuracy"] <= 1


def test_processes_give_the_same_numbers_and_can_be_interrupted(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    models = ("det", "structural")
    single = [study(tmp_path / "one", model) for model in models]
    several = [study(tmp_path / "two", model) for model in models]
    before = {key: os.environ.get(key) for key in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")}
    complete(single, range(2))

    with pytest.raises(Interrupted):
        complete(several, range(2), jobs=2, observer=Record(interrupt_after=1))
    kept = [len(one.runs()) for one in several]
    assert 1 <= sum(kept) <= 2
    complete(several, range(2))
    assert [numbers(one) for one in several] == [numbers(one) for one in single]
    assert {key: os.environ.get(key) for key in before} == before


def test_what_ends_while_others_fail_is_not_lost() -> None:
    seen: list[float] = []

    def done(item: float, _: None) -> None:
        seen.append(item)
        if item == 0:
            raise DetError("this one cannot be kept")

    with pytest.raises(DetError, match="cannot be kept"):
        in_processes(time.sleep, iter([0.0, 0.5]), 2, done)
    assert sorted(seen) == [0.0, 0.5]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_diverges_does_not_hold_up_others(jobs: int, tmp_path: Path) -> None:
    wild = tiny_config("node", tmp_path / "data", {"training": {"learning_rate": 1e30}}, epochs=3)
    bad, good = study(tmp_path, "wild", wild), study(tmp_path)
    with pytest.raises(Diverged, match=r"papers-wild seed 0: the loss is not finite"):
        complete([bad, good], [0], jobs)
    assert list(good.runs()) == [0]
    assert not bad.file.exists()
    assert not (tmp_path / "unfinished").exists()


def test_errors_can_come_from_a_process() -> None:
    error = unknown_name("model", "gnc", ["gcn", "gat"])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_nothing_is_kept_of_a_run_that_fails(tmp_path: Path) -> None:
    one = study(tmp_path, config=parse_config({"task": "node", "data": {"name": "papers", "num_nodes": 7}}))
    with pytest.raises(DetError, match="cannot generate 7 papers"):
        complete([one], [0])
    assert not one.file.exists()
    assert not (tmp_path / "unfinished").exists()


def test_other_settings_are_never_mixed(tmp_path: Path) -> None:
    complete([study(tmp_path)], [0])
    other = study(tmp_path, config=tiny_config("node", tmp_path, {"model": {"tau": 0.2}}, epochs=7))
    untouched = study(tmp_path, "structural")
    before = other.file.read_bytes()
    with pytest.raises(DetError) as caught:
        complete([untouched, other], [0, 1])
    message = str(caught.value)
    for text in (
        "papers-det.json was made with other settings",
        "model.tau is 0.7 there, 0.2 now",
        "choose another folder",
    ):
        assert text in message
    assert "training.epochs is 2 there, 7 now" in message
    assert other.file.read_bytes() == before
    assert not untouched.file.exists(), "all files are checked before anything is trained"


def test_options_that_did_not_exist_have_their_defaults(tmp_path: Path) -> None:
    one = study(tmp_path)
    complete([one], [0])
    content = json.loads(one.file.read_text(encoding="utf-8"))
    del content["config"]["training"]["sn_loss"]
    one.file.write_text(json.dumps(content), encoding="utf-8")
    assert one.missing([0, 1]) == [1]


def test_a_baseline_does_not_depend_on_sections_it_does_not_read(tmp_path: Path) -> None:
    values = {"task": "node", "data": {"name": "papers"}, "baseline": {"name": "gcn"}}
    assert {"model", "neighbors"}.isdisjoint(study(tmp_path, "gcn", parse_config(values)).settings())
    assert {"model", "neighbors"} <= set(study(tmp_path).settings())


def test_a_structural_only_twin_does_not_depend_on_the_semantic_half(tmp_path: Path) -> None:
    semantic = {"neighbors": {"k": 3}, "training": {"sn_weight": 0.7}}

    def made(tau: float, changed: dict[str, Any]) -> dict[str, Any]:
        values = {"task": "node", "data": {"name": "papers"}, "model": {"tau": tau, "heads": 4}, **changed}
        return study(tmp_path, "any", parse_config(values)).settings()

    assert made(1, semantic) == made(1, {})
    assert made(0.5, semantic) != made(0.5, {})
    assert made(1, {})["model"]["heads"] == 4


def test_changed_data_is_refused(tmp_path: Path) -> None:
    one = study(tmp_path)
    complete([one], [0])
    content = json.loads(one.file.read_text(encoding="utf-8"))
    one.file.write_text(json.dumps({**content, "fingerprint": "0" * 64}), encoding="utf-8")
    with pytest.raises(DetError, match=r"the data of .*papers-det\.json has changed"):
        complete([one], [0, 1])
    assert list(one.runs()) == [0]


def test_commits_of_all_runs_are_named_and_notes_kept(tmp_path: Path) -> None:
    one = study(tmp_path)
    complete([one], [0])
    content = json.loads(one.file.read_text(encoding="utf-8"))
    said = {"commit": "abc", "notes": ["said by hand"]}
    one.file.write_text(json.dumps({**content, **said}), encoding="utf-8")
    complete([one], [0, 1, 2])
    after = json.loads(one.file.read_text(encoding="utf-8"))
    commits = after["commit"].split(", ")
    assert after["notes"] == ["said by hand", *content["notes"]]
    assert commits[0] == "abc"
    assert len(commits) == len(set(commits))


@pytest.mark.parametrize(
    ("text", "message"), [("[1]", "is damaged"), ("{}", "is not a study"), ("{", "damaged")]
)
def test_files_that_are_no_studies(text: str, message: str, tmp_path: Path) -> None:
    one = study(tmp_path)
    one.file.write_text(text)
    with pytest.raises(DetError, match=message):
        complete([one], [0])
    assert one.file.read_text() == text
