import json
from pathlib import Path

import pytest
from tiny_runs import TASKS, TaskName, det, molecules_csv, outcome, tiny_config, tiny_values, tiny_yaml

from detgraph.training import Interrupted, Observer, RunFolder
from detgraph.training.interrupt import StopRequest
from detgraph.training.launch import start


@pytest.mark.parametrize("task", TASKS)
def test_train_then_evaluate(
    task: TaskName, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = tiny_yaml(task, tmp_path, epochs=2)
    answer = det(capsys, "train", recipe.name, "training.evaluate_every=2", "--output", "run")
    assert (answer.code, answer.err) == (0, "")
    assert ", ," not in answer.out  # the first epoch was not evaluated
    for text in ("parameters", "at most 2 epochs", "looks at no input", "det evaluate run"):
        assert text in answer.out
    run = RunFolder.open(tmp_path / "run")
    assert run.report_file.is_file()
    result = run.result()
    assert result is not None

    for split in ("valid", "test"):
        answer = det(capsys, "evaluate", "run", "--split", split, "--json")
        assert (answer.code, answer.err) == (0, "")
        expected = {"run": "run", "split": split, **result[split], "notes": result["notes"]}
        assert json.loads(answer.out) == expected
    answer = det(capsys, "evaluate", "run")
    assert f"{result['test'][result['metric']]:.4f}" in answer.out


def test_notes_stand_beside_every_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe, note = (
        tiny_yaml("graph", tmp_path, epochs=1),
        "no split column: random 80/10/10 split with seed 0",
    )
    command = ("data.split_column=null",)
    answer = det(capsys, "train", recipe, *command, "--output", "run")
    assert answer.out.count(f"note: {note}") == 2  # before training, and with the result
    assert f"note: {note}" in det(capsys, "evaluate", "run").out
    assert f"Note: {note}" in Path("run/report.html").read_text(encoding="utf-8")
    answer = det(capsys, "compare", recipe, *command, "--models", "det", "--seeds", "1")
    assert f"note: {note}" in answer.out


def test_the_command_line_finds_what_the_library_finds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tiny_yaml("node", tmp_path)
    assert det(capsys, "train", recipe, "seed=4", "training.epochs=2", "--output", tmp_path / "one").code == 0
    start(tiny_config("node", tmp_path, {"seed": 4}, epochs=2), tmp_path / "other").train()
    assert outcome(tmp_path / "one") == outcome(tmp_path / "other")


def test_overrides_and_the_default_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ("train", "node/papers", "data.num_nodes=200", "training.epochs=1", "model.tau=1", "seed=3")
    assert det(capsys, *command).code == 0
    assert det(capsys, *command).code == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "papers-structural-seed3",
        "papers-structural-seed3-2",
    ]
    config = RunFolder.open(tmp_path / "runs/papers-structural-seed3").config()
    assert (config.model.tau, config.seed, config.training.epochs) == (1, 3, 1)


def test_a_folder_that_holds_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tiny_yaml("node", tmp_path, epochs=1)
    det(capsys, "train", recipe, "--output", tmp_path / "run")
    before = outcome(tmp_path / "run")
    answer = det(capsys, "train", recipe, "seed=1", "--output", tmp_path / "run")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert f"`det resume {tmp_path / 'run'}`" in answer.err
    assert outcome(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("node/coras",), "unknown recipe 'node/coras'. Did you mean 'node/cora'?"),
        (("missing.yaml",), "no such configuration file: missing.yaml"),
        (("bad.yaml",), "bad.yaml is not valid YAML"),
        (("list.yaml",), "list.yaml: expected keys and values at the top level, got list"),
        (("good.yaml", "model.head=3"), "unknown key 'model.head'. Did you mean 'heads'?"),
        (("good.yaml", "model.tau=2"), "model.tau"),
        (("good.yaml", "model.channels=7"), "must be a multiple of model.heads"),
        (("good.yaml", "seed"), "override 'seed' is not of the form key=value"),
        (("good.yaml", "seed=-1"), "seed"),
        (("good.yaml", "data.file=none.csv"), "none.csv"),
        (("good.yaml", "data.targets=[z]"), "'z'"),
        (("good.yaml", "training.device=tpu"), "training.device"),
    ],
)
def test_mistakes_are_messages_and_leave_nothing(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny_yaml("graph", tmp_path).rename("good.yaml")
    Path("bad.yaml").write_text("task: [graph")
    Path("list.yaml").write_text("- task")
    before = sorted(tmp_path.rglob("*"))
    answer = det(capsys, "train", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert message in answer.err
    assert "Traceback" not in answer.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_bad_row_is_named_by_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tiny_yaml("graph", tmp_path)
    table = molecules_csv(tmp_path)
    table.write_text(table.read_text().replace("CCCl,", "CCX,"))
    answer = det(capsys, "train", recipe, "--output", tmp_path / "run")
    assert answer.code == 2
    assert f"{table}:14" in answer.err
    assert not (tmp_path / "run").exists()


def test_evaluate_what_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = det(capsys, "evaluate", tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert "is not a run folder" in answer.err
    RunFolder.create(tmp_path / "run", tiny_config("node", tmp_path))
    answer = det(capsys, "evaluate", tmp_path / "run")
    assert answer.code == 2
    assert f"`det resume {tmp_path / 'run'}`" in answer.err


def test_evaluate_a_part_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tiny_yaml("graph", tmp_path, epochs=1)
    molecules_csv(tmp_path, splits=("train", "train", "valid"))
    answer = det(capsys, "train", recipe, "--output", tmp_path / "run")
    assert answer.code == 0
    answer = det(capsys, "evaluate", tmp_path / "run", "--json")
    assert (answer.code, answer.out) == (2, "")
    assert "has no test part" in answer.err


class StopAt(Observer):
    """Ask for a stop after some step."""

    def __init__(self, step: int, stop: StopRequest) -> None:
        self.at, self.stop = step, stop

    def step(self, done: int, total: int) -> None:
        self.stop.requested |= done == self.at


@pytest.mark.parametrize("step", [1, 2, 3])
def test_resume_at_any_step(step: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Step 3 is the last of its epoch: nothing but the evaluation is left of it."""
    config = tiny_config("graph", tmp_path, epochs=2)
    trainer = start(config, tmp_path / "run")
    assert trainer.task.steps() == 3
    stop = StopRequest()
    with pytest.raises(Interrupted):
        trainer.train_epoch(stop, StopAt(step, stop))
    answer = det(capsys, "resume", tmp_path / "run")
    assert (answer.code, answer.err) == (0, "")
    assert f"Going on in epoch 1, step {step + 1}" in answer.out
    assert (tmp_path / "run/report.html").is_file()
    start(config, tmp_path / "whole").train()
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_resume_what_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tiny_yaml("node", tmp_path, epochs=1)
    det(capsys, "train", recipe, "--output", tmp_path / "run")
    answer = det(capsys, "resume", tmp_path / "run")
    assert answer.code == 2
    assert "has finished already" in answer.err
    answer = det(capsys, "resume", tmp_path / "nowhere")
    assert (answer.code, answer.out) == (2, "")
    assert "is not a run folder" in answer.err


def test_resume_with_a_damaged_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunFolder.create(tmp_path / "run", tiny_config("node", tmp_path, epochs=1))
    run.checkpoint_file.write_bytes(b"not whole")
    answer = det(capsys, "resume", tmp_path / "run")
    assert answer.code == 2
    assert "checkpoint.safetensors is damaged" in answer.err
    run.checkpoint_file.unlink()
    assert det(capsys, "resume", tmp_path / "run").code == 0


def test_names_with_brackets_and_long_paths_are_printed_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ("[red]" + "x" * 90) / "[/]run"
    answer = det(capsys, "train", tiny_yaml("node", tmp_path, epochs=1), "--output", path)
    assert answer.code == 0
    assert f"det evaluate '{path}'\n" in answer.out


def test_the_configuration_of_a_run_can_be_trained_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = tiny_values("entity", tmp_path, epochs=1)
    assert not Path(values["data"]["train"]).is_absolute()
    det(capsys, "train", tiny_yaml("entity", tmp_path, epochs=1), "--output", tmp_path / "one")
    answer = det(capsys, "train", tmp_path / "one/config.yaml", "--output", tmp_path / "two")
    assert answer.code == 0
    assert outcome(tmp_path / "one") == outcome(tmp_path / "two")


def test_data_that_changed_after_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tiny_yaml("graph", tmp_path, epochs=1)
    assert det(capsys, "train", recipe, "--output", tmp_path / "run").code == 0
    table = tmp_path / "molecules.csv"
    header, *rows = table.read_text().splitlines()
    table.write_text("\n".join([header, *rows[::-1]]) + "\n")
    answer = det(capsys, "evaluate", tmp_path / "run")
    assert answer.code == 2
    assert "has changed since the run was started" in answer.err


def test_a_folder_with_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/checkpoint.safetensors").write_bytes(b"of another run")
    recipe = tiny_yaml("node", tmp_path, epochs=1)
    answer = det(capsys, "train", recipe, "--output", tmp_path / "mine")
    assert answer.code == 2
    assert "is not empty" in answer.err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["checkpoint.safetensors"]


def test_a_path_on_the_command_line_starts_where_the_user_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_yaml("graph", tmp_path / "recipes", epochs=1)
    (tmp_path / "here").mkdir()
    (tmp_path / "recipes/molecules.csv").rename(tmp_path / "here/mine.csv")
    monkeypatch.chdir(tmp_path / "here")
    assert det(capsys, "train", recipe, "data.file=mine.csv", "--output", "run").code == 0


@pytest.mark.parametrize("name", ["result.json", "vocabulary.json", "neighbors.safetensors"])
def test_damaged_files_of_a_run(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert det(capsys, "train", tiny_yaml("node", tmp_path, epochs=1), "--output", run).code == 0
    (run / name).write_text("3")
    answer = det(capsys, "resume" if name == "result.json" else "evaluate", run)
    assert answer.code == 2
    assert f"{name} is damaged" in answer.err
