"""The search for settings: validation alone, kept trial by trial, gone on with as if never stopped."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import tiny_config, tiny_yaml
from typing_extensions import override

from detgraph.errors import DetError
from detgraph.studies.space import Range, Space, overrides
from detgraph.studies.tuning import Trial, Tuning, TuningObserver, propose, search
from detgraph.tasks import Metrics, NodeTask, Split
from detgraph.training.launch import start

SPACE = Space(
    {
        "model.tau": Range(low=0.0, high=1.0),
        "training.learning_rate": Range(low=1e-3, high=1e-1, log=True),
        "neighbors.k": [1, 2],
    }
)


def tuning(folder: Path, space: Space = SPACE, seeds: int = 1, file: str = "search.json") -> Tuning:
    return Tuning(tiny_yaml("node", folder, epochs=2), space, seeds, folder / file)


def numbers(trials: list[Trial]) -> list[dict[str, Any]]:
    return [{**vars(trial), "seconds": None} for trial in trials]


class Interrupting(TuningObserver):
    """Ends the search after so many trials."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.made: list[int] = []

    @override
    def finished(self, trial: Trial) -> None:
        self.made.append(trial.number)
        if len(self.made) == self.after:
            raise KeyboardInterrupt


def test_the_best_is_that_of_validation(tmp_path: Path) -> None:
    one = tuning(tmp_path, seeds=2)
    search(one, 4)
    content = json.loads(one.file.read_text(encoding="utf-8"))
    values = [trial["value"] for trial in content["trials"]]
    assert content["best"]["value"] == max(values)
    assert content["best"]["number"] == values.index(max(values))
    assert content["metric"] == "accuracy"
    assert {"space", "versions", "commit", "config", "seeds", "fingerprint"} <= set(content)
    assert [trial["number"] for trial in content["trials"]] == [0, 1, 2, 3]
    best = one.best
    assert best is not None
    assert content["best"]["overrides"] == overrides(best.settings)
    again = [
        start(
            tiny_config(
                "node",
                tmp_path,
                {
                    "seed": seed,
                    "model": {"tau": best.settings["model.tau"]},
                    "neighbors": {"k": best.settings["neighbors.k"]},
                },
                epochs=2,
                learning_rate=best.settings["training.learning_rate"],
            ),
            tmp_path / f"run{seed}",
        )
        .train()
        .valid["accuracy"]
        for seed in range(2)
    ]
    assert best.valid == again


def test_the_test_split_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    evaluate, trivial = NodeTask.evaluate, NodeTask.trivial

    def noting_evaluate(self: NodeTask, split: Split) -> Metrics:
        read.append(split)
        return evaluate(self, split)

    def noting_trivial(self: NodeTask, split: Split) -> float:
        read.append(split)
        return trivial(self, split)

    monkeypatch.setattr(NodeTask, "evaluate", noting_evaluate)
    monkeypatch.setattr(NodeTask, "trivial", noting_trivial)
    search(tuning(tmp_path), 1)
    assert set(read) == {"valid"}
    config = tiny_config("node", tmp_path, epochs=1)
    assert start(config, tmp_path / "unread", read_test=False).train().test is None
    assert set(read) == {"valid"}
    assert start(config, tmp_path / "read").train().test is not None
    assert "test" in read


def test_a_stopped_search_goes_on_as_if_it_had_not_been_stopped(tmp_path: Path) -> None:
    whole, stopped = tuning(tmp_path, file="whole.json"), tuning(tmp_path)
    search(whole, 4)
    with pytest.raises(KeyboardInterrupt):
        search(stopped, 4, observer=Interrupting(after=2))
    rest = tuning(tmp_path)
    assert numbers(rest.trials) == numbers(whole.trials)[:2]
    observer = Interrupting(after=99)
    search(rest, 4, observer=observer)
    assert observer.made == [2, 3]
    assert numbers(rest.trials) == numbers(whole.trials)
    search(tuning(tmp_path), 4, observer=observer)
    assert observer.made == [2, 3], "nothing is left to do"


def test_proposals_lean_towards_what_was_good(tmp_path: Path) -> None:
    space = Space({"model.tau": Range(low=0.0, high=1.0)})
    one = tuning(tmp_path, space)
    grid = [step / 30 for step in range(30)]
    one.trials = [Trial(i, {"model.tau": tau}, [1 - abs(tau - 0.8)], None, 0.0) for i, tau in enumerate(grid)]
    taus = [propose(one, [], number)["model.tau"] for number in range(30, 50)]
    assert all(isinstance(tau, float) and 0 <= tau <= 1 for tau in taus)
    assert sum(abs(float(tau or 0) - 0.8) < 0.2 for tau in taus) > 12
    assert propose(one, [], 30) == propose(one, [], 30)
    one.higher_is_better = False
    taus = [propose(one, [], number)["model.tau"] for number in range(30, 50)]
    assert sum(float(tau or 0) < 0.4 for tau in taus) > 12


def test_lower_may_be_better(tmp_path: Path) -> None:
    space = Space({"training.learning_rate": [1e-9, 0.01]})
    one = Tuning(tiny_yaml("graph", tmp_path, epochs=2), space, 1, tmp_path / "search.json")
    search(one, 2)
    assert one.best is not None
    assert one.best.value == min(trial.value for trial in one.trials if trial.value is not None)
    assert one.metric == "mae"


def test_wrong_and_diverging_settings_are_failed_trials(tmp_path: Path) -> None:
    space = Space({"model.semantic_heads": [3], "model.tau": Range(low=0.2, high=0.9)})
    wrong = tuning(tmp_path, space, file="wrong.json")
    search(wrong, 2)
    assert [trial.value for trial in wrong.trials] == [None, None]
    assert wrong.best is None
    assert wrong.trials[0].failed == "model.semantic_heads must be 1 or model.heads = 2 (got 3)."
    space = Space({"training.learning_rate": [1e30]})
    diverging = tuning(tmp_path, space, file="diverging.json")
    search(diverging, 1)
    assert "is not" in (diverging.trials[0].failed or "")
    content = json.loads(diverging.file.read_text(encoding="utf-8"))
    assert (content["best"], content["trials"][0]["value"]) == (None, None)
    assert tuning(tmp_path, space, file="diverging.json").trials == diverging.trials


def test_time_is_over(tmp_path: Path) -> None:
    one = tuning(tmp_path)
    search(one, 3, minutes=0)
    assert one.trials == []
    assert not one.file.exists()


def test_processes(tmp_path: Path) -> None:
    one, alone = tuning(tmp_path), tuning(tmp_path, file="alone.json")
    search(one, 1, jobs=2)  # of the two, the one process that is needed is started
    search(alone, 1)
    assert one.trials[0].value is not None
    assert numbers(one.trials) == numbers(alone.trials)


def test_what_is_running_is_not_proposed_again(tmp_path: Path) -> None:
    space = Space({"neighbors.k": [1, 2]})
    one = tuning(tmp_path, space)
    one.trials = [Trial(i, {"neighbors.k": i % 2 + 1}, [0.5], None, 0.0) for i in range(10)]
    free = [propose(one, [], number)["neighbors.k"] for number in range(10, 30)]
    other = [propose(one, [{"neighbors.k": 1}] * 10, number)["neighbors.k"] for number in range(10, 30)]
    assert other.count(1) < free.count(1)


def test_other_searches_are_never_mixed(tmp_path: Path) -> None:
    one = tuning(tmp_path)
    search(one, 1)
    before = one.file.read_bytes()
    narrower = Space({**SPACE.dimensions, "model.tau": Range(low=0.5, high=1.0)})
    with pytest.raises(
        DetError, match=r"is of another search: space\.model\.tau\.low is 0\.0 there, 0\.5 now"
    ):
        tuning(tmp_path, narrower)
    with pytest.raises(DetError, match=r"seeds is 1 there, 3 now.*--output"):
        tuning(tmp_path, seeds=3)
    assert one.file.read_bytes() == before
    one.file.write_text("{}")
    with pytest.raises(DetError, match="is not a search"):
        tuning(tmp_path)


def test_reading_a_space(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(
        "model.tau: {low: 0.1, high: 0.95}\ntraining.learning_rate: {low: 1e-3, high: 5e-2, log: true}\n"
        "neighbors.k: [4, 8, 16]\nmodel.heads: {low: 1, high: 8}\n"
    )
    space = Space.read(path)
    rate, heads = space.dimensions["training.learning_rate"], space.dimensions["model.heads"]
    assert isinstance(rate, Range)
    assert isinstance(heads, Range)
    assert (rate.low, rate.high, rate.log, rate.whole, heads.whole) == (0.001, 0.05, True, False, True)
    assert space.dimensions["neighbors.k"] == [4, 8, 16]
    assert 4 in heads
    assert 4.5 not in heads
    assert rate.tidy(0.0123456) == 0.01235
    assert rate.tidy(0.04999999) == 0.05
    settings = {"a.b": 1e-05, "c": None, "d": True, "e": "learnable", "f": 8}
    assert overrides(settings) == ["a.b=1e-05", "c=null", "d=true", "e=learnable", "f=8"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model.tau: 0.5", r"model\.tau: expected a range or a list of choices \(got 0\.5\)\. For example"),
        ("model.tau: []", "expected a range or a list"),
        ("model.tau: {low: 0.5}", "model.tau: high: Field required"),
        ("model.tau: {low: 0.5, high: 0.1}", "low must be less than high"),
        ("model.tau: {low: 0, high: 1, log: true}", "log needs a low above 0"),
        ("model.tau: [[1]]", "model.tau: "),
        ("model.tau: {low: 0.5, high: .inf}", "model.tau: high.*: Input should be a finite number"),
        ("model.tau: 2020-99-99", "is not valid YAML"),
        ("model.tau: [1]\nmodel.tau: [2]", "given twice"),
        ("- 1", "expected settings with a range"),
        ("", "expected settings with a range"),
    ],
)
def test_spaces_that_are_wrong(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(text)
    with pytest.raises(DetError, match=message) as caught:
        Space.read(path)
    assert str(path) in str(caught.value)


def test_settings_that_cannot_be_searched(tmp_path: Path) -> None:
    for key in ("model.tua", "seed", "data.split_seed", "model"):
        with pytest.raises(DetError, match=f"unknown setting to search '{key}'"):
            tuning(tmp_path, Space({key: [1, 2]}))


def test_without_optuna(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(DetError, match=r"needs optuna.*pip install 'detgraph\[tune\]'"):
        search(tuning(tmp_path), 1)


def test_the_recipes_own_settings_come_first(tmp_path: Path) -> None:
    one = tuning(tmp_path)
    own = one.config.model_dump(mode="json")
    assert propose(one, [], 0) == {
        "model.tau": own["model"]["tau"],
        "training.learning_rate": own["training"]["learning_rate"],
        "neighbors.k": own["neighbors"]["k"],
    }
    outside = tuning(tmp_path, Space({"model.tau": Range(low=0.0, high=own["model"]["tau"] / 2)}))
    assert propose(outside, [], 0)["model.tau"] != own["model"]["tau"]
