import json
import platform
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny_runs import tiny_config

from detgraph.errors import DetError
from detgraph.tasks import Task
from detgraph.training import RunFolder, launch
from detgraph.training.launch import free_folder, load_predictor, load_run, resume, start
from detgraph.training.run import PACKAGES, InUse, save_tensors, versions


def test_create_writes_the_configuration_that_open_reads(tmp_path: Path) -> None:
    config = tiny_config("node", tmp_path)
    RunFolder.create(tmp_path / "new/run", config)
    run = RunFolder.open(tmp_path / "new/run")
    assert run.config() == config
    assert (run.metrics(), run.result()) == ([], None)
    assert json.loads(run.versions_file.read_text()) == versions()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    trainer = start(tiny_config("node", tmp_path), tmp_path / "run")
    with (
        RunFolder(tmp_path / "run").alone(),
        pytest.raises(InUse, match=r"another process is training .*run\. Wait for it to end"),
    ):
        trainer.train()
    assert trainer.train().epochs > 0
    assert not trainer.run.lock_file.exists()


def test_what_another_process_has_finished_is_not_trained_again(tmp_path: Path) -> None:
    first = start(tiny_config("node", tmp_path), tmp_path / "run")
    second = resume(tmp_path / "run")
    first.train()
    with pytest.raises(DetError, match=r"run has finished already"):
        second.train()


def test_a_checkpoint_of_another_optimizer(tmp_path: Path) -> None:
    trainer = start(tiny_config("node", tmp_path), tmp_path / "run")
    trainer.save()
    config = trainer.run.config_file
    config.write_text(config.read_text().replace("optimizer: adam\n", "optimizer: adamax\n"))
    with pytest.raises(DetError, match=r"is of another training\.optimizer .*Put the old one back"):
        resume(tmp_path / "run")


def test_a_folder_with_a_run_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run"
    RunFolder.create(path, tiny_config("node", tmp_path))
    before = (path / "config.yaml").read_text()
    with pytest.raises(DetError, match=r"already holds a run.*det resume .*run`.*--output"):
        start(tiny_config("node", tmp_path, epochs=1), path)
    assert (path / "config.yaml").read_text() == before


@pytest.mark.parametrize("inside", [".", "run", "some/run"])
def test_a_path_that_is_or_goes_through_a_file(inside: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DetError, match=r"file is a file, not a folder.*--output"):
        start(tiny_config("node", tmp_path), tmp_path / "file" / inside)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_taken_folder_is_refused_before_data_is_read(tmp_path: Path) -> None:
    config = tiny_config("graph", tmp_path)
    RunFolder.create(tmp_path / "run", config)
    (tmp_path / "molecules.csv").unlink()
    with pytest.raises(DetError, match="already holds a run"):
        start(config, tmp_path / "run")


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    for verb in (RunFolder.open, resume, load_run):
        with pytest.raises(DetError, match=r"is not a run folder: it has no config\.yaml"):
            verb(tmp_path)


def test_an_unfinished_run_has_no_weights(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", tiny_config("node", tmp_path))
    with pytest.raises(DetError, match=r"has not finished.*det resume .*run"):
        load_run(tmp_path / "run")


def test_damaged_weights(tmp_path: Path) -> None:
    start(tiny_config("node", tmp_path, epochs=1), tmp_path / "run").train()
    weights = tmp_path / "run/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-7])
    with pytest.raises(DetError, match=r"model\.safetensors is damaged"):
        load_run(tmp_path / "run")


def test_a_run_that_is_not_whole(tmp_path: Path) -> None:
    start(tiny_config("graph", tmp_path, epochs=1), tmp_path / "run").train()
    for name, load in (("vocabulary.json", load_predictor), ("neighbors.safetensors", load_run)):
        (tmp_path / "run" / name).unlink()
        with pytest.raises(DetError, match=rf"{name} is missing: the run folder is not whole"):
            load(tmp_path / "run")


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    start(tiny_config("node", tmp_path, epochs=1), tmp_path / "run").train()
    save_tensors(tmp_path / "run/model.safetensors", {"other": torch.ones(1)})
    with pytest.raises(DetError, match=r"do not fit its configuration: Missing"):
        load_run(tmp_path / "run")


def test_neighbors_of_another_run(tmp_path: Path) -> None:
    start(tiny_config("node", tmp_path, epochs=3), tmp_path / "run").train()
    assert load_run(tmp_path / "run").neighbor_state()["0"].shape == (200, 2)
    for wrong in (torch.zeros(9, 2, dtype=torch.long), torch.full((200, 2), 200), torch.zeros(200, 2)):
        save_tensors(tmp_path / "run/neighbors.safetensors", {"0": wrong})
        with pytest.raises(DetError, match="does not fit the run: expected numbers of 200 nodes"):
            load_run(tmp_path / "run")
    save_tensors(tmp_path / "run/neighbors.safetensors", {"1": torch.zeros(200, 2)})
    with pytest.raises(DetError, match=r"neighbors\.safetensors does not fit the run: it holds 1"):
        load_run(tmp_path / "run")


@pytest.mark.parametrize("load", [load_run, load_predictor])
def test_a_run_is_opened_where_training_would_be(
    load: Callable[[Path], Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    start(tiny_config("graph", tmp_path, epochs=1), run).train()
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("device: auto", "device: cuda"))
    assert load(run).device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    monkeypatch.setattr(launch, "device_of", lambda config: torch.device("meta"))  # stands for a GPU
    assert load(run).device.type == "meta"


def test_a_half_written_last_line_of_metrics(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", tiny_config("node", tmp_path))
    for epoch in range(3):
        run.append_metrics({"epoch": epoch, "main": 0.5})
    with run.metrics_file.open("a") as file:
        file.write('{"epoch": 3, "ma')
    assert [record["epoch"] for record in run.metrics()] == [0, 1, 2]
    run.keep_metrics_before(2)
    run.append_metrics({"epoch": 2})
    assert [json.loads(line)["epoch"] for line in run.metrics_file.read_text().splitlines()] == [0, 1, 2]


def test_versions_name_all_that_a_result_depends_on() -> None:
    found = versions()
    assert found.keys() == {"python", *PACKAGES, "commit"}
    assert found["python"] == platform.python_version()
    assert found["torch"] == torch.__version__
    commit = found["commit"]
    assert commit is None or len(commit) == 40


def test_free_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = tiny_config("graph", tmp_path, {"seed": 3})
    twin = tiny_config("graph", tmp_path, {"model": {"tau": 1}})
    assert free_folder(twin) == Path("runs/molecules-structural-seed0")
    names = []
    for _ in range(3):
        names.append(free_folder(config).name)
        free_folder(config).mkdir(parents=True)
    assert names == ["molecules-det-seed3", "molecules-det-seed3-2", "molecules-det-seed3-3"]
