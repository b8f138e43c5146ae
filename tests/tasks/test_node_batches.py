"""Mini-batches of nodes, layer-wise inference, and consistency of views."""

from typing import Any

import pytest
import torch
from builders import network, node_task, train
from torch import Tensor
from torch.nn import functional

from detgraph.errors import DetError
from detgraph.nn import NetworkDET
from detgraph.tasks import NodeTask
from detgraph.tasks.consistency import consistency_loss
from detgraph.tasks.inference import encode_layerwise
from detgraph.tasks.node import Part

SPARSE = torch.rand(30, 5, generator=torch.Generator().manual_seed(0)).to_sparse_csr()
DATA = {"dense": {}, "sparse": {"x": SPARSE}, "table": {"x": None}}
each_input = pytest.mark.parametrize("data", DATA.values(), ids=DATA)


def gradients(task: NodeTask, batch: Any) -> tuple[Tensor, list[Tensor]]:
    task.train()
    task.zero_grad()
    loss = task(batch)["main"]
    torch.autograd.backward(loss)
    return loss.detach(), [parameter.grad for parameter in task.parameters() if parameter.grad is not None]


@each_input
@pytest.mark.parametrize(("layers", "hops"), [(1, 1), (2, 1), (3, 1), (2, 3)])
@pytest.mark.parametrize("semantic_set", ["union", "fetched"])
def test_all_neighbours_of_all_training_nodes_are_the_full_batch(
    data: dict[str, Any], layers: int, hops: int, semantic_set: str
) -> None:
    model = {"layers": layers, "hops": hops, "semantic_set": semantic_set}
    whole = node_task(network(**data), model=model, training={"sn_weight": 0})
    sampled = node_task(network(**data), model=model, training={"sn_weight": 0, "batch_size": 99})
    for task in (whole, sampled):
        task.start_epoch(0)
    assert torch.equal(whole.parts[0].neighbors.found, sampled.parts[0].neighbors.found)
    torch.testing.assert_close(
        gradients(whole, next(whole.batches(0))), gradients(sampled, next(sampled.batches(0)))
    )
    assert whole.evaluate("test") == sampled.evaluate("test")


@each_input
@pytest.mark.parametrize("hops", [1, 3])
def test_layerwise_inference_equals_the_full_batch(data: dict[str, Any], hops: int) -> None:
    task = node_task(network(**data), model={"hops": hops}, training={"batch_size": 4})
    task.start_epoch(0)
    part: Part = task.parts[0]
    assert isinstance(task.model, NetworkDET)
    task.eval()
    whole = task.model(part.x, part.neighborhood)
    for rows in (1, 7, 100):
        pieces = encode_layerwise(task.model, part.x, part.sampler, rows)
        torch.testing.assert_close(pieces.x, whole.x)
        for ours, reference in zip(pieces.layers, whole.layers, strict=True):
            torch.testing.assert_close(ours.states, reference.states)


def test_batches_cover_the_training_nodes_once_and_draw_few_neighbours() -> None:
    task = node_task(training={"batch_size": 4, "fan_out": 2})
    task.start_epoch(0)
    batches = list(task.batches(0))
    assert task.steps() == len(batches) == 4
    assert [batch.own for batch in batches] == [4, 4, 4, 3]
    labels = torch.cat([batch.y[batch.mask] for batch in batches])
    graph = task.data.graph
    assert labels.sort().values.tolist() == graph.y[graph.train_mask].sort().values.tolist()
    for batch in batches:
        pairs = batch.neighborhood
        drawn = torch.bincount(pairs.target[pairs.structural[:, 0] & ~pairs.loop], minlength=pairs.num_nodes)
        assert int(drawn.max()) <= 2
        assert batch.negative is not None
        assert batch.consistency == 0  # a ramp starts at nothing


@pytest.mark.parametrize(("layers", "hops"), [(2, 1), (3, 1), (2, 3)])
def test_neighbours_are_compared_by_the_states_of_the_whole_graph(layers: int, hops: int) -> None:
    model = {"layers": layers, "hops": hops, "dropout": 0, "attention_dropout": 0}
    nodes = torch.arange(60)
    ring = network(
        x=torch.rand(60, 5, generator=torch.Generator().manual_seed(1)),
        edge_index=torch.stack([nodes.repeat(2), torch.cat([nodes.roll(1), nodes.roll(-1)])]),
        y=nodes % 3,
        **{f"{split}_mask": nodes % 3 == place for place, split in enumerate(("train", "val", "test"))},
    )
    task = node_task(ring, model=model, neighbors={"k": 0}, training={"batch_size": 2})
    part, batch = task.parts[0], next(task.batches(0))
    assert batch.negative is not None
    used = torch.cat([batch.compared.edges.target, batch.compared.edges.source])
    used = torch.cat([used, batch.negative.target, batch.negative.source]).unique()  # type: ignore[no-untyped-call]  # torch
    assert 2 < len(used) < batch.neighborhood.num_nodes
    assert isinstance(task.model, NetworkDET)
    task.eval()
    with torch.no_grad():
        block, whole = task.model(batch.x, batch.neighborhood), task.model(part.x, part.neighborhood)
    for ours, reference in zip(block.layers, whole.layers, strict=True):
        rows = (ours.states[used].flatten(1)[:, None] - reference.states.flatten(1)[None]).abs().sum(dim=2)
        assert float(rows.min(dim=1).values.max()) < 1e-4  # each is the state of some node


def test_views_agree_on_nodes_without_label_in_batches() -> None:
    task = node_task(training={"batch_size": 4, "views": 2})
    task.start_epoch(0)
    batch = next(task.batches(0))
    assert int(batch.mask.sum()) == 4
    assert batch.own == 8
    assert not batch.mask[4:].any()


def test_learns_in_batches_and_finds_the_new_neighbours() -> None:
    task = node_task(network(x=torch.eye(30)), training={"batch_size": 5, "fan_out": 3})
    train(task, 80)
    assert task.evaluate("train")["accuracy"] > 0.9
    sampler = task.parts[0].sampler
    task.start_epoch(60)
    assert task.parts[0].sampler is not sampler  # the old one draws from the old neighbours


def test_views_add_a_loss_that_pulls_them_together() -> None:
    task = node_task(
        model={"node_dropout": 0.5, "dropout": 0.3},
        training={"views": 3, "consistency_ramp": 10, "consistency_weight": 2.0},
    )
    task.start_epoch(5)
    task.train()
    batch = next(task.batches(5))
    assert batch.consistency == 1.0  # half of the ramp
    losses = task(batch)
    assert set(losses) == {"main", "consistency", "sn"}
    assert losses["consistency"].item() > 0
    assert next(task.batches(20)).consistency == 2.0
    alone = node_task(training={"views": 1})
    alone.start_epoch(5)
    assert set(alone(next(alone.batches(5)))) == {"main", "sn"}


def test_consistency_by_hand() -> None:
    one, other = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    likely = [functional.softmax(view, dim=1) for view in (one, other)]
    mean = (likely[0] + likely[1]) / 2
    aim = mean**2 / (mean**2).sum()
    expected = sum(float(((view - aim) ** 2).sum()) for view in likely) / 2
    assert consistency_loss([one, other], 0.5, multi_label=False).item() == pytest.approx(expected, rel=1e-5)


def test_consistency_of_labels_is_that_of_each_label() -> None:
    views = [torch.randn(4, 3), torch.randn(4, 3)]
    each = [
        consistency_loss(
            [torch.stack([view[:, label], torch.zeros(4)], dim=1) for view in views], 0.5, multi_label=False
        )
        for label in range(3)
    ]
    torch.testing.assert_close(consistency_loss(views, 0.5, multi_label=True), torch.stack(each).mean())


def test_equal_sure_views_agree() -> None:
    sure = torch.tensor([[50.0, 0.0], [0.0, 50.0]])
    assert float(consistency_loss([sure, sure], 0.5, multi_label=False)) == pytest.approx(0, abs=1e-6)


def test_fan_out_needs_batches() -> None:
    with pytest.raises(DetError, match=r"training.fan_out has no effect without training.batch_size"):
        node_task(training={"fan_out": 3})


def test_output_selects_nodes_that_are_predicted_alike() -> None:
    task = node_task(neighbors={"source": "output", "warmup": 2})
    task.start_epoch(0)
    assert (task.parts[0].neighbors.found == -1).all()  # nothing is fetched before
    task.start_epoch(2)
    part = task.parts[0]
    before = node_task(neighbors={"source": "output", "warmup": 2})
    logits = functional.normalize(before.encode(before.parts[0]).x)
    similar = logits @ logits.t()
    for node, found in enumerate(part.neighbors.found.tolist()):
        allowed = ~part.neighborhood.connected(torch.full((30,), node), torch.arange(30))
        best = similar[node].masked_fill(~allowed, -9).topk(3).values
        torch.testing.assert_close(similar[node, found], best)
