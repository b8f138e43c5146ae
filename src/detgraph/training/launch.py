"""Runs from a configuration: start, continue, open again."""

from pathlib import Path

import torch
from torch import Tensor

from detgraph.config import Config, GraphConfig, TrainingConfig
from detgraph.config.schema import model_name
from detgraph.data.featurizers import get_featurizer
from detgraph.data.molecules import Molecules
from detgraph.errors import DetError
from detgraph.tasks import GraphTask, Task, build_task
from detgraph.training.loop import Trainer, make_fabric
from detgraph.training.run import RunFolder, read_json


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
    run.check_unfinished()
    config = run.config()
    task = prepare(config)
    run.check_data(task.fingerprint())
    return Trainer(task, config.training, run)


def load_predictor(path: Path) -> GraphTask:
    """A finished run on molecules, ready to predict others; the data it was trained on is not needed."""
    run = RunFolder.open(path)
    config = run.config()
    if not isinstance(config, GraphConfig):
        raise DetError(f"{path} is a run of the task {config.task}; molecules need one of the task graph.")
    weights, _ = run.load_weights()
    names = read_json(run.vocabulary_file)
    data = Molecules.none(get_featurizer(names["featurizer"]), names["targets"], names["kind"])
    task = GraphTask(data, config)
    put_weights(task, weights, path)
    return task.to(device_of(config.training))


def load_run(path: Path) -> Task:
    """A finished run's task with the chosen weights and their semantic neighbours."""
    run = RunFolder.open(path)
    weights, neighbors = run.load_weights()
    config = run.config()
    task = prepare(config)
    run.check_data(task.fingerprint())
    put_weights(task, weights, path)
    task.to(device_of(config.training))
    try:
        if neighbors.keys() != task.neighbor_state().keys():
            raise ValueError(f"it holds {', '.join(neighbors) or 'nothing'}")
        task.load_neighbor_state(neighbors)
    except ValueError as error:
        raise DetError(f"{run.neighbors_file} does not fit the run: {error}. Train anew.") from None
    return task


def device_of(config: TrainingConfig) -> torch.device:
    """Where training would be; a run from a machine with another device takes what there is."""
    try:
        return make_fabric(config).device
    except DetError:
        return make_fabric(config.model_copy(update={"device": "auto"})).device


def put_weights(task: Task, weights: dict[str, Tensor], path: Path) -> None:
    """Give a task its saved weights."""
    try:
        task.load_state_dict(weights)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip()
        raise DetError(f"the weights in {path} do not fit its configuration: {first}") from None


def free_folder(config: Config) -> Path:
    """A folder name that says what the run is and is not taken: ``runs/cora-det-seed0``, ``…-2``, ``…-3``."""
    base = Path("runs") / f"{config.data.label}-{model_name(config)}-seed{config.seed}"
    path, number = base, 1
    while path.exists():
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return path
