"""The fused L_sn against the plain-torch form."""

from typing import Any

import pytest
import torch

from detgraph.kernels.neighbor_loss import fused_neighbor_loss
from detgraph.nn import Sparse
from detgraph.nn.network import pair_weights
from detgraph.nn.semantic import SEMANTIC_FORMS, neighbor_loss


def pairs(count: int, nodes: int, seed: int) -> Sparse:
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(2, nodes, (count,), generator=generator).sort().values  # nodes 0 and 1 have none
    return Sparse.from_pairs(target, torch.randint(nodes, (count,), generator=generator), nodes)


@pytest.mark.parametrize(("heads", "channels"), [(8, 8), (1, 5), (4, 3), (9, 2)])
@pytest.mark.parametrize("form", ["l1", "l2", "dot"])
def test_equals_the_reference(form: Any, heads: int, channels: int) -> None:
    torch.manual_seed(0)
    nodes = 40
    operator = SEMANTIC_FORMS[form](heads, channels)
    torch.nn.init.normal_(operator.weight)
    torch.nn.init.normal_(operator.bias)
    near, far = pairs(2_000, nodes, 0), pairs(90, nodes, 1)  # more than 64 pairs a node, too
    results = []
    for fused in (True, False):
        operator.zero_grad()
        h = torch.linspace(-2, 2, nodes * heads * channels).sin().view(nodes, heads, channels)
        h.requires_grad_(True)
        if fused:
            loss = fused_neighbor_loss(
                h, operator.positive_weight, operator.bias, form, near.index, far.index
            )
        else:
            loss = neighbor_loss(
                operator(h, near),
                pair_weights(near.target, nodes),
                operator(h, far),
                pair_weights(far.target, nodes),
            )
        torch.autograd.backward(3 * loss)
        assert h.grad is not None
        assert operator.weight.grad is not None
        assert operator.bias.grad is not None
        results.append((loss, h.grad, operator.weight.grad.clone(), operator.bias.grad.clone()))
    for ours, reference in zip(*results, strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-4, atol=1e-6)


def test_extreme_scores_are_finite() -> None:
    h = torch.tensor([[[1000.0]], [[-1000.0]], [[0.0]]], requires_grad=True)
    both = Sparse.from_pairs(torch.tensor([0, 2]), torch.tensor([1, 2]), 3)
    loss = fused_neighbor_loss(h, torch.ones(1, 1), torch.zeros(1), "l1", both.index, both.index)
    torch.autograd.backward(loss)
    assert loss.isfinite()
    assert h.grad is not None
    assert h.grad.isfinite().all()


def test_no_pairs_give_no_loss() -> None:
    none = Sparse.from_pairs(torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.long), 3)
    h = torch.randn(3, 2, 2)
    assert float(fused_neighbor_loss(h, torch.ones(2, 2), torch.zeros(2), "l1", none.index, none.index)) == 0
