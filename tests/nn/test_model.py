"""DET: the stack of layers, whatever they are made of."""

from typing import Any

import pytest
import torch
from torch import nn

from detgraph.nn import DET, Dense, DualEncoding
from detgraph.nn.heads import read_out


def stack(encoding: DualEncoding, depth: int = 3, **options: Any) -> DET:
    """A dense pre-norm stack of 8 channels and 2 heads."""
    layers = [encoding.layer(d, 8, 4, 2, block="pre_norm") for d in range(depth)]
    return DET(layers, operator=encoding.shared_operator(8), **options)


def test_a_shared_operator_scores_once_for_all_layers() -> None:
    det = stack(DualEncoding(share_layers=True))
    x, pairs = torch.randn(2, 5, 8), Dense.from_mask(torch.ones(2, 5, dtype=torch.bool))
    encoded = det(x, pairs)
    assert sum("operator" in name for name, _ in det.named_parameters()) == 2  # one weight, one bias
    z = encoded.layers[0].z
    assert z.shape == (2, 1, 5, 5)
    assert all(layer.z is z for layer in encoded.layers)


def test_semantic_states_replace_the_input_in_the_shared_operator_only() -> None:
    det = stack(DualEncoding(share_layers=True))
    x, other, pairs = (
        torch.randn(1, 5, 8),
        torch.randn(1, 5, 8),
        Dense.from_mask(torch.ones(1, 5, dtype=torch.bool)),
    )
    assert det.operator is not None
    encoded = det(x, pairs, semantic_states=other)
    torch.testing.assert_close(encoded.layers[0].z, det.operator(other[:, :, None], pairs))
    torch.testing.assert_close(det(x, pairs, semantic_states=x).x, det(x, pairs).x)
    assert not torch.allclose(encoded.x, det(x, pairs).x)


def test_layers_follow_each_other_with_between_and_norm() -> None:
    det = stack(DualEncoding(), depth=2, between=nn.Tanh(), norm=nn.LayerNorm(8))
    x, pairs = torch.randn(1, 5, 8), Dense.from_mask(torch.ones(1, 5, dtype=torch.bool))
    first, second = det.layers
    expected = det.norm(second(first(x, pairs).tanh(), pairs))
    torch.testing.assert_close(det(x, pairs).x, expected)


@pytest.mark.parametrize("share", [False, True])
def test_the_first_nodes_alone_see_all_others(share: bool) -> None:
    det = stack(DualEncoding(share_layers=share), norm=nn.LayerNorm(8))
    x, pairs = torch.randn(2, 5, 8), Dense.from_mask(torch.tensor([[True] * 5, [True] * 3 + [False] * 2]))
    torch.testing.assert_close(det(x, pairs, first=1).x, det(x, pairs).x[:, :1])


def test_tau_1_has_no_semantic_parameter_anywhere() -> None:
    for share in (False, True):
        names = [name for name, _ in stack(DualEncoding(tau=1.0, share_layers=share)).named_parameters()]
        assert not any("operator" in name for name in names)


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("tau", [0.0, 0.3, 1.0, "learnable", "alternate"])
def test_every_tau_trains_every_parameter(tau: Any, share: bool) -> None:
    det = stack(DualEncoding(tau=tau, share_layers=share, mutual_bias="none", semantic_bias="f_s"))
    mask = torch.ones(2, 5, dtype=torch.bool)
    near = mask.clone()
    near[:, 3:] = False
    det(torch.randn(2, 5, 8), Dense.from_mask(near, mask)).x.square().sum().backward()
    # A key's bias moves all logits of a row alike.
    missed = [
        name
        for name, parameter in det.named_parameters()
        if not name.endswith("key.bias") and (parameter.grad is None or not parameter.grad.any())
    ]
    unused = (
        ("query", "key") if tau == 0.0 else ("layers.1.query", "layers.1.key") if tau == "alternate" else ()
    )
    assert [name for name in missed if not any(part in name for part in unused)] == []


def test_read_outs() -> None:
    x, graph = torch.randn(3, 4), torch.tensor([0, 0, 1])
    expected = torch.stack([x[0] + x[1], x[2]])
    torch.testing.assert_close(read_out(x, graph, 2, "sum"), expected)
    torch.testing.assert_close(read_out(x, graph, 2, "mean"), expected / torch.tensor([[2.0], [1.0]]))
