"""Attention step by step against plain torch."""

import pytest
import torch
from test_attention import NODES, SHAPES, random_pairs
from torch import Tensor

from detgraph.nn import Sparse

PAIRS = random_pairs("fetched")


def attend(pairs: Sparse, a: Tensor, b: Tensor, members: Tensor) -> list[Tensor]:
    """Scores, weights, what is attended to, and the gradients in both states."""
    scores = pairs.dot(a, b)
    weights = pairs.softmax(3 * scores, members)
    out = pairs.aggregate(weights, b)
    upstream = torch.cos(torch.arange(out.numel())).view_as(out)
    return [scores, weights, out, *torch.autograd.grad(out, (a, b), upstream)]


@pytest.mark.parametrize(("heads", "channels"), SHAPES)
@pytest.mark.parametrize("form", ["structural", "semantic"])
def test_equals_the_reference(heads: int, channels: int, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    a, b = (torch.randn(NODES, heads, channels, requires_grad=True) for _ in range(2))
    members = getattr(PAIRS, form)
    fused = attend(PAIRS, a, b, members)
    monkeypatch.setenv("DETGRAPH_KERNELS", "torch")
    for ours, reference in zip(fused, attend(PAIRS, a, b, members), strict=True):
        torch.testing.assert_close(ours, reference, atol=1e-5, rtol=1e-4)


def test_nobody_to_attend_to() -> None:
    pairs = Sparse.from_pairs(torch.tensor([1, 1, 2]), torch.tensor([0, 2, 0]), 4)
    members = torch.tensor([[True], [True], [False]])
    weights = pairs.softmax(torch.zeros(3, 2), members)
    assert weights.tolist() == [[0.5, 0.5], [0.5, 0.5], [0.0, 0.0]]
    out = pairs.aggregate(weights, torch.ones(4, 2, 3))
    assert out.sum(dim=(1, 2)).tolist() == [0.0, 6.0, 0.0, 0.0]


def test_one_weight_for_all_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, values = torch.rand(len(PAIRS.target), 1), torch.rand(NODES, 3, 4)
    fused = PAIRS.aggregate(weights, values)
    monkeypatch.setenv("DETGRAPH_KERNELS", "torch")
    torch.testing.assert_close(fused, PAIRS.aggregate(weights, values))
