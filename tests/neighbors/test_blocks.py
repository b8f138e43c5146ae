"""Blocks of a graph: enough for their seeds, no more than the fan-out, fair and repeatable."""

from typing import Any

import pytest
import torch
from torch import Tensor

from detgraph.neighbors.blocks import Block, Sampler
from detgraph.nn import DualEncoding, NetworkDET, Sparse


def graph(nodes: int = 60, edges: int = 150, fetched: int = 4, semantic_set: Any = "union") -> Sparse:
    """Random undirected edges with a self-loop; node 0 is a hub, the last node has no edge."""
    generator = torch.Generator().manual_seed(0)
    some = torch.randint(nodes - 1, (2, edges), generator=generator)
    hub = torch.stack([torch.arange(1, nodes - 1), torch.zeros(nodes - 2, dtype=torch.long)])
    pairs = torch.cat([some, hub, some.flip(0), hub.flip(0), torch.tensor([[3], [3]])], dim=1)
    pairs = torch.unique(pairs, dim=1)
    connected = torch.eye(nodes, dtype=torch.bool)
    connected[pairs[1], pairs[0]] = True
    order = torch.rand(nodes, nodes, generator=generator).masked_fill(connected, -1).topk(fetched, dim=1)
    target = torch.arange(nodes)[:, None].expand(-1, fetched)[order.values >= 0]
    extra = torch.stack([order.indices[order.values >= 0], target])
    return Sparse.from_edges(pairs, nodes, extra if fetched else None, semantic_set)


def global_pairs(block: Block) -> list[tuple[int, int, bool, bool, bool]]:
    pairs = block.neighborhood
    ends = block.nodes[pairs.target].tolist(), block.nodes[pairs.source].tolist()
    kinds = pairs.structural[:, 0].tolist(), pairs.semantic[:, 0].tolist(), pairs.loop.tolist()
    return list(zip(*ends, *kinds, strict=True))


@pytest.mark.parametrize("semantic_set", ["union", "fetched"])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_with_all_neighbors_seeds_get_their_full_batch_output(layers: int, semantic_set: Any) -> None:
    whole = graph(nodes=300, edges=200, semantic_set=semantic_set)
    model = NetworkDET(
        features=6, classes=3, head_channels=4, heads=2, layers=layers, encoding=DualEncoding()
    ).eval()
    x, seeds = torch.randn(300, 6), torch.tensor([299, 7, 3, 120])
    block = Sampler(whole).block(seeds, layers, None, 0)
    out = model(x[block.nodes], block.neighborhood).x
    torch.testing.assert_close(out[:4], model(x, whole).x[seeds], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fan_out", [0, 1, 3, 100, None])
def test_a_block_is_a_part_of_the_graph(fan_out: int | None) -> None:
    whole, seeds = graph(), torch.tensor([59, 0, 12])
    everything = global_pairs(Block(torch.arange(60), whole, torch.zeros(60)))
    block = Sampler(whole).block(seeds, 2, fan_out, 1)
    pairs, found = block.neighborhood, global_pairs(block)
    assert block.nodes[:3].tolist() == [59, 0, 12]
    assert len(torch.unique(block.nodes)) == len(block.nodes) == pairs.num_nodes
    assert len(set(found)) == len(found)
    assert set(found) <= set(everything)
    assert (pairs.target.diff() >= 0).all()
    assert torch.equal(pairs.target[pairs.loop], torch.arange(pairs.num_nodes))  # each has itself, once
    assert (block.hop.diff() >= 0).all()
    for position, (node, hop) in enumerate(zip(block.nodes.tolist(), block.hop.tolist(), strict=True)):
        mine = [pair for pair in found if pair[0] == node and not pair[4]]
        possible = [pair for pair in everything if pair[0] == node and not pair[4]]
        for structural in (True, False):
            drawn = sum(pair[2] == structural for pair in mine)
            there = sum(pair[2] == structural and (pair[2] or pair[3]) for pair in possible)
            limit = there if fan_out is None else min(there, fan_out)
            assert drawn == (limit if hop < 2 else 0)
        attending = pairs.target[pairs.source == position]
        if hop > 0:  # a node is there because one of the hop before attends to it
            assert block.hop[attending].min() == hop - 1


def test_isolated_nodes_have_themselves() -> None:
    block = Sampler(graph(fetched=0)).block(torch.tensor([59]), 3, None, 0)
    assert block.nodes.tolist() == [59]
    assert global_pairs(block) == [(59, 59, True, True, True)]
    assert block.neighborhood.one_set


def test_no_seeds_no_block() -> None:
    block = Sampler(graph()).block(torch.empty(0, dtype=torch.long), 2, 3, 0)
    assert (len(block.nodes), len(block.neighborhood.target)) == (0, 0)


def test_a_seed_may_not_be_given_twice() -> None:
    with pytest.raises(ValueError, match="must be distinct"):
        Sampler(graph()).block(torch.tensor([4, 5, 4]), 1, 3, 0)


@pytest.mark.parametrize("seed", [-1, 60])
def test_a_seed_must_exist(seed: int) -> None:
    with pytest.raises(ValueError, match="nodes from 0 to 59"):
        Sampler(graph()).block(torch.tensor([4, seed]), 1, 3, 0)


def same(one: Block, other: Block) -> bool:
    return torch.equal(one.nodes, other.nodes) and global_pairs(one) == global_pairs(other)


def test_a_seed_number_decides_the_block() -> None:
    sampler, seeds = Sampler(graph()), torch.arange(5)
    blocks = [sampler.block(seeds, 2, 2, seed) for seed in (0, 1, 0)]
    assert same(blocks[0], blocks[2])
    assert not same(blocks[0], blocks[1])
    assert same(blocks[0], Sampler(graph()).block(seeds, 2, 2, 0))  # earlier blocks leave no trace


def test_every_neighbor_of_a_hub_is_drawn_equally_often() -> None:
    sampler, counts, draws, fan_out = Sampler(graph()), torch.zeros(60), 3000, 7
    for seed in range(draws):
        pairs = (block := sampler.block(torch.tensor([0]), 1, fan_out, seed)).neighborhood
        counts[block.nodes[pairs.source[pairs.structural[:, 0] & ~pairs.loop & (pairs.target == 0)]]] += 1
    drawn = counts[1:59]
    expected = draws * fan_out / 58
    # Draws without replacement vary less than independent ones, by the share that is not drawn.
    chi_square = float(((drawn - expected) ** 2).sum() / (expected * (1 - fan_out / 58)))
    assert drawn.sum() == draws * fan_out
    assert chi_square < 96  # 57 degrees of freedom: exceeded once in a thousand


def degree_of(whole: Sparse, node: int) -> Tensor:
    return (whole.target == node).sum()


def test_a_hub_at_the_last_hop_brings_no_neighbors() -> None:
    whole = graph()
    assert degree_of(whole, 0) >= 59
    block = Sampler(whole).block(torch.tensor([12]), 1, None, 0)
    assert 0 in block.nodes.tolist()
    assert len(block.nodes) == len(set(whole.source[whole.target == 12].tolist()))
