"""Baselines on networks: they learn, take sparse features, and are the models that their papers describe."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from builders import network, train
from torch import Tensor
from torch_geometric.nn import APPNP, GCN2Conv, GCNConv, SAGEConv, SuperGATConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from detgraph.baselines import NetworkModel, build_network_model, networks
from detgraph.baselines.adjacency import normalized_adjacency, spread_by_product
from detgraph.config import NodeConfig, parse_config
from detgraph.config.baselines import NETWORK_BASELINES, NetworkBaseline
from detgraph.data.networks import Network
from detgraph.data.papers import generate_papers
from detgraph.nn import Sparse
from detgraph.tasks import NodeBaselineTask

LABELS = (torch.rand(30, 4, generator=torch.Generator().manual_seed(5)) < 0.4).float()
SMALL: dict[str, dict[str, Any]] = {
    **{name: {"channels": 8} for name in NETWORK_BASELINES},
    **{name: {"channels": 4, "heads": 2} for name in ("gat", "supergat-sd", "supergat-mx")},
    "gcnii": {"channels": 16, "layers": 4, "inner_decay": 1e-4},
    "gps": {"channels": 8, "heads": 2},
    "sgformer": {"channels": 8, "inner_decay": 1e-4},
}
every_baseline = pytest.mark.parametrize("name", NETWORK_BASELINES)


def small(name: str, **changes: Any) -> NetworkBaseline:
    return NetworkBaseline(name=name, **{"dropout": 0.0, **SMALL[name], **changes})


def model(name: str, features: int = 6, classes: int = 3, **changes: Any) -> NetworkModel:
    return build_network_model(small(name, **changes), features=features, classes=classes)


def task(name: str, data: Network, seed: int = 0, **changes: Any) -> NodeBaselineTask:
    baseline = small(name, **changes).model_dump()
    config = parse_config({"task": "node", "data": {"name": "tiny"}, "baseline": baseline, "seed": seed})
    assert isinstance(config, NodeConfig)
    torch.manual_seed(seed)
    return NodeBaselineTask(data, config)


@every_baseline
def test_learns_a_network_by_heart(name: str) -> None:
    learner = task(name, generate_papers(120))
    losses = train(learner, 100, learning_rate=0.03)
    assert losses[-1] < losses[0]
    assert learner.evaluate("train")["accuracy"] > 0.9


@every_baseline
def test_several_labels(name: str) -> None:
    learner = task(name, network(y=LABELS), dropout=0.3)
    assert all(torch.tensor(loss).isfinite() for loss in train(learner, 3))
    assert 0 <= learner.evaluate("test")["f1"] <= 1


@every_baseline
def test_without_features_a_table_is_learned(name: str) -> None:
    learner = task(name, network(x=None))
    table = learner.model.table
    assert isinstance(table, torch.nn.Embedding)
    before = table.weight.detach().clone()
    train(learner, 2)
    assert not torch.equal(before, table.weight)


@every_baseline
def test_sparse_features_give_what_dense_ones_give(name: str, edge_index: Tensor) -> None:
    x = torch.rand(12, 6) * (torch.rand(12, 6) < 0.4)
    found = []
    for form in (x, x.to_sparse_csr()):
        torch.manual_seed(0)
        built = model(name)
        logits = built(form, edge_index)
        logits.square().sum().backward()
        found.append([logits, *(weight.grad for weight in built.parameters() if weight.grad is not None)])
    for dense, sparse in zip(*found, strict=True):
        torch.testing.assert_close(dense, sparse, atol=1e-5, rtol=1e-4)


@every_baseline
def test_dropout_of_sparse_features_is_off_in_evaluation(name: str, edge_index: Tensor) -> None:
    x = torch.rand(12, 6).to_sparse_csr()
    built = model(name, dropout=0.5)
    assert not torch.equal(built(x, edge_index), built(x, edge_index))
    built.eval()
    assert torch.equal(built(x, edge_index), built(x, edge_index))


@every_baseline
def test_numbering_of_nodes_does_not_matter(name: str, edge_index: Tensor) -> None:
    built, x, order = model(name).eval(), torch.rand(12, 6), torch.randperm(12)
    logits, renumbered = built(x, edge_index), built(x[order], order.argsort()[edge_index])
    torch.testing.assert_close(logits[order], renumbered, atol=1e-5, rtol=1e-4)


@every_baseline
def test_the_same_seed_gives_the_same_losses(name: str) -> None:
    def losses() -> list[float]:
        learner = task(name, network(), seed=3, dropout=0.4)
        torch.manual_seed(1)
        return train(learner, 3)

    assert losses() == losses()


def test_adjacency_is_that_of_gcn(edge_index: Tensor) -> None:
    without_loops = edge_index[:, edge_index[0] != edge_index[1]]
    edges, weight = gcn_norm(without_loops, num_nodes=12)
    expected = torch.zeros(12, 12)
    expected[edges[1], edges[0]] = weight
    torch.testing.assert_close(normalized_adjacency(without_loops, 12).to_dense(), expected)


@pytest.mark.parametrize(
    "build",
    [lambda: GCNConv(6, 4), lambda: APPNP(3, 0.2)],
    ids=["gcn", "appnp"],
)
def test_one_product_gives_what_messages_give(build: Callable[[], Any]) -> None:
    edges = network().graph.edge_index
    found = []
    for product in (False, True):
        torch.manual_seed(0)
        conv = build()
        x = torch.rand(30, 6, requires_grad=True)
        last = normalized_adjacency(edges, 30) if product else edges
        out = (spread_by_product(conv) if product else conv)(x, last)
        out.square().sum().backward()
        found.append([out, x.grad])
    for messages, by_product in zip(*found, strict=True):
        torch.testing.assert_close(messages, by_product)


def test_gcnii_gives_what_pyg_gives() -> None:
    edges, x = network().graph.edge_index, torch.rand(30, 6)
    built = model("gcnii", channels=16, layers=3, alpha=0.2, theta=0.7)
    assert isinstance(built, networks.GCNII)
    first = h = built.into(x).relu()
    for depth, weight in enumerate(built.inner, start=1):
        conv = GCN2Conv(16, 0.2, 0.7, depth)
        conv.weight1 = weight
        h = conv(h, first, edges).relu()
    expected = built.out(h)
    torch.testing.assert_close(built(x, edges), expected)
    found = [
        torch.autograd.grad(logits.square().sum(), list(built.parameters()))
        for logits in (built(x, edges), expected)
    ]
    for ours, pyg in zip(*found, strict=True):
        torch.testing.assert_close(ours, pyg, atol=1e-5, rtol=1e-4)


def test_sage_maps_before_it_averages(edge_index: Tensor) -> None:
    built, x = model("sage", layers=1), torch.rand(12, 6)
    plain = SAGEConv(6, 3)
    assert isinstance(built, networks.SAGE)
    near, own = built.into.weight.detach().chunk(2)
    plain.lin_l.weight, plain.lin_r.weight = torch.nn.Parameter(near), torch.nn.Parameter(own)
    built.bias.data.uniform_()
    plain.lin_l.bias = built.bias
    torch.testing.assert_close(built(x, edge_index), plain(x, edge_index))


def test_supergat_contrasts_edges_with_unconnected_pairs() -> None:
    built, near = model("supergat-mx"), Sparse.from_edges(network().graph.edge_index, 30)
    assert isinstance(built, networks.SuperGAT)
    far = built.unconnected(near)
    linked = set(zip(near.target.tolist(), near.source.tolist(), strict=True))
    assert linked.isdisjoint(zip(far.target.tolist(), far.source.tolist(), strict=True))
    assert 0 < len(far.target) <= 0.4 * len(linked)
    assert far.target.tolist() == sorted(far.target.tolist())


@pytest.mark.parametrize("concat", [True, False])
@pytest.mark.parametrize("kind", ["SD", "MX"])
def test_supergat_gives_what_pyg_gives(kind: str, concat: bool) -> None:
    edges, pairs = network().graph.edge_index, torch.tensor([[3, 1, 2], [4, 5, 6]])
    found = []
    for ours in (False, True):
        torch.manual_seed(0)
        build = networks.SupervisedAttention if ours else SuperGATConv
        conv = build(6, 4, 2, concat=concat, attention_type=kind, edge_sample_ratio=1.0)
        x = torch.randn(30, 6, requires_grad=True)
        if ours:
            out = conv(x, Sparse.from_edges(edges, 30), Sparse.from_pairs(pairs[1], pairs[0], 30))
        else:
            out = conv(x, edges, pairs)
        loss = conv.get_attention_loss()
        (out.square().sum() + 3 * loss).backward()
        found.append([out, loss, x.grad, *(weight.grad for weight in conv.parameters())])
    for pyg, by_pairs in zip(*found, strict=True):
        torch.testing.assert_close(by_pairs, pyg, atol=1e-5, rtol=1e-4)


def test_parts_of_the_loss() -> None:
    def parts(name: str, **changes: Any) -> set[str]:
        learner = task(name, network(), **changes)
        return set(learner(next(learner.batches(0))))

    assert parts("gcn") == {"main"}
    assert parts("supergat-sd") == {"main", "attention"}
    assert parts("gcnii") == parts("sgformer") == {"main", "decay"}
    assert parts("gcnii", inner_decay=0.0) == {"main"}


def test_inner_decay_acts_like_the_optimizer_s() -> None:
    learner = task("gcnii", network(), inner_decay=0.25)
    losses = learner(next(learner.batches(0)))
    torch.autograd.backward(losses["decay"])
    weight = learner.model.network.inner[0]  # type: ignore[index]  # a baseline of networks
    torch.testing.assert_close(weight.grad, 0.25 * weight)
    assert learner.model.network.out.weight.grad is None  # type: ignore[union-attr]  # a baseline of networks


@every_baseline
def test_nothing_is_fetched_and_memory_is_counted(name: str) -> None:
    learner = task(name, network())
    learner.start_epoch(0)
    assert all(found.numel() == 0 for found in learner.neighbor_state().values())
    assert learner.memory() > 0
