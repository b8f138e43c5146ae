"""What every task owes the training loop, whatever its data."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pytest
import torch
from builders import (
    entity_task,
    graph_task,
    grouped_task,
    molecules,
    network,
    node_task,
    same_weights,
    total,
    train,
)
from torch import Tensor

from detgraph.nn import Sparse
from detgraph.tasks import Split, Task

Y = np.random.default_rng(0).normal(size=(20, 2))
CLASSES = np.vstack([Y[:16] > 0, np.eye(2), np.eye(2)]).astype(float)  # both classes in every split
LABELS = (torch.rand(30, 4, generator=torch.Generator().manual_seed(5)) < 0.4).float()


def paths_task(model: Mapping[str, Any] | None = None, **options: Any) -> Task:
    """Questions in groups, with paths unless there is no structural encoder."""
    model = model or {}
    paths = {} if model.get("tau") == 0 else {"path_hops": 2, "path_channels": 8}
    return grouped_task(model={**paths, **model}, **options)


BUILDERS: dict[str, Callable[..., Task]] = {
    "graph": lambda **options: graph_task(molecules(Y), **options),
    "graph-classes": lambda **options: graph_task(molecules(CLASSES, kind="classification"), **options),
    "node": lambda **options: node_task(**options),
    "node-labels": lambda **options: node_task(network(y=LABELS), **options),
    "node-table": lambda **options: node_task(network(x=None), **options),
    "entity": lambda **options: entity_task(**options),
    "entity-grouped": lambda **options: paths_task(**options),
}
DROPOUT = {"dropout": 0.3, "attention_dropout": 0.3}

every_task = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)


def tensors(value: Any) -> list[Tensor]:
    """All tensors of a batch."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, tuple):
        return [tensor for part in value for tensor in tensors(part)]
    return [value.target, value.source] if isinstance(value, Sparse) else []


@dataclass
class Epoch:
    """What a task did in its first epoch."""

    batches: list[list[Tensor]]
    losses: list[float]


def first_epoch(task: Task) -> Epoch:
    torch.manual_seed(0)
    task.start_epoch(0)
    task.train()
    batches = list(task.batches(0))
    return Epoch([tensors(batch) for batch in batches], [total(task(batch)).item() for batch in batches])


def same(one: Epoch, other: Epoch) -> bool:
    return len(one.batches) == len(other.batches) and all(
        a.shape == b.shape and a.allclose(b, equal_nan=True)
        for ours, theirs in zip(one.batches, other.batches, strict=True)
        for a, b in zip(ours, theirs, strict=True)
    )


@every_task
def test_the_same_seed_gives_the_same_epoch(build: Callable[..., Task]) -> None:
    one, again = build(model=DROPOUT, seed=3), build(model=DROPOUT, seed=3)
    assert same_weights(one, again)
    first, second = first_epoch(one), first_epoch(again)
    assert same(first, second)
    assert first.losses == second.losses


@every_task
def test_another_seed_gives_another_epoch(build: Callable[..., Task]) -> None:
    one, other = build(seed=3), build(seed=4)
    assert not same_weights(one, other)
    other.load_state_dict(one.state_dict())
    first, second = first_epoch(one), first_epoch(other)
    assert not same(first, second)
    assert first.losses != second.losses


@every_task
def test_epochs_differ_and_do_not_depend_on_what_was_before(build: Callable[..., Task]) -> None:
    task = build()

    def batches(epoch: int) -> Epoch:
        return Epoch([tensors(batch) for batch in task.batches(epoch)], [])

    third = batches(3)
    assert not same(third, batches(4))
    assert same(third, batches(3))


@every_task
def test_as_many_steps_as_batches(build: Callable[..., Task]) -> None:
    task = build()
    assert task.steps() == len(list(task.batches(0))) > 0


@every_task
@pytest.mark.parametrize("tau", [0.5, 1.0, 0.0, "learnable", "alternate"])
def test_a_gradient_reaches_every_parameter_in_use(build: Callable[..., Task], tau: Any) -> None:
    # With both biases one set gives one map, and τ no effect.
    task = build(model={"tau": tau, "mutual_bias": "none" if tau == "learnable" else "both"})
    # From weights that are not special, and with the fetched nodes in place.
    with torch.no_grad():
        for parameter in task.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    task.start_epoch(0)
    for batch in task.batches(0):
        torch.autograd.backward(total(task(batch)))
    missed = {name for name, p in task.named_parameters() if p.grad is None or not p.grad.any()}
    assert missed <= unused(task, tau)


def unused(task: Task, tau: Any) -> set[str]:
    """Parameters without an effect: those of an absent encoder, and what a softmax or one set cancels."""
    names = {name for name, _ in task.named_parameters()}
    found = {name for name in names if name.endswith("key.bias")}  # adds the same to all logits of a node
    if "model.position.virtual" in names:  # molecules: one set for both encoders, and no L_sn
        found |= {name for name in names if name.endswith(("operator.bias", "tau_logit"))}
        if tau == 0:
            found |= {name for name in names if name.startswith("model.position.")}
    semantic_only = {0.0: ["layers."], "alternate": ["layers.1."]}.get(tau, [])
    return found | {
        name
        for name in names
        if name.startswith("model.det.")
        and any(layer in name for layer in semantic_only)
        and (".query." in name or ".key." in name)
    }


@every_task
def test_losses_are_named_scalars_with_main_first(build: Callable[..., Task]) -> None:
    task = build()
    losses = task(next(task.batches(0)))
    assert next(iter(losses)) == "main"
    assert all(loss.dim() == 0 and loss.isfinite() for loss in losses.values())


@every_task
def test_training_lowers_the_loss(build: Callable[..., Task]) -> None:
    task = build()
    losses = train(task, 12, 0.02)
    count = task.steps()
    assert np.mean(losses[-count:]) < np.mean(losses[:count])


@every_task
def test_metrics_of_every_split(build: Callable[..., Task]) -> None:
    task = build()
    for split in get_args(Split):
        assert task.has(split)
        metrics = task.evaluate(split)
        assert task.metric in metrics
        assert all(isinstance(value, float) and np.isfinite(value) for value in metrics.values())
        assert np.isfinite(task.trivial(split))
        assert task.evaluate(split) == metrics


@every_task
def test_evaluation_changes_nothing(build: Callable[..., Task]) -> None:
    one, other = build(model=DROPOUT), build(model=DROPOUT)
    for task in (one, other):
        task.start_epoch(0)
    for split in get_args(Split):
        one.evaluate(split)
    assert same_weights(one, other)
    ours, theirs = one.neighbor_state(), other.neighbor_state()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@every_task
def test_words_about_a_task(build: Callable[..., Task]) -> None:
    task = build()
    assert json.loads(json.dumps(task.vocabulary())) == task.vocabulary()
    assert json.loads(json.dumps(task.notes)) == list(task.notes)
    description = task.describe()
    assert "train / validate / test" in description
    assert "\n" not in description


@every_task
def test_memory_grows_with_the_model(build: Callable[..., Task]) -> None:
    small, deep = build(model={"layers": 2}).memory(), build(model={"layers": 6}).memory()
    assert 0 < small < deep


@every_task
def test_weights_and_neighbors_are_all_that_evaluation_needs(build: Callable[..., Task]) -> None:
    task, fresh = build(seed=1), build(seed=2)
    train(task, 4, 0.02)
    wanted = {split: task.evaluate(split) for split in get_args(Split)}
    fresh.load_state_dict(task.state_dict())
    fresh.load_neighbor_state({name: tensor.clone() for name, tensor in task.neighbor_state().items()})
    assert {split: fresh.evaluate(split) for split in get_args(Split)} == wanted


@pytest.mark.parametrize("name", ["node", "node-table", "entity"])
def test_fetched_nodes_are_part_of_the_state(name: str) -> None:
    task = BUILDERS[name]()
    task.start_epoch(0)
    state = task.neighbor_state()
    assert all((found >= 0).any() and found.dtype == torch.int64 for found in state.values())
    fresh = BUILDERS[name]()
    fresh.load_neighbor_state(state)
    torch.manual_seed(0)
    ours = total(task(next(task.batches(0))))
    torch.manual_seed(0)
    assert torch.equal(ours, total(fresh(next(fresh.batches(0)))))
    torch.manual_seed(0)
    empty = BUILDERS[name]()
    torch.manual_seed(0)
    assert not torch.equal(ours, total(empty(next(empty.batches(0)))))
