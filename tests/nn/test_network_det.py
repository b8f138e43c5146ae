"""NetworkDET: predictions, inputs of every kind, and the sampled neighbour-fetching loss."""

import math
from typing import Any

import pytest
import torch
from reference import neighbor_sets, semantic_score
from torch import Tensor
from torch.nn import functional

from detgraph.nn import DualEncoding, NetworkDET, Sparse
from detgraph.nn.network import pair_weights, propagate, sample_distant
from detgraph.nn.semantic import SEMANTIC_FORMS

FETCHED = torch.tensor([[11, 10, 8], [0, 11, 9]])
NO_EDGES = torch.empty(2, 0, dtype=torch.long)


def model_of(encoding: DualEncoding | None = None, **options: Any) -> NetworkDET:
    """6 features to 3 classes, in double precision."""
    sizes = {"features": 6, "classes": 3, "head_channels": 4, "heads": 2}
    return NetworkDET(**{**sizes, **options}, encoding=encoding or DualEncoding()).double()


def random_x(nodes: int = 12) -> Tensor:
    return torch.randn(nodes, 6, dtype=torch.double)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_predictions_do_not_depend_on_the_numbering(layers: int, edge_index: Tensor) -> None:
    model, x = model_of(layers=layers), random_x()
    expected = model(x, Sparse.from_edges(edge_index, 12, FETCHED)).x
    assert expected.shape == (12, 3)
    order = torch.randperm(12)
    place = order.argsort()
    pairs = Sparse.from_edges(place[edge_index], 12, place[FETCHED])
    torch.testing.assert_close(model(x[order], pairs).x, expected[order])


def test_graphs_in_one_neighborhood_do_not_see_each_other(edge_index: Tensor) -> None:
    model, x = model_of(), random_x(24)
    both = torch.cat([edge_index, edge_index + 12], dim=1)
    out = model(x, Sparse.from_edges(both, 24)).x
    torch.testing.assert_close(out[12:], model(x[12:], Sparse.from_edges(edge_index, 12)).x)


def test_sparse_features_train_like_dense_ones(edge_index: Tensor) -> None:
    model = model_of()
    x = random_x() * (torch.rand(12, 6) < 0.4)
    pairs = Sparse.from_edges(edge_index, 12, FETCHED)
    grads = []
    for features in (x, x.to_sparse_csr()):
        model.zero_grad()
        out = model(features, pairs).x
        out.square().sum().backward()
        grads.append([out.detach(), *(parameter.grad for parameter in model.parameters())])
    torch.testing.assert_close(grads[0], grads[1])


def test_a_network_without_features_learns_a_table(edge_index: Tensor) -> None:
    model = model_of(num_nodes=12)
    model(None, Sparse.from_edges(edge_index, 12)).x.sum().backward()
    assert model.table is not None
    assert model.table.weight.shape == (12, 6)
    assert model.table.weight.grad is not None
    assert model.table.weight.grad.any(dim=1).all()
    with pytest.raises(ValueError, match="built for node features, but x is None"):
        model_of()(None, Sparse.from_edges(edge_index, 12))


def test_layers_of_a_network_cannot_share_their_operator() -> None:
    with pytest.raises(ValueError, match="share_layers must be False"):
        model_of(DualEncoding(share_layers=True))


# L_sn and its samples


@pytest.mark.parametrize("form", SEMANTIC_FORMS)
def test_neighbor_loss_equals_a_loop_over_nodes(form: Any, edge_index: Tensor) -> None:
    model, x = model_of(DualEncoding(semantic=form)), random_x()
    pairs = Sparse.from_edges(edge_index, 12, FETCHED)
    negative = sample_distant(pairs, torch.Generator().manual_seed(0))
    encoded = model(x, pairs)
    expected = 0.0
    connected = neighbor_sets(edge_index, 12)
    drawn: list[list[int]] = [
        [j for i, j in zip(negative.target.tolist(), negative.source.tolist(), strict=True) if i == node]
        for node in range(12)
    ]
    for depth, operator in model.operators:
        states = encoded.layers[depth].states.detach()
        for head in range(2):

            def z(i: int, j: int, v: Tensor = states[:, head], h: int = head, op: Any = operator) -> float:
                return semantic_score(form, v[i], v[j], op.weight[h], op.bias[h]).item()

            attract = [
                sum(math.log1p(math.exp(-z(i, j))) for j in js) / len(js)
                for i, js in enumerate(connected)
                if js
            ]
            repel = [
                sum(math.log1p(math.exp(z(i, j))) for j in js) / len(js) for i, js in enumerate(drawn) if js
            ]
            expected += (sum(attract) / len(attract) + sum(repel) / len(repel)) / 2
    assert model.neighbor_loss(encoded, pairs, negative).item() == pytest.approx(expected, rel=1e-6)


def test_every_layer_with_an_operator_adds_its_loss(edge_index: Tensor) -> None:
    assert [depth for depth, _ in model_of(layers=3).operators] == [0, 1, 2]
    assert [depth for depth, _ in model_of(DualEncoding(tau="alternate"), layers=3).operators] == [1]
    assert model_of(DualEncoding(tau=1.0)).operators == []


def test_pair_weights_are_a_mean_over_pairs_then_over_nodes() -> None:
    weights = pair_weights(torch.tensor([0, 0, 2, 2, 2, 4]), 6)
    torch.testing.assert_close(weights, torch.tensor([1 / 6] * 2 + [1 / 9] * 3 + [1 / 3]))


def test_distant_pairs_are_never_connected(edge_index: Tensor) -> None:
    pairs = Sparse.from_edges(edge_index, 12, FETCHED)
    connected = neighbor_sets(edge_index, 12)
    generator = torch.Generator().manual_seed(0)
    drawn: set[tuple[int, int]] = set()
    for _ in range(200):
        negative = sample_distant(pairs, generator)
        count = torch.bincount(negative.target, minlength=12).tolist()
        assert all(count[i] <= len(connected[i]) for i in range(12))
        drawn |= set(zip(negative.target.tolist(), negative.source.tolist(), strict=True))
    assert drawn == {  # all that may be drawn are drawn, fetched ones too, and no others
        (i, j) for i in range(11) for j in range(12) if connected[i] and j != i and j not in connected[i]
    }


def test_distant_pairs_are_repeatable(edge_index: Tensor) -> None:
    pairs = Sparse.from_edges(edge_index, 12)
    first, second = (sample_distant(pairs, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first.source, second.source)
    assert torch.equal(first.target, second.target)


@pytest.mark.parametrize("form", ["bce", "paper"])
@pytest.mark.parametrize(
    "edges", [NO_EDGES, torch.tensor([[0, 1], [1, 0]]), torch.tensor([[0], [0]])], ids=["none", "all", "loop"]
)
def test_loss_on_a_graph_without_edges_or_without_distant_pairs(edges: Tensor, form: Any) -> None:
    model, pairs = model_of(), Sparse.from_edges(edges, 2)
    negative = sample_distant(pairs, torch.Generator().manual_seed(0))
    assert len(negative.target) == 0
    loss = model.neighbor_loss(model(random_x(2), pairs), pairs, negative, form)
    torch.autograd.backward(loss)
    assert loss.isfinite()
    assert (loss == 0) == (edges.size(1) < 2)
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_propagate_is_a_repeated_mean_over_the_1_hop_set(edge_index: Tensor) -> None:
    x, near = random_x(), neighbor_sets(edge_index, 12)
    expected = x
    for _ in range(2):
        expected = torch.stack([expected[sorted({i} | near[i])].mean(dim=0) for i in range(12)])
    out = propagate(x, Sparse.from_edges(edge_index, 12, FETCHED), steps=2)
    torch.testing.assert_close(out, functional.normalize(expected))
