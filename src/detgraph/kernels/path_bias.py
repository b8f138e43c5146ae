"""Biases from distances and from bonds along shortest paths, as one differentiable operation."""

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from detgraph.kernels.lanes import Array


def path_bias(distances: Tensor, bonds: Tensor, paths: tuple[Tensor, ...], base: Tensor) -> Tensor:
    r""":math:`b_{ij} = d_{|p|} + \frac{1}{L} \sum_{t \le L} e_{t, \mathrm{bond}_t}` at the pairs of paths.

    A path is another one with a last bond, so its sum is that one's and one more term; of paths that start at
    the same atom the shorter ones come first.

    Args:
        distances: (distance codes, heads).
        bonds: (hops, kinds, heads) what a bond of a kind adds as the t-th of a path.
        paths: pair, before, bond and distance of each path, as in `MoleculeBatch`.
        base: (pairs, heads) the bias of pairs that no path leads to.

    Returns:
        (pairs, heads)
    """
    out: Tensor = _PathBias.apply(distances, bonds, paths, base)  # type: ignore[no-untyped-call]  # torch
    return out


class _PathBias(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, distances: Tensor, bonds: Tensor, paths: tuple[Tensor, ...], base: Tensor
    ) -> Tensor:
        arrays = tuple(tensor.numpy() for tensor in paths)
        out = base.detach().clone().numpy()
        sums = np.empty((len(arrays[0]), bonds.size(2)), np.float32)
        add_up(distances.detach().numpy(), bonds.detach().contiguous().numpy(), *arrays, sums, out)
        ctx.saved = distances.shape, bonds.shape, arrays
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        distance_shape, bond_shape, arrays = ctx.saved
        flow = grad.contiguous().numpy().copy()
        by_distance, by_bond = np.zeros(distance_shape, np.float32), np.zeros(bond_shape, np.float32)
        sums = np.zeros((len(arrays[0]), bond_shape[2]), np.float32)
        add_up_back(flow, *arrays, sums, by_distance, by_bond)
        by_distance[0] = 0  # where there is no path, there is no bias
        return torch.from_numpy(by_distance), torch.from_numpy(by_bond), None, torch.from_numpy(flow)


@njit(cache=True, error_model="numpy")
def add_up(
    distances: Any, bonds: Any, pair: Any, before: Any, bond: Any, distance: Any, sums: Array, out: Array
) -> None:
    """Biases of all pairs of paths; ``sums`` (paths, heads) are those over the bonds of a path."""
    hops, heads = len(bonds), distances.shape[1]
    for p in range(len(pair)):
        length = distance[p] - 1
        code = min(distance[p], len(distances) - 1)
        shorter, kind, to = before[p], bond[p], pair[p]
        scale = np.float32(1) / np.float32(max(min(length, hops), 1))
        for head in range(heads):
            total = np.float32(0)
            if length > 0:
                total = sums[shorter, head]
                if length <= hops:
                    total += bonds[length - 1, kind, head]
            sums[p, head] = total
            out[to, head] = distances[code, head] + total * scale


@njit(cache=True, error_model="numpy")
def add_up_back(
    flow: Array,
    pair: Any,
    before: Any,
    bond: Any,
    distance: Any,
    sums: Array,
    by_distance: Array,
    by_bond: Array,
) -> None:
    """Gradients of `add_up`: longest paths first; what ``flow`` has at pairs of paths is taken away."""
    hops, heads = len(by_bond), flow.shape[1]
    for p in range(len(pair) - 1, -1, -1):
        length = distance[p] - 1
        code = min(distance[p], len(by_distance) - 1)
        shorter, kind, to = before[p], bond[p], pair[p]
        scale = np.float32(1) / np.float32(max(min(length, hops), 1))
        for head in range(heads):
            by_distance[code, head] += flow[to, head]
            if length > 0:
                total = sums[p, head] + flow[to, head] * scale
                sums[shorter, head] += total
                if length <= hops:
                    by_bond[length - 1, kind, head] += total
            flow[to, head] = 0
