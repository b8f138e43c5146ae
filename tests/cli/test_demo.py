from pathlib import Path

import pytest
from tiny_runs import outcome, tiny_config

from detgraph.cli.demo import RECIPES, show_comparison, train_once
from detgraph.config import dump_config, load_config
from detgraph.data.benchmarks import BENCHMARKS
from detgraph.errors import DetError
from detgraph.recipes import recipe_path
from detgraph.report.comparison import compare
from detgraph.studies.models import OWN_MODELS
from detgraph.training import RunFolder
from detgraph.training.interrupt import Interrupted, StopRequest
from detgraph.training.launch import start
from detgraph.training.loop import Observer


def test_train_once_then_reuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tiny_config("node", tmp_path, epochs=2)
    run = train_once(config, tmp_path / "run")
    assert run is not None
    before = outcome(run.path)
    weights = run.weights_file.stat().st_mtime_ns
    assert "already trained" not in capsys.readouterr().out

    again = train_once(config, tmp_path / "run")
    assert again is not None
    assert "already trained" in capsys.readouterr().out
    assert outcome(again.path) == before
    assert again.weights_file.stat().st_mtime_ns == weights


def test_train_once_goes_on(tmp_path: Path) -> None:
    config = tiny_config("graph", tmp_path, epochs=2)
    stop = StopRequest()
    stop.requested = True
    with pytest.raises(Interrupted):
        start(config, tmp_path / "run").train_epoch(stop, Observer())
    assert train_once(config, tmp_path / "run") is not None
    start(config, tmp_path / "whole").train()
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_train_once_refuses_other_settings(tmp_path: Path) -> None:
    train_once(tiny_config("node", tmp_path, epochs=1), tmp_path / "run")
    with pytest.raises(DetError, match=r"run holds a run with other settings.*--output"):
        train_once(tiny_config("node", tmp_path, epochs=2), tmp_path / "run")


def test_comparison_over_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained: dict[str, list[RunFolder]] = {"structural": [], "det": []}
    for tau, model in ((1.0, "structural"), (0.5, "det")):
        for seed in (0, 1):
            config = tiny_config("node", tmp_path, {"seed": seed, "model": {"tau": tau}}, epochs=2)
            run = train_once(config, tmp_path / f"{model}-{seed}")
            assert run is not None
            trained[model].append(run)
    capsys.readouterr()
    show_comparison([compare(trained["structural"], trained["det"])])
    shown = capsys.readouterr().out
    for text in ("node", "papers", "accuracy", "↑", "±", "of 2"):
        assert text in shown


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_recipes_name_data_that_comes_along(recipe: str) -> None:
    twin, det = (load_config(recipe_path(recipe), OWN_MODELS[model]) for model in ("structural", "det"))
    assert det.data.name is not None
    assert BENCHMARKS[det.data.name].files == ()
    assert twin.model.tau == 1 != det.model.tau
    assert dump_config(twin).replace("tau: 1.0", f"tau: {det.model.tau}") == dump_config(det)
