"""Everything needed to go on from a step, on a CPU bit for bit, in one safetensors file."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn, optim

from detgraph.errors import DetError
from detgraph.training.run import save_tensors

Tensors = dict[str, Tensor]


@dataclass
class Progress:
    """How far training has come."""

    epoch: int = 0
    step: int = 0  # batches done in this epoch
    best: dict[str, float] | None = None  # validation metrics of the weights to keep
    best_epoch: int = -1
    stale: int = 0  # evaluations since the best one
    seconds: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)  # losses summed over this epoch's batches


@dataclass
class Snapshot:
    """Weights with the semantic neighbours they go with."""

    weights: Tensors
    neighbors: Tensors


def save_checkpoint(
    path: Path, progress: Progress, now: Snapshot, best: Snapshot | None, optimizer: optim.Optimizer
) -> None:
    """Write the state of training atomically."""
    state = optimizer.state_dict()
    tensors = {
        **_prefixed("now.weights", now.weights),
        **_prefixed("now.neighbors", now.neighbors),
        "rng": torch.get_rng_state(),
    }
    if best is not None:
        tensors |= _prefixed("best.weights", best.weights) | _prefixed("best.neighbors", best.neighbors)
    for index, entries in state["state"].items():
        tensors |= _prefixed(f"optimizer.{index}", entries)
    metadata = {"progress": json.dumps(asdict(progress)), "groups": json.dumps(state["param_groups"])}
    save_tensors(path, {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}, metadata)


def load_checkpoint(
    path: Path, model: nn.Module, optimizer: optim.Optimizer
) -> tuple[Progress, Tensors, Snapshot | None]:
    """Put back weights, optimiser and random state; gives progress, neighbours now, and the best snapshot."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no iterator
    except SafetensorError as error:
        raise DetError(f"{path} is damaged ({error}). Delete it to train this run from its start.") from None
    try:
        model.load_state_dict(_under("now.weights", tensors))
    except RuntimeError as error:
        raise DetError(
            f"{path} does not fit the data and configuration of its run (has the data changed?): {error}"
        ) from None
    state: dict[int, dict[str, Any]] = {}
    for name, tensor in _under("optimizer", tensors).items():
        index, _, entry = name.partition("/")
        state.setdefault(int(index), {})[entry] = tensor
    groups = json.loads(metadata["groups"])
    if any(old.keys() != new.keys() for old, new in zip(groups, optimizer.param_groups, strict=True)):
        raise DetError(
            f"{path} is of another training.optimizer (or another torch) than there is now. Put the old one "
            "back, or delete the file to train this run from its start."
        )
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    torch.set_rng_state(tensors["rng"])
    progress = Progress(**json.loads(metadata["progress"]))
    best = None
    if progress.best is not None:
        best = Snapshot(_under("best.weights", tensors), _under("best.neighbors", tensors))
    return progress, _under("now.neighbors", tensors), best


def _prefixed(prefix: str, tensors: Tensors) -> Tensors:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def _under(prefix: str, tensors: Tensors) -> Tensors:
    """Entries of one prefix; of ``optimizer.3/exp_avg`` under ``optimizer``, the name is ``3/exp_avg``."""
    return {
        name[len(prefix) + 1 :]: tensor
        for name, tensor in tensors.items()
        if name.startswith((f"{prefix}/", f"{prefix}."))
    }
