"""Dropout from a counter: the right share, the same way back, whatever the size and the threads."""

import pytest
import torch

from detgraph.kernels.dropout import CHUNK, Dropout, drop


@pytest.mark.parametrize("shape", [(1,), (13,), (CHUNK - 3,), (CHUNK + 5,), (3, CHUNK, 2), (0, 4)])
def test_numbers_are_dropped_or_scaled(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    x = torch.randn(shape).abs() + 1
    x.requires_grad_()
    out = drop(x, 0.25)
    stays = out != 0
    assert torch.equal(out, torch.where(stays, x * (1 / 0.75), 0.0))
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(gradient, torch.where(stays, torch.tensor(1 / 0.75), 0.0))


def test_the_share_is_right_and_places_are_independent() -> None:
    torch.manual_seed(0)
    first, second = drop(torch.ones(200_000), 0.3) == 0, drop(torch.ones(200_000), 0.3) == 0
    assert first.float().mean() == pytest.approx(0.3, abs=0.005)
    assert (first & second).float().mean() == pytest.approx(0.09, abs=0.005)
    assert (first[1:] & first[:-1]).float().mean() == pytest.approx(0.09, abs=0.005)


def test_threads_do_not_matter() -> None:
    x = torch.randn(2**21)
    torch.manual_seed(0)
    one = drop(x, 0.5)
    torch.set_num_threads(2)
    try:
        torch.manual_seed(0)
        assert torch.equal(drop(x, 0.5), one)
    finally:
        torch.set_num_threads(1)


def test_nothing_happens_in_evaluation_or_without_a_rate() -> None:
    x = torch.randn(5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert not Dropout(1.0)(x).any()


def test_torch_does_it_where_the_kernel_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(50)
    torch.manual_seed(0)
    ours = drop(x, 0.5)
    monkeypatch.setenv("DETGRAPH_KERNELS", "torch")
    torch.manual_seed(0)
    assert not torch.equal(drop(x, 0.5), ours)
    assert drop(x.double(), 0.5).dtype == torch.float64
