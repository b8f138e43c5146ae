"""The dual-encoder layer against the slow reference, its identities, and torch's and PyG's own layers."""

import itertools
from collections.abc import Sequence
from typing import Any, get_args

import pytest
import torch
from reference import Weights, dual_layer, neighbor_sets
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GATConv

from detgraph.nn import Dense, DualAttention, DualEncoderLayer, DualEncoding, Sparse
from detgraph.nn.layer import MutualBias
from detgraph.nn.neighborhood import SemanticSet
from detgraph.nn.semantic import SEMANTIC_FORMS, BiasForm
from detgraph.nn.structural import STRUCTURAL_FORMS

NODES, FEATURES, HEADS, CHANNELS = 5, 4, 2, 3
EDGES = torch.tensor(
    [[0, 1, 1, 2, 3, 0, 2], [1, 0, 2, 1, 2, 3, 2]]
)  # 3 is only heard by 2, 4 by none; a loop
FETCHED = torch.tensor([[3, 4, 4, 0], [1, 1, 0, 4]])
CASES = list(
    itertools.product(
        SEMANTIC_FORMS, STRUCTURAL_FORMS, get_args(BiasForm), get_args(MutualBias), get_args(SemanticSet)
    )
)


def layer_of(**options: Any) -> DualEncoderLayer:
    """A small layer in double precision whose parameters are all random."""
    sizes = {"in_channels": FEATURES, "head_channels": CHANNELS, "heads": HEADS}
    layer = DualEncoderLayer(**{**sizes, **options}).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    return layer


def weights_of(layer: DualEncoderLayer) -> Weights:
    """The layer's parameters by the names of the reference."""
    named = dict(layer.named_parameters())
    find = {name.rsplit(".", 1)[-1]: value for name, value in named.items() if name.startswith("structural.")}
    return Weights(
        named["project.weight"],
        named["bias"],
        named["operator.weight"],
        named["operator.bias"],
        find.get("query_weight"),
        find.get("key_weight"),
    )


def gradients(out: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Gradients of a fixed random projection of ``out``."""
    direction = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(7))
    return list(torch.autograd.grad((out * direction).sum(), list(inputs)))


def random_x(nodes: int = NODES, features: int = FEATURES) -> Tensor:
    return torch.randn(nodes, features, dtype=torch.double, requires_grad=True)


@pytest.mark.parametrize(("semantic", "structural", "bias", "mutual", "semantic_set"), CASES)
def test_layer_equals_the_slow_reference_in_value_and_gradients(
    semantic: Any, structural: Any, bias: Any, mutual: Any, semantic_set: Any
) -> None:
    layer = layer_of(
        semantic=semantic, structural=structural, semantic_bias=bias, mutual_bias=mutual, tau=0.3
    )
    x = random_x()
    expected = dual_layer(
        x,
        neighbor_sets(EDGES, NODES),
        neighbor_sets(FETCHED, NODES),
        weights_of(layer),
        heads=HEADS,
        tau=0.3,
        semantic=semantic,
        structural=structural,
        semantic_bias=bias,
        mutual_bias=mutual,
        semantic_set=semantic_set,
    )
    out = layer(x, EDGES, FETCHED, semantic_set=semantic_set)
    torch.testing.assert_close(out, expected)
    inputs = [x, *layer.parameters()]
    torch.testing.assert_close(gradients(out, inputs), gradients(expected, inputs))


@pytest.mark.parametrize("structural", STRUCTURAL_FORMS)
@pytest.mark.parametrize("semantic", SEMANTIC_FORMS)
def test_gradients_are_those_of_finite_differences(semantic: Any, structural: Any) -> None:
    layer = layer_of(semantic=semantic, structural=structural, tau="learnable")
    names = [name for name, _ in layer.named_parameters()]

    def run(x: Tensor, *values: Tensor) -> Tensor:
        out: Tensor = torch.func.functional_call(
            layer, dict(zip(names, values, strict=True)), (x, EDGES, FETCHED)
        )
        return out

    assert torch.autograd.gradcheck(run, (random_x(), *layer.parameters()))


def dense_pairs(edge_index: Tensor, nodes: int) -> Tensor:
    """(1, 1, nodes, nodes) of {i} ∪ N(i)."""
    pairs = torch.eye(nodes, dtype=torch.bool)
    pairs[edge_index[1], edge_index[0]] = True
    return pairs[None, None]


@pytest.mark.parametrize("mutual", get_args(MutualBias))
@pytest.mark.parametrize("structural", STRUCTURAL_FORMS)
@pytest.mark.parametrize("semantic", SEMANTIC_FORMS)
def test_dense_equals_sparse(semantic: Any, structural: Any, mutual: Any) -> None:
    layer = layer_of(semantic=semantic, structural=structural, mutual_bias=mutual, tau=0.3)
    near = dense_pairs(EDGES, NODES)
    dense = Dense(near, near | dense_pairs(FETCHED, NODES))
    x = random_x()
    out, expected = layer(x[None], dense)[0], layer(x, EDGES, FETCHED)
    torch.testing.assert_close(out, expected)
    inputs = [x, *layer.parameters()]
    torch.testing.assert_close(gradients(out, inputs), gradients(expected, inputs))


@pytest.mark.parametrize("block", ["plain", "pre_norm", "post_norm"])
@pytest.mark.parametrize("semantic", SEMANTIC_FORMS)
def test_padding_does_not_matter(semantic: Any, block: Any) -> None:
    layer = layer_of(in_channels=HEADS * CHANNELS, semantic=semantic, block=block)
    sizes, width = [3, 1, 5], 6
    mask = torch.arange(width) < torch.tensor(sizes)[:, None]
    x = torch.randn(3, width, HEADS * CHANNELS, dtype=torch.double, requires_grad=True)
    noisy = torch.where(mask[..., None], x, 1e3)
    batched = layer(noisy, Dense.from_mask(mask))
    alone = [
        layer(x[b : b + 1, :size], Dense.from_mask(mask[b : b + 1, :size]))[0] for b, size in enumerate(sizes)
    ]
    torch.testing.assert_close(batched[mask], torch.cat(alone))
    inputs = [x, *layer.parameters()]
    torch.testing.assert_close(gradients(batched[mask], inputs), gradients(torch.cat(alone), inputs))


@pytest.mark.parametrize("block", ["plain", "pre_norm", "post_norm"])
@pytest.mark.parametrize("semantic", SEMANTIC_FORMS)
def test_the_first_nodes_alone_are_encoded_as_with_all_others(semantic: Any, block: Any) -> None:
    layer = layer_of(in_channels=HEADS * CHANNELS, semantic=semantic, block=block)
    x = torch.randn(2, NODES, HEADS * CHANNELS, dtype=torch.double, requires_grad=True)
    bias = torch.randn(2, HEADS, NODES, NODES, dtype=torch.double)
    near = torch.rand(2, 1, NODES, NODES) < 0.5
    for pairs in (
        Dense.from_mask(torch.tensor([[True] * NODES, [True] * 3 + [False] * 2])),
        Dense(near | torch.eye(NODES, dtype=torch.bool), torch.ones(1, 1, NODES, NODES, dtype=torch.bool)),
    ):
        out, expected = layer.encode(x, pairs, bias, first=2).x, layer.encode(x, pairs, bias).x[:, :2]
        torch.testing.assert_close(out, expected)
        inputs = [x, *layer.parameters()]
        torch.testing.assert_close(gradients(out, inputs), gradients(expected, inputs))


@pytest.mark.parametrize("semantic", SEMANTIC_FORMS)
def test_renumbering_nodes_renumbers_the_output(semantic: Any, edge_index: Tensor) -> None:
    layer = layer_of(semantic=semantic)
    x, fetched = random_x(12), torch.tensor([[11, 10, 8], [0, 11, 9]])
    order = torch.randperm(12)
    place = order.argsort()
    torch.testing.assert_close(
        layer(x[order], place[edge_index], place[fetched]), layer(x, edge_index, fetched)[order]
    )


# The identities of the architecture


@pytest.mark.parametrize("structural", STRUCTURAL_FORMS)
def test_tau_1_is_the_structural_encoder_alone(structural: Any) -> None:
    layer = layer_of(tau=1.0, structural=structural)
    assert not any(name.startswith("operator") for name, _ in layer.named_parameters())
    mixed = layer_of(tau=0.999999999, structural=structural, mutual_bias="none")
    mixed.load_state_dict(layer.state_dict(), strict=False)
    x = random_x()
    torch.testing.assert_close(layer(x, EDGES, FETCHED), layer(x, EDGES))  # fetched nodes are not seen
    torch.testing.assert_close(layer(x, EDGES), mixed(x, EDGES, FETCHED))


def test_tau_1_with_dot_scores_is_scaled_dot_product_attention() -> None:
    layer = layer_of(in_channels=HEADS * CHANNELS, tau=1.0, block="post_norm")
    x = torch.randn(2, NODES, HEADS * CHANNELS, dtype=torch.double)
    mask = torch.tensor([[True] * NODES, [True] * 3 + [False] * 2])
    bias = torch.randn(2, HEADS, NODES, NODES, dtype=torch.double)
    query, key, value = (
        linear(x).view(2, NODES, HEADS, CHANNELS).transpose(1, 2)
        for linear in (layer.query, layer.key, layer.value)
    )
    expected = functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=bias.masked_fill(~mask[:, None, None, :], -torch.inf),
    ).transpose(1, 2)
    out = layer(x, Dense.from_mask(mask), position_bias=bias)
    torch.testing.assert_close(out, layer.finish(x, expected))


@pytest.mark.parametrize("concat", [True, False])
def test_tau_1_with_linear_scores_is_gat(concat: bool, edge_index: Tensor) -> None:
    layer = layer_of(tau=1.0, structural="linear", concat=concat)
    gat = GATConv(FEATURES, CHANNELS, HEADS, concat=concat).double()
    parameters = dict(layer.named_parameters())
    with torch.no_grad():
        gat.lin.weight.copy_(parameters["project.weight"])
        gat.att_src.copy_(parameters["structural.key_weight"][None])
        gat.att_dst.copy_(parameters["structural.query_weight"][None])
        gat.bias.copy_(parameters["bias"])
    x = random_x(12)
    torch.testing.assert_close(layer(x, edge_index), gat(x, edge_index))


@pytest.mark.parametrize("semantic", SEMANTIC_FORMS)
def test_tau_0_is_the_semantic_encoder_alone(semantic: Any) -> None:
    layer = layer_of(tau=0.0, semantic=semantic)
    assert not hasattr(layer, "structural")
    x = random_x()
    pairs = Sparse.from_edges(EDGES, NODES, FETCHED)
    encoded = layer.encode(x, pairs, position_bias=torch.randn(len(pairs.target), HEADS))
    assert encoded.structural is None
    assert encoded.semantic is not None
    assert encoded.z is not None
    for node in range(NODES):
        mine = (pairs.target == node) & pairs.semantic[:, 0]
        torch.testing.assert_close(encoded.semantic[mine], encoded.z[mine].softmax(dim=0))


@pytest.mark.parametrize("mutual", get_args(MutualBias))
def test_without_fetched_nodes_the_semantic_set_is_the_1_hop_set(mutual: Any) -> None:
    layer = layer_of(mutual_bias=mutual)
    x = random_x()
    pairs = Sparse.from_edges(EDGES, NODES)
    assert pairs.one_set
    nothing = torch.empty(2, 0, dtype=torch.long)
    _, weights = layer(x, EDGES, nothing, return_attention_weights=True)
    assert ((weights.semantic > 0) == pairs.structural).all()
    torch.testing.assert_close(layer(x, EDGES, nothing), layer(x, EDGES))


def test_on_one_set_with_both_biases_tau_has_no_influence() -> None:
    few, many = layer_of(tau=0.1), layer_of(tau=0.9)
    many.load_state_dict(few.state_dict())
    x = random_x()
    torch.testing.assert_close(few(x, EDGES), many(x, EDGES))
    assert not torch.allclose(few(x, EDGES, FETCHED), many(x, EDGES, FETCHED))


def test_learnable_tau_learns_and_stays_a_share() -> None:
    layer = layer_of(tau="learnable")
    layer.tau_logit.data.zero_()
    optimizer = torch.optim.SGD([layer.tau_logit], lr=20.0)
    x, history = random_x(), []
    for _ in range(30):
        optimizer.zero_grad()
        layer(x, EDGES, FETCHED)[0, 0].backward()
        assert layer.tau_logit.grad is not None
        assert layer.tau_logit.grad != 0
        optimizer.step()
        history.append(torch.as_tensor(layer.tau).item())
    assert all(0 < tau < 1 for tau in history)
    assert abs(history[-1] - 0.5) > 0.1


def test_alternate_is_structural_semantic_structural() -> None:
    encoding = DualEncoding(tau="alternate")
    layers = [encoding.layer(depth, 4, 2, 2, block="plain") for depth in range(4)]
    assert [layer.tau for layer in layers] == [1.0, 0.0, 1.0, 0.0]
    assert [layer.operator is None for layer in layers] == [True, False, True, False]


def test_one_scorer_for_all_heads_biases_every_head_alike() -> None:
    layer = layer_of(tau=0.0, semantic_heads=1)
    _, weights = layer(random_x(), EDGES, FETCHED, return_attention_weights=True)
    assert weights.semantic.size(1) == 1
    assert layer.operator is not None
    assert layer.operator.weight.shape == (1, HEADS * CHANNELS)


# Attention weights


@pytest.mark.parametrize("semantic_set", get_args(SemanticSet))
def test_attention_weights_are_shares_of_each_set(semantic_set: Any, edge_index: Tensor) -> None:
    fetched = torch.tensor([[11, 10, 8, 0], [0, 11, 9, 11]])
    data = Data(x=random_x(12), edge_index=edge_index)
    out, weights = layer_of()(
        data.x, data.edge_index, fetched, semantic_set=semantic_set, return_attention_weights=True
    )
    assert isinstance(weights, DualAttention)
    assert weights.edge_index is not None
    near, far = neighbor_sets(edge_index, 12), neighbor_sets(fetched, 12)
    for share, sets in (
        (weights.structural, [{i} | near[i] for i in range(12)]),
        (
            weights.semantic,
            [{i} | far[i] | (near[i] if semantic_set == "union" else set()) for i in range(12)],
        ),
    ):
        assert share is not None
        assert ((share >= 0) & (share <= 1)).all()
        total = torch.zeros(12, HEADS, dtype=torch.double).index_add(0, weights.edge_index[1], share)
        torch.testing.assert_close(total, torch.ones_like(total))
        attended = weights.edge_index[:, (share > 0).all(dim=1)].t().tolist()
        assert len(attended) == len({tuple(pair) for pair in attended})  # self exactly once, too
        assert {tuple(pair) for pair in attended} == {(j, i) for i in range(12) for j in sets[i]}
    assert out.shape == (12, HEADS * CHANNELS)


def test_dense_attention_weights_are_zero_on_padding() -> None:
    mask = torch.tensor([[True, True, False], [True, True, True]])
    x = torch.randn(2, 3, FEATURES, dtype=torch.double)
    _, weights = layer_of(mutual_bias="none")(x, Dense.from_mask(mask), return_attention_weights=True)
    assert weights.edge_index is None
    for share in (weights.structural, weights.semantic):
        assert (share[0, :, :, 2] == 0).all()
        torch.testing.assert_close(share.sum(dim=-1), torch.ones(2, HEADS, 3, dtype=torch.double))


# Inputs and options


def test_sparse_features_equal_dense_features() -> None:
    layer = layer_of()
    x = (torch.rand(NODES, FEATURES, dtype=torch.double) * (torch.rand(NODES, FEATURES) < 0.5)).detach()
    parameters = list(layer.parameters())
    out, expected = layer(x.to_sparse_csr(), EDGES, FETCHED), layer(x, EDGES, FETCHED)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(gradients(out, parameters), gradients(expected, parameters))


def test_dropout_of_attention_acts_in_training_only() -> None:
    layer = layer_of(attention_dropout=0.5)
    x = random_x()
    assert not torch.equal(layer(x, EDGES), layer(x, EDGES))
    layer.eval()
    assert torch.equal(layer(x, EDGES), layer(x, EDGES))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tau": 1.5}, r"tau must be 'learnable' or in \[0, 1\] \(got 1.5\)"),
        ({"block": "pre_norm"}, r"heads \* head_channels must be in_channels \(got 2 \* 3 != 4\)"),
        ({"semantic_heads": 3}, r"semantic_heads must be 1 or heads = 2 \(got 3\)"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        layer_of(**options)


def test_a_layer_that_shares_its_operator_needs_z() -> None:
    layer = layer_of(shared_semantic=True)
    with pytest.raises(ValueError, match="shared_semantic=True needs z"):
        layer(random_x(), EDGES)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler uses what torch has deprecated
@pytest.mark.parametrize("ready", [False, True])
def test_compiles_to_one_graph_with_the_same_result(ready: bool) -> None:
    torch.compiler.reset()
    layer = layer_of()
    x = random_x()
    arguments = (Sparse.from_edges(EDGES, NODES, FETCHED),) if ready else (EDGES, FETCHED)
    compiled: Any = torch.compile(layer, fullgraph=True, backend="aot_eager")
    out, expected = compiled(x, *arguments), layer(x, *arguments)
    torch.testing.assert_close(out, expected)
    inputs = [x, *layer.parameters()]
    torch.testing.assert_close(gradients(out, inputs), gradients(expected, inputs))
