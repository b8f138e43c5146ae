"""Node classification: labels and graphs that must not be seen are not, and it learns."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from builders import edges, network, node_task, same_weights, train
from torch import Tensor
from torch.nn import functional

from detgraph.data.feature_rows import (
    SKETCH_CHANNELS,
    cosines,
    normalize_rows,
    sketch,
    take_rows,
)
from detgraph.data.features import csr_tensor
from detgraph.data.networks import Network
from detgraph.errors import DetError
from detgraph.neighbors import find_neighbors
from detgraph.nn.network import propagate
from detgraph.nn.semantic import SearchSpace
from detgraph.tasks import NodeTask
from detgraph.tasks.node import (
    micro_f1,
    top_labels,
)

GRAPH = torch.arange(30) // 10  # three graphs of ten nodes
LABELS = (torch.rand(30, 4, generator=torch.Generator().manual_seed(5)) < 0.4).float()


def features(seed: int = 0) -> Tensor:
    return torch.rand(30, 5, generator=torch.Generator().manual_seed(seed))


def three_graphs(**changes: Any) -> Network:
    """Training labels in the first two graphs only."""
    index = edges(30, share=0.3)
    inside = index[:, GRAPH[index[0]] == GRAPH[index[1]]]
    masks = {"train_mask": GRAPH < 2, "val_mask": GRAPH > 5, "test_mask": GRAPH == 2}
    return network(**{"edge_index": inside, "graph_id": GRAPH, **masks, **changes})


def logits(task: NodeTask, part: int = 0) -> Tensor:
    """Of all nodes of a graph, without dropout."""
    task.eval()
    with torch.no_grad():
        found: Tensor = task.model(task.parts[part].x, task.parts[part].neighborhood).x
    return found


def one_loss(task: NodeTask) -> dict[str, float]:
    task.start_epoch(0)
    return {name: value.item() for name, value in task(next(task.batches(0))).items()}


def slow_f1(y: Tensor, predicted: Tensor) -> float:
    """2·right / (2·right + wrong + missed), over all pairs of node and label."""
    right, either = int((predicted.bool() & y.bool()).sum()), int(predicted.sum() + y.sum())
    return 2 * right / either


# --- nothing leaks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("multi_label", [False, True])
def test_labels_to_validate_and_test_do_not_influence_training(multi_label: bool) -> None:
    given = network(y=LABELS) if multi_label else network()
    held_out = ~given.graph.train_mask
    changed = given.graph.y.clone()
    changed[held_out] = changed[held_out].roll(1, dims=0)
    assert not torch.equal(changed, given.graph.y)
    one, other = node_task(given), node_task(network(y=changed))
    assert train(one, 3) == train(other, 3)
    assert same_weights(one, other)
    assert one.evaluate("valid") != other.evaluate("valid")


def test_graphs_do_not_influence_each_other() -> None:
    one, other = (
        node_task(three_graphs(x=torch.where(GRAPH[:, None] == 0, features(), features(seed))))
        for seed in (1, 2)
    )
    for task in (one, other):
        task.start_epoch(0)
    assert torch.equal(one.parts[0].neighbors.found, other.parts[0].neighbors.found)
    assert torch.equal(logits(one), logits(other))
    assert not torch.equal(logits(one, 1), logits(other, 1))


def test_a_graph_without_training_labels_takes_no_part_in_training() -> None:
    given = three_graphs()
    index = given.graph.edge_index
    fewer = index[:, (GRAPH[index[0]] < 2) | (index.sum(dim=0) % 3 > 0)]
    assert fewer.size(1) < index.size(1)
    x = torch.where(GRAPH[:, None] == 2, 9 * features(3), given.graph.x)
    one, other = node_task(given), node_task(three_graphs(x=x, edge_index=fewer))
    assert one.steps() == 2
    assert [len(batch.y) for batch in one.batches(0)] == [10, 10]
    losses = train(one, 3)
    assert len(losses) == 6
    assert train(other, 3) == losses
    assert same_weights(one, other)
    assert not torch.equal(logits(one, 2), logits(other, 2))


def test_a_graph_alone_is_as_in_company() -> None:
    together = node_task(three_graphs())
    own = GRAPH == 1
    index = together.data.graph.edge_index
    inside = index[:, own[index[0]]] - 10
    masks = {
        name: own[own] if name == "train_mask" else ~own[own]
        for name in ("train_mask", "val_mask", "test_mask")
    }
    alone = node_task(
        network(x=features()[own], y=together.data.graph.y[own] % 3, edge_index=inside, **masks)
    )
    alone.load_state_dict(together.state_dict())
    for task in (together, alone):
        task.start_epoch(0)
    torch.testing.assert_close(logits(alone), logits(together, 1))


def test_graphs_come_in_random_order() -> None:
    task = node_task(three_graphs())
    first = [float(next(task.batches(epoch)).y.float().mean()) for epoch in range(20)]
    assert len(set(first)) == 2


def test_several_graphs_need_features() -> None:
    with pytest.raises(DetError, match=r"tiny: has several graphs and no node features\..* give features"):
        node_task(three_graphs(x=None))


# --- features ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["features", "propagated", "learned"])
@pytest.mark.parametrize("many", [False, True])
def test_sparse_features_are_as_dense_ones(source: str, many: bool) -> None:
    dense = features() * (features(1) < 0.5)
    dense[4] = 0  # a node without any
    build = three_graphs if many else network
    one = node_task(build(x=dense), neighbors={"source": source, "warmup": 0})
    other = node_task(build(x=csr_tensor(dense.numpy())), neighbors={"source": source, "warmup": 0})
    assert other.parts[0].x is not None
    assert other.parts[0].x.layout == torch.sparse_csr
    assert one_loss(one) == pytest.approx(one_loss(other), abs=1e-6)
    assert train(one, 3) == pytest.approx(train(other, 3), abs=1e-5)


@pytest.mark.parametrize("normalize", [True, False])
def test_rows_are_scaled_to_sum_to_one(normalize: bool) -> None:
    task = node_task(normalize=normalize)
    x = task.parts[0].x
    assert x is not None
    expected = features() / features().sum(dim=1, keepdim=True) if normalize else features()
    torch.testing.assert_close(x, expected)
    assert torch.equal(task.data.graph.x, features())  # the data is left alone


def test_rows_of_zeros_stay() -> None:
    dense = torch.tensor([[0.0, 0.0], [1.0, -3.0]])
    expected = torch.tensor([[0.0, 0.0], [0.25, -0.75]])
    torch.testing.assert_close(normalize_rows(dense), expected)
    torch.testing.assert_close(normalize_rows(csr_tensor(dense.numpy())).to_dense(), expected)


def test_rows_are_taken_alike_from_both_layouts() -> None:
    dense = features() * (features(1) < 0.5)
    taken = take_rows(csr_tensor(dense.numpy()), GRAPH == 1)
    assert taken.layout == torch.sparse_csr
    assert torch.equal(taken.to_dense(), take_rows(dense, GRAPH == 1))


def test_a_network_without_features_learns_a_table() -> None:
    task = node_task(network(x=None), model={"head_channels": 16})
    assert dict(task.named_parameters())["model.table.weight"].shape == (30, 6)
    losses = train(task, 60, 0.03)
    assert losses[-1] < 0.5 * losses[0]
    assert task.evaluate("train")["accuracy"] > 0.9


# --- losses and metrics -----------------------------------------------------------------------------


def test_main_loss_is_that_of_the_training_nodes() -> None:
    task = node_task()
    mask = task.data.graph.train_mask
    expected = functional.cross_entropy(logits(task)[mask], task.data.graph.y[mask])
    torch.testing.assert_close(task(next(task.batches(0)))["main"], expected)


def test_many_labels() -> None:
    task = node_task(network(y=LABELS))
    mask = task.data.graph.train_mask
    expected = functional.binary_cross_entropy_with_logits(logits(task)[mask], LABELS[mask])
    torch.testing.assert_close(task(next(task.batches(0)))["main"], expected)
    assert task.metric == "f1"
    train(task, 20)
    for split, name in (("valid", "val_mask"), ("test", "test_mask")):
        chosen = task.data.graph[name]
        wanted = slow_f1(LABELS[chosen], logits(task)[chosen].sigmoid() > 0.5)
        assert task.evaluate(split)["f1"] == pytest.approx(wanted)  # type: ignore[arg-type]  # over names


def test_as_many_labels_as_a_node_has() -> None:
    scores = torch.tensor([[0.1, 0.9, 0.5], [3.0, 2.0, 1.0], [-1.0, -2.0, -3.0]])
    y = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    expected = [[False, True, True], [True, False, False], [False, False, False]]
    assert top_labels(scores, y).tolist() == expected
    data = replace(network(y=LABELS), counts_known=True)
    task, plain = node_task(data), node_task(network(y=LABELS))
    logits, labels = task.predict("test")
    assert task.evaluate("test") == {"f1": micro_f1(top_labels(logits, labels), labels)}
    assert plain.evaluate("test") == {"f1": micro_f1(logits > 0, labels)}
    often = network(y=LABELS).graph.y[network(y=LABELS).graph.train_mask].mean(dim=0)
    assert task.trivial("test") == micro_f1(top_labels(often.expand_as(labels), labels), labels)


@pytest.mark.parametrize("seed", range(5))
def test_micro_f1_is_that_of_sklearn(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="no sklearn: only a referee")
    rng = np.random.default_rng(seed)
    predicted, y = rng.random((17, 6)) < 0.3, rng.random((17, 6)) < 0.4
    ours = micro_f1(torch.from_numpy(predicted), torch.from_numpy(y))
    assert ours == pytest.approx(metrics.f1_score(y, predicted, average="micro"))


def test_accuracy_and_trivial_by_hand() -> None:
    task = node_task()
    graph = task.data.graph
    right = logits(task).argmax(dim=1) == graph.y
    assert task.evaluate("test")["accuracy"] == pytest.approx(float(right[graph.test_mask].float().mean()))
    most = int(torch.bincount(graph.y[graph.train_mask]).argmax())
    assert task.trivial("test") == pytest.approx(float((graph.y[graph.test_mask] == most).float().mean()))


def test_trivial_of_many_labels_is_a_fixed_set_of_labels() -> None:
    y = torch.zeros(30, 3)
    y[:, 0] = 1  # the one label that all have
    y[::7, 2] = 1
    mask = network(y=y).graph.test_mask
    wanted = slow_f1(y[mask], torch.tensor([1, 0, 0]).expand(int(mask.sum()), -1))
    assert node_task(network(y=y)).trivial("test") == pytest.approx(wanted)


def test_evaluation_ignores_dropout() -> None:
    task = node_task(model={"dropout": 0.6, "attention_dropout": 0.6})
    task.start_epoch(0)
    task.train()
    first = task.predict("test")[0]
    assert torch.equal(task.predict("test")[0], first)


@pytest.mark.parametrize(
    ("model", "training", "parts"),
    [({}, {}, ["main", "sn"]), ({"tau": 1}, {}, ["main"]), ({}, {"sn_weight": 0}, ["main"])],
)
def test_parts_of_the_loss(model: dict[str, Any], training: dict[str, Any], parts: list[str]) -> None:
    assert list(one_loss(node_task(model=model, training=training))) == parts


def test_weight_of_the_neighbor_loss() -> None:
    one, two = (one_loss(node_task(training={"sn_weight": weight})) for weight in (0.2, 0.4))
    assert two["sn"] == pytest.approx(2 * one["sn"])
    assert two["main"] == one["main"]


# --- structural only --------------------------------------------------------------------------------


def test_tau_one_is_structural_only() -> None:
    task = node_task(model={"tau": 1}, neighbors={"k": 5, "warmup": 0})
    assert not any("operator" in name for name, _ in task.named_parameters())
    before = logits(task)
    task.start_epoch(0)
    assert task.parts[0].neighbors.k == 0
    assert task.neighbor_state()["0"].shape == (30, 0)
    assert torch.equal(logits(task), before)


def test_fetched_nodes_are_read() -> None:
    task = node_task()
    before = logits(task)
    task.start_epoch(0)
    assert not torch.allclose(logits(task), before)


def test_semantic_set_is_handed_on() -> None:
    union, fetched = (node_task(model={"semantic_set": name}) for name in ("union", "fetched"))
    for task in (union, fetched):
        task.start_epoch(0)
    count = union.data.graph.edge_index.size(1)
    assert union.parts[0].neighborhood.semantic.sum() - fetched.parts[0].neighborhood.semantic.sum() == count


# --- when and where to search -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("neighbors", "expected"),
    [
        ({"source": "learned", "warmup": 3, "every": 2}, [0, 3, 5, 7]),
        ({"source": "learned", "warmup": 0, "every": 3}, [0, 3, 6]),
        ({"source": "features"}, [0]),
        ({"source": "propagated"}, [0]),
        ({"k": 0, "warmup": 0}, []),
    ],
)
def test_nodes_are_fetched_at_the_epochs_of_the_schedule(
    neighbors: dict[str, Any], expected: list[int]
) -> None:
    task = node_task(neighbors=neighbors)
    (part,) = task.parts
    searched = []
    for epoch in range(8):
        part.neighbors.found = torch.full_like(part.neighbors.found, -1)
        task.start_epoch(epoch)
        if (part.neighbors.found >= 0).any():
            searched.append(epoch)
    assert searched == expected


@pytest.mark.parametrize(("source", "steps"), [("features", 0), ("propagated", 2)])
def test_features_select(source: str, steps: int) -> None:
    task = node_task(neighbors={"source": source})
    task.start_epoch(0)
    (part,) = task.parts
    assert part.x is not None
    vectors = functional.normalize(part.x)
    for _ in range(steps):  # a mean over the node and its neighbours
        vectors = torch.stack(
            [
                vectors[torch.cat([torch.tensor([i]), part.edge_index[0][part.edge_index[1] == i]])].mean(
                    dim=0
                )
                for i in range(30)
            ]
        )
    space = SearchSpace(functional.normalize(vectors), "dot")
    expected = find_neighbors(space, 3, part.edge_index, 30, backend="exact")
    assert torch.equal(part.neighbors.found, expected)


def test_propagation_leaves_an_isolated_node_alone() -> None:
    task = node_task()
    x = functional.normalize(features())
    torch.testing.assert_close(propagate(x, task.parts[0].neighborhood, 2)[29], x[29])


def test_learned_states_select_anew_when_weights_change() -> None:
    task = node_task(neighbors={"warmup": 0}, normalize=False)
    task.start_epoch(0)
    before = task.parts[0].neighbors.found
    train(task, 10, 0.05)
    assert not torch.equal(task.parts[0].neighbors.found, before)


def test_features_are_compared_by_cosine_and_stay_sparse() -> None:
    unit = functional.normalize(features())
    rows = torch.tensor([3, 0, 29])
    for x in (features(), csr_tensor(features().numpy())):
        torch.testing.assert_close(cosines(x)(rows), unit[rows] @ unit.t())


def test_few_features_are_searched_as_they_are() -> None:
    assert torch.equal(sketch(features()), functional.normalize(features()))
    assert torch.equal(sketch(csr_tensor(features().numpy())), functional.normalize(features()))


def test_many_features_are_searched_in_fewer_channels() -> None:
    nodes = 200
    x = torch.randn(nodes, 2 * SKETCH_CHANNELS)
    x[1:50] += 2 * x[0]  # some that are near
    found = sketch(x)
    assert found.shape == (nodes, SKETCH_CHANNELS)
    exact = functional.normalize(x)
    assert (found[:100] @ found[:100].t() - exact[:100] @ exact[:100].t()).abs().max() < 0.3
    assert torch.equal(sketch(x), found)


# --- awkward networks -------------------------------------------------------------------------------


def test_k_larger_than_the_graph() -> None:
    task = node_task(neighbors={"k": 100, "warmup": 0})
    task.start_epoch(0)
    degree = torch.bincount(task.data.graph.edge_index[1], minlength=30)
    assert ((task.parts[0].neighbors.found >= 0).sum(dim=1) == 29 - degree).all()
    losses = train(task, 2)
    assert np.isfinite(losses).all()


def test_no_edges_at_all() -> None:
    task = node_task(network(edge_index=torch.empty(2, 0, dtype=torch.long)))
    assert list(one_loss(task)) == ["main"]
    assert np.isfinite(train(task, 2)).all()


def test_an_isolated_node_reads_itself_and_what_it_fetches() -> None:
    task = node_task(neighbors={"k": 0})
    alone = logits(task)[29]
    (part,) = task.parts
    assert part.x is not None
    part.x[:29] = 7.0
    torch.testing.assert_close(logits(task)[29], alone)
    assert not (task.data.graph.edge_index == 29).any()


def test_overfits_a_small_network() -> None:
    task = node_task(model={"head_channels": 16}, normalize=False)
    losses = train(task, 80, 0.03)
    assert losses[-1] < 0.3 * losses[0]
    assert task.evaluate("train")["accuracy"] == 1
    assert task.trivial("train") < 0.7


def test_vocabulary_and_description() -> None:
    task = node_task()
    assert task.vocabulary() == {"nodes": [str(i) for i in range(30)], "classes": ["0", "1", "2"]}
    count = task.data.graph.edge_index.size(1) // 2
    assert task.describe() == (
        f"tiny: 30 nodes, {count} edges, 3 classes, 15 / 9 / 6 nodes to train / validate / test"
    )
    assert "4 labels" in node_task(network(y=LABELS)).describe()


def test_only_sparse_features_are_scaled_by_default() -> None:
    dense = network(x=torch.rand(30, 5) + 1)
    task = node_task(dense, normalize=None)
    assert task.parts[0].x is not None
    assert torch.equal(task.parts[0].x, dense.graph.x)
    scaled = node_task(network(x=dense.graph.x.to_sparse_csr()), normalize=None).parts[0].x
    assert scaled is not None
    assert torch.allclose(scaled.to_dense().sum(dim=1), torch.ones(30))
