"""One layer at PubMed's size, forward and backward: 19,717 nodes, 88,648 edges and loops, 128 → 8 × 8."""

from collections.abc import Callable
from typing import Any

import torch
from timing import in_turns
from torch import Tensor, nn
from torch_geometric.nn import GATConv, SuperGATConv

from detgraph.nn import DualEncoderLayer, Sparse

NODES, EDGES, CHANNELS, HEADS, HEAD_CHANNELS, K = 19_717, 88_648, 128, 8, 8, 8
REPEATS = 21


def graph() -> tuple[Tensor, Tensor, Tensor]:
    """Features, undirected edges, and k distant nodes for each node."""
    generator = torch.Generator().manual_seed(0)
    half = torch.randint(NODES, (2, EDGES // 2), generator=generator)
    fetched = torch.stack(
        [torch.randint(NODES, (NODES * K,), generator=generator), torch.arange(NODES).repeat_interleave(K)]
    )
    return torch.randn(NODES, CHANNELS, generator=generator), torch.cat([half, half.flip(0)], dim=1), fetched


def step(layer: nn.Module, x: Tensor, structure: Any) -> Callable[[], None]:
    inputs = x.clone().requires_grad_(True)

    def work() -> None:
        layer.zero_grad()
        inputs.grad = None
        layer(inputs, structure).sum().backward()

    return work


def structural_layer() -> dict[str, Any]:
    x, edge_index, _ = graph()
    ours = step(
        DualEncoderLayer(CHANNELS, HEAD_CHANNELS, HEADS, tau=1.0), x, Sparse.from_edges(edge_index, NODES)
    )
    return in_turns(ours, step(GATConv(CHANNELS, HEAD_CHANNELS, HEADS), x, edge_index), REPEATS, 0.5)


def dual(peer: nn.Module, bar: float) -> dict[str, Any]:
    x, edge_index, fetched = graph()
    pairs = Sparse.from_edges(edge_index, NODES, fetched)
    ours = step(DualEncoderLayer(CHANNELS, HEAD_CHANNELS, HEADS, tau=0.5), x, pairs)
    return in_turns(ours, step(peer, x, edge_index), REPEATS, bar)


def dual_layer() -> dict[str, Any]:
    return dual(GATConv(CHANNELS, HEAD_CHANNELS, HEADS), 1.0)


def dual_layer_supergat() -> dict[str, Any]:
    """SuperGAT in training mode, as it is used: with the attention loss of its edges and sampled pairs."""
    return dual(SuperGATConv(CHANNELS, HEAD_CHANNELS, HEADS, attention_type="SD"), 0.35)
