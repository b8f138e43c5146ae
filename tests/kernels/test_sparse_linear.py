"""Sparse features × weights against the dense product."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from detgraph.errors import DetError
from detgraph.kernels.sparse_linear import sparse_linear


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(0)
    dense = torch.randn(50, 30) * (torch.rand(50, 30) < 0.2)
    dense[7] = 0  # a node without features
    return dense


@pytest.mark.parametrize("columns", [1, 8, 13, 64])
def test_equals_the_dense_product(x: Tensor, columns: int) -> None:
    weight = torch.randn(columns, 30, requires_grad=True)
    upstream = torch.randn(50, columns)
    out = sparse_linear(x.to_sparse_csr(), weight)
    expected = functional.linear(x, weight)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(
        torch.autograd.grad((out * upstream).sum(), weight),
        torch.autograd.grad((expected * upstream).sum(), weight),
    )


def test_dropout_touches_stored_values_and_is_the_same_backward(x: Tensor) -> None:
    """With unit weights the product shows the dropped features themselves."""
    identity = torch.eye(30, requires_grad=True)
    torch.manual_seed(1)
    dropped = sparse_linear(x.to_sparse_csr(), identity, 0.5)
    stored = x != 0
    assert (dropped[~stored] == 0).all()
    stays = dropped != 0
    torch.testing.assert_close(dropped[stays], 2 * x[stays])
    assert 0.35 < float(stays.sum() / stored.sum()) < 0.65
    upstream = torch.randn(50, 30)
    (grad,) = torch.autograd.grad((dropped * upstream).sum(), identity)
    torch.testing.assert_close(grad, upstream.t() @ dropped.detach())


def test_seed_decides_and_threads_do_not(x: Tensor) -> None:
    before = torch.get_num_threads()
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        torch.manual_seed(5)
        weight = torch.ones(9, 30, requires_grad=True)
        out = sparse_linear(x.to_sparse_csr(), weight, 0.3)
        results.append((out, *torch.autograd.grad(out.square().sum(), weight)))
    torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_reference_on_demand(x: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.randn(4, 30)
    fused = sparse_linear(x.to_sparse_csr(), weight)
    monkeypatch.setenv("DETGRAPH_KERNELS", "torch")
    torch.testing.assert_close(sparse_linear(x.to_sparse_csr(), weight), fused)
    torch.manual_seed(0)
    assert not torch.equal(sparse_linear(x.to_sparse_csr(), weight, 0.5), fused)
    monkeypatch.setenv("DETGRAPH_KERNELS", "cuda")
    with pytest.raises(DetError, match="DETGRAPH_KERNELS=cuda is not known: take auto"):
        sparse_linear(x.to_sparse_csr(), weight)
