"""Runs from a configuration: start, continue, open again."""

from pathlib import Path

import torch

from detgraph.config import Config
from detgraph.config.schema import model_name
from detgraph.errors import DetError
from detgraph.tasks import Task, build_task
from detgraph.training.loop import Trainer
from detgraph.training.run import RunFolder


def prepare(config: Config) -> Task:
    """Data and model, with weights that depend on nothing but the configuration."""
    torch.manual_seed(config.seed)
    return build_task(config)


def start(config: Config, path: Path, *, read_test: bool = True) -> Trainer:
    """A new run in ``path``; nothing is written before data and model are ready."""
    run = RunFolder(path)
    run.check_free()  # before the data, which can take long
    trainer = Trainer(prepare(config), config.training, run, read_test=read_test)
    RunFolder.create(path, config)
    run.save_vocabulary(trainer.task.vocabulary(), trainer.task.fingerprint())
    return trainer


def resume(path: Path) -> Trainer:
    """Go on with an unfinished run."""
    run = RunFolder.open(path)
    if run.result() is not None:
        raise DetError(f"{path} has finished already; see {run.result_file} or run `det evaluate {path}`.")
    config = run.config()
    task = prepare(config)
    run.check_data(task.fingerprint())
    return Trainer(task, config.training, run)


def load_run(path: Path) -> Task:
    """A finished run's task with the chosen weights and their semantic neighbours."""
    run = RunFolder.open(path)
    weights, neighbors = run.load_weights()
    task = prepare(run.config())
    run.check_data(task.fingerprint())
    try:
        task.load_state_dict(weights)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip()
        raise DetError(f"the weights in {path} do not fit its configuration: {first}") from None
    expected = {name: tensor.shape for name, tensor in task.neighbor_state().items()}
    if {name: tensor.shape for name, tensor in neighbors.items()} != expected:
        raise DetError(f"{run.neighbors_file} does not fit the run: it belongs to another one. Train anew.")
    task.load_neighbor_state(neighbors)
    return task


def free_folder(config: Config) -> Path:
    """A folder name that says what the run is and is not taken: ``runs/cora-det-seed0``, ``…-2``, ``…-3``."""
    base = Path("runs") / f"{config.data.label}-{model_name(config)}-seed{config.seed}"
    path, number = base, 1
    while path.exists():
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return path
