"""Attention and distances inside many small graphs: values and gradients of a loop over graphs."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from detgraph.kernels.block_attention import BlockIndex, block_attention
from detgraph.kernels.block_distance import block_l1
from detgraph.kernels.path_bias import path_bias

SIZES = np.array([3, 1, 17, 8])
SHAPES = [(8, 10), (8, 8), (1, 5), (2, 7), (4, 16), (3, 4), (32, 6)]  # heads, channels


def states(heads: int, channels: int, count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(heads + channels)
    nodes = int(SIZES.sum())
    return [
        torch.randn(nodes, heads, channels, generator=generator, requires_grad=True) for _ in range(count)
    ]


def slow_attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    index, out, weights = BlockIndex.of(SIZES), [], []
    for graph, size in enumerate(SIZES.tolist()):
        own = slice(index.start[graph], index.start[graph + 1])
        pairs = bias[index.first_pair[graph] : index.first_pair[graph + 1]].view(size, size, -1)
        logits = torch.einsum("ihc,jhc->ijh", query[own], key[own]) / query.size(2) ** 0.5 + pairs
        weights.append(logits.softmax(dim=1).flatten(0, 1))
        out.append(torch.einsum("ijh,jhc->ihc", logits.softmax(dim=1), value[own]))
    return torch.cat(out), torch.cat(weights)


@pytest.mark.parametrize(("heads", "channels"), SHAPES)
def test_attention_is_that_of_a_loop(heads: int, channels: int) -> None:
    inputs = [*states(heads, channels, 3), torch.randn(int((SIZES**2).sum()), heads, requires_grad=True)]
    query, key, value, bias = inputs
    upstream = torch.randn_like(query)
    out, weights = block_attention(query, key, value, bias, BlockIndex.of(SIZES), 0.0)
    expected, expected_weights = slow_attention(query, key, value, bias)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(weights, expected_weights)
    ours = torch.autograd.grad((out * upstream).sum(), inputs)
    theirs = torch.autograd.grad((expected * upstream).sum(), inputs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("heads", "channels"), [(8, 4), (2, 6)])
def test_dropout_scales_what_is_left_in_both_directions(heads: int, channels: int) -> None:
    query, key = states(heads, channels, 2)
    bias = torch.zeros(int((SIZES**2).sum()), heads)
    # With the unit vectors of a graph's nodes as values, states are the weights themselves.
    largest = int(SIZES.max())
    index = BlockIndex.of(SIZES)
    unit = torch.cat([torch.eye(size, largest) for size in SIZES.tolist()])[:, None].repeat(1, heads, 1)
    wide = (
        torch.nn.functional.pad(query, (0, largest - channels)),
        torch.nn.functional.pad(key, (0, largest - channels)),
    )
    torch.manual_seed(0)
    dropped, weights = block_attention(*wide, unit.requires_grad_(), bias, index, 0.4)
    stays = []
    for graph, size in enumerate(SIZES.tolist()):
        rows = dropped[index.start[graph] : index.start[graph + 1], :, :size].permute(0, 2, 1).flatten(0, 1)
        kept = rows / weights[index.first_pair[graph] : index.first_pair[graph + 1]]
        stays.append(kept)
    scale = torch.cat(stays)
    assert (((scale - 1 / 0.6).abs() < 1e-4) | (scale == 0)).all()
    assert (scale == 0).float().mean() == pytest.approx(0.4, abs=0.1)
    (gradient,) = torch.autograd.grad(dropped.sum(), unit)
    received = torch.zeros_like(gradient[:, :, 0])
    for graph, size in enumerate(SIZES.tolist()):
        own = slice(index.start[graph], index.start[graph + 1])
        received[own] = dropped[own, :, :size].sum(dim=0).t()
    torch.testing.assert_close(gradient[:, :, 0], received, rtol=1e-4, atol=1e-5)


def test_extreme_scores_stay_finite() -> None:
    query, key, value = states(8, 4, 3)
    bias = torch.randn(int((SIZES**2).sum()), 8) * 1e4
    out, weights = block_attention(query * 100, key * 100, value, bias, BlockIndex.of(SIZES), 0.0)
    assert out.isfinite().all()
    assert weights.isfinite().all()


@pytest.mark.parametrize(("heads", "channels"), SHAPES)
def test_distances_are_those_of_a_loop(heads: int, channels: int) -> None:
    (x,) = states(heads, channels, 1)
    index = BlockIndex.of(SIZES)
    found = block_l1(x, index)
    parts = []
    for graph in range(len(SIZES)):
        own = x[index.start[graph] : index.start[graph + 1]]
        parts.append((own[:, None] - own[None]).abs().sum(dim=3).flatten(0, 1))
    expected = torch.cat(parts)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    upstream = torch.randn_like(found)
    (ours,) = torch.autograd.grad((found * upstream).sum(), x)
    (theirs,) = torch.autograd.grad((expected * upstream).sum(), x)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("operation", ["attention", "distance"])
def test_threads_do_not_matter(operation: str) -> None:
    sizes = np.full(300, 20)
    x = torch.randn(6000, 8, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    bias = torch.zeros(int((sizes**2).sum()), 8)

    def run() -> tuple[Any, ...]:
        torch.manual_seed(3)
        index = BlockIndex.of(sizes)
        out = block_l1(x, index) if operation == "distance" else block_attention(x, x, x, bias, index, 0.1)[0]
        return out, *torch.autograd.grad(out.square().sum(), x)

    alone = run()
    torch.set_num_threads(2)
    try:
        for one, other in zip(alone, run(), strict=True):
            assert torch.equal(one, other)
    finally:
        torch.set_num_threads(1)


def test_no_path_has_no_bias_and_no_gradient() -> None:
    distances, bonds = torch.randn(5, 2, requires_grad=True), torch.randn(3, 2, 2, requires_grad=True)
    apart = tuple(torch.tensor(values) for values in ([1, 2], [0, 0], [0, 0], [1, 0]))
    base = torch.full((4, 2), 7.0, requires_grad=True)
    out = path_bias(distances, bonds, apart, base)
    assert out[0].tolist() == out[3].tolist() == [7, 7]
    assert torch.equal(out[1], distances[1])
    expected = distances[0].detach().tolist()
    assert out[2].tolist() == expected  # row 0, which models keep at zero
    by_distance, by_base = torch.autograd.grad(out.sum(), (distances, base))
    assert not by_distance[0].any()
    assert by_base[:, 0].tolist() == [1, 0, 0, 1]
