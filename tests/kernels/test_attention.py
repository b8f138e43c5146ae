"""The fused dual attention against the plain-torch layer."""

import itertools
from typing import Any

import numba
import numpy as np
import pytest
import torch
from torch import Tensor

from detgraph.kernels.attention import Plan, dual_attention
from detgraph.kernels.lanes import draw_seed, layout
from detgraph.kernels.vector import keep, store
from detgraph.nn import Sparse
from detgraph.nn.layer import DualEncoderLayer

NODES = 60


def random_pairs(semantic_set: Any = "union", fetched: int = 3) -> Sparse:
    """A hub that sees nearly all nodes, isolated nodes, and a random rest."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(5, NODES, (2, 120), generator=generator)
    hub = torch.stack([torch.arange(8, NODES), torch.full((NODES - 8,), 5)])
    edge_index = torch.unique(torch.cat([edges, hub, hub.flip(0)], dim=1), dim=1)
    known = set(map(tuple, edge_index.t().tolist()))
    pairs = [
        (int(torch.randint(NODES, (), generator=generator)), node)
        for node in range(3, NODES)
        for _ in range(fetched)
    ]
    new = sorted({pair for pair in pairs if pair not in known and pair[0] != pair[1]})
    found = torch.tensor(new, dtype=torch.long).view(-1, 2).t() if new else None
    return Sparse.from_edges(edge_index, NODES, found, semantic_set)


def outcome(layer: DualEncoderLayer, x: Tensor, pairs: Sparse, upstream: Tensor) -> dict[str, Tensor]:
    layer.zero_grad()
    x = x.clone().requires_grad_(True)
    out = layer.encode(x, pairs)
    torch.autograd.backward(out.x, upstream)
    assert x.grad is not None
    values = {"out": out.x, "x": x.grad}
    values |= {f"weights_{i}": w for i, w in enumerate((out.structural, out.semantic)) if w is not None}
    for name, parameter in layer.named_parameters():
        grad = parameter.grad
        values[name] = torch.zeros_like(parameter) if grad is None else grad.clone()
    return values


FORMS = list(itertools.product(("l1", "l2", "dot"), (0.0, 0.3, 1.0, "learnable")))
SHAPES = [(8, 8), (1, 5), (2, 7), (3, 4), (4, 3), (5, 2), (8, 7), (9, 3), (16, 2)]


def compare(
    monkeypatch: pytest.MonkeyPatch,
    pairs: Sparse,
    heads: int,
    channels: int,
    labelled: int = NODES,
    **options: Any,
) -> None:
    torch.manual_seed(1)
    layer = DualEncoderLayer(10, channels, heads, **options)
    if layer.operator is not None:
        torch.nn.init.normal_(layer.operator.weight)
    x, upstream = torch.randn(NODES, 10), torch.randn(NODES, heads * channels)
    upstream[labelled:] = 0
    assert layer.plan(pairs) is not None
    fused = outcome(layer, x, pairs, upstream)
    monkeypatch.setenv("DETGRAPH_KERNELS", "torch")
    plain = outcome(layer, x, pairs, upstream)
    assert fused.keys() == plain.keys()
    for name in plain:
        torch.testing.assert_close(fused[name], plain[name], rtol=1e-4, atol=3e-5, msg=f"{name} differs")


@pytest.mark.parametrize("semantic_set", ["union", "fetched"])
@pytest.mark.parametrize("mutual_bias", ["both", "to_structural", "to_semantic", "none"])
@pytest.mark.parametrize(("semantic", "tau"), FORMS)
def test_equals_the_reference(
    semantic: str, tau: Any, mutual_bias: str, semantic_set: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(
        monkeypatch, random_pairs(semantic_set), 8, 8, semantic=semantic, tau=tau, mutual_bias=mutual_bias
    )


@pytest.mark.parametrize(("heads", "channels"), SHAPES)
def test_any_number_of_heads_and_channels(heads: int, channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(monkeypatch, random_pairs(), heads, channels, tau=0.4)


@pytest.mark.parametrize(("heads", "channels"), [(8, 8), (3, 4), (9, 2)])
@pytest.mark.parametrize("hops", [2, 5])
def test_several_hops(hops: int, heads: int, channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(monkeypatch, random_pairs(), heads, channels, tau=0.4, hops=hops)


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_gradients_of_few_labelled_nodes(hops: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(monkeypatch, random_pairs(), 8, 8, labelled=7, tau=0.4, hops=hops)


def test_without_fetched_nodes_both_encoders_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    compare(monkeypatch, random_pairs(fetched=0), 8, 8, tau=0.4)


def test_far_logits_neither_overflow_nor_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer = DualEncoderLayer(10, 8, 8, tau=0.5, semantic="dot")
    x = 100 * torch.randn(NODES, 10)
    out = layer.encode(x, random_pairs())
    assert out.x.isfinite().all()
    monkeypatch.setenv("DETGRAPH_KERNELS", "torch")
    torch.testing.assert_close(out.x, layer.encode(x, random_pairs()).x)


def plan(pairs: Sparse, dropout: float) -> Plan:
    structural, semantic = pairs.structural[:, 0].numpy(), pairs.semantic[:, 0].numpy()
    return Plan(pairs.index, structural, semantic, True, True, True, True, "l1", dropout, 1)


@numba.njit  # type: ignore[untyped-decorator]  # numba has no types
def kept(seed: Any, counter: Any, shift: Any, limit: Any, out: Any) -> None:
    store(out, 0, keep(seed, counter, shift, limit))


def test_dropout_on_weights_is_unbiased_and_the_same_backward() -> None:
    """With h = 1 the output is the sum of dropped weights; its derivative in h_j is the column sum."""
    pairs = random_pairs()
    h = torch.ones(NODES, 8, 1, requires_grad=True)
    weight = torch.ones(8, 1)
    torch.manual_seed(0)
    out = dual_attention(h, weight, 0.5, plan(pairs, 0.6))
    assert out.second is not None
    mixed = 0.5 * out.first + 0.5 * out.second
    torch.manual_seed(0)
    seed = draw_seed()
    mask = np.empty((len(mixed), 8), np.float32)
    for p in range(len(mixed)):
        kept(seed, np.uint32(p * 8), np.uint32(0), np.uint32(round(0.6 * 2**32)), mask[p])
    assert mask.mean() == pytest.approx(0.4, abs=0.03)
    dropped = mixed * torch.from_numpy(mask) / 0.4
    expected = torch.zeros(NODES, 8).index_add(0, pairs.target, dropped)
    torch.testing.assert_close(out.states[:, :, 0], expected)
    # All states are equal, so scores do not change to first order through ⊖; through q·k they cancel too.
    values = torch.zeros(NODES, 8).index_add(0, pairs.source, dropped)
    (grad,) = torch.autograd.grad(out.states.sum(), h)
    assert float((grad[:, :, 0].sum() - values.sum()).abs()) < 1e-2


def test_lanes_of_one_head_share_their_fate() -> None:
    out = np.empty(8, np.float32)
    for counter in range(50):
        kept(np.uint32(3), np.uint32(counter), np.uint32(2), np.uint32(2**31), out)
        assert len(set(out[:4])) == len(set(out[4:])) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_repeats_bit_for_bit_on_any_number_of_threads(threads: int) -> None:
    before = torch.get_num_threads()
    pairs, results = random_pairs(), []
    for count in (1, threads):
        torch.set_num_threads(count)
        torch.manual_seed(0)
        h = torch.randn(NODES, 8, 8, requires_grad=True)
        out = dual_attention(h, torch.rand(8, 8), 0.3, plan(pairs, 0.5)).states
        torch.autograd.backward(out, 2 * out.detach())
        results.append((out, h.grad))
    torch.set_num_threads(before)
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(("heads", "channels"), [(8, 8), (3, 5), (1, 9), (12, 2)])
def test_packing_and_back(heads: int, channels: int) -> None:
    x = torch.randn(7, heads, channels)
    form = layout(heads, channels)
    rows = form.pack(x)
    assert torch.equal(form.unpack(rows), x)
    assert rows.sum() == pytest.approx(float(x.sum()), abs=1e-4)  # padding is 0
