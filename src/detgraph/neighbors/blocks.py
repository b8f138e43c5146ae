"""Parts of a large graph: some nodes, and what their states depend on, drawn hop by hop."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor

from detgraph.nn.neighborhood import Sparse

LOOP, STRUCTURAL, FETCHED, NEITHER = range(4)
KINDS = 4

OPTIONS = {"cache": True, "error_model": "numpy"}


class Block(NamedTuple):
    """A small graph that is enough to compute the states of its seeds."""

    nodes: Tensor  # (block nodes,) numbers in the whole graph: seeds in their order, then hop by hop
    neighborhood: Sparse  # pairs of positions in ``nodes``
    hop: Tensor  # (block nodes,) 0 for seeds


class Sampler:
    """Draws blocks from one graph, in time that grows with the block only.

    Args:
        neighborhood: all pairs, as ``Sparse.from_edges`` makes them. A pair that is not structural counts as
            fetched; one that belongs to no set (a self-loop among the edges) is left out.
    """

    def __init__(self, neighborhood: Sparse) -> None:
        self.whole = neighborhood
        structural, semantic = neighborhood.structural[:, 0], neighborhood.semantic[:, 0]
        kind = torch.full_like(neighborhood.target, NEITHER)
        kind[semantic] = FETCHED
        kind[structural] = STRUCTURAL
        kind[neighborhood.loop] = LOOP
        key, order = (neighborhood.target * KINDS + kind).sort(stable=True)
        self.pair = order.numpy()  # (pairs,) sorted by attending node, then kind
        self.source = neighborhood.source[order].numpy()
        self.start = torch.searchsorted(key, torch.arange(neighborhood.num_nodes * KINDS + 1)).numpy()
        self.place = np.full(neighborhood.num_nodes, -1, np.int32)  # each node's position in the block

    def block(self, seeds: Tensor, hops: int, fan_out: int | None, seed: int) -> Block:
        """Seeds, and the nodes that their states depend on where attention is applied ``hops`` times.

        Args:
            seeds: (seeds,) distinct nodes.
            hops: nodes nearer than so many hops attend to others, those at the last hop to themselves.
            fan_out: how many structural and how many fetched neighbours a node draws at most; None = all.
            seed: the same seed draws the same block.
        """
        if len(seeds) and not (int(seeds.min()) >= 0 and int(seeds.max()) < self.whole.num_nodes):
            raise ValueError(f"seeds must be nodes from 0 to {self.whole.num_nodes - 1}")
        if len(torch.unique(seeds)) < len(seeds):
            raise ValueError("the seeds of a block must be distinct, but one of them is given twice")
        nodes, hop, target, source, chosen = draw(
            self.start,
            self.source,
            self.place,
            seeds.numpy(),
            hops,
            len(self.source) if fan_out is None else fan_out,
            np.random.default_rng(seed),
        )
        pair = torch.from_numpy(self.pair[chosen])
        structural = self.whole.structural[pair]
        semantic = structural if self.whole.one_set else self.whole.semantic[pair]
        loop = self.whole.loop[pair]
        ends = torch.from_numpy(target), torch.from_numpy(source)
        return Block(
            torch.from_numpy(nodes),
            Sparse(*ends, structural, semantic, loop, len(nodes)),
            torch.from_numpy(hop),
        )


@njit(**OPTIONS)
def longer(array: Any, length: int) -> Any:
    """The array itself if it has room for ``length`` entries, otherwise a copy of at least twice its size."""
    if len(array) >= length:
        return array
    copy = np.empty(max(length, 2 * len(array)), array.dtype)
    copy[: len(array)] = array
    return copy


@njit(**OPTIONS)
def choose(begin: int, end: int, count: int, random: Any, chosen: Any) -> None:
    """Put ``count`` different random numbers of [begin, end) into ``chosen``, ascending.

    Floyd's way: the time does not depend on how many there are to choose from.
    """
    for k in range(count):
        last = end - count + k
        chosen[k] = last
        if end - begin > count:
            drawn = begin + int(random.random() * (last - begin + 1))
            if not (chosen[:k] == drawn).any():
                chosen[k] = drawn
    chosen[:count].sort()


@njit(**OPTIONS)
def draw(start: Any, sources: Any, place: Any, seeds: Any, hops: int, most: int, random: Any) -> Any:
    """Nodes (block nodes,), their hops, and the pairs: target, source (positions) and number (pairs,)."""
    nodes, hop = seeds.copy(), np.zeros(len(seeds), np.int64)
    target, source, pair = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    chosen = np.empty(0, np.int64)
    size, pairs = len(seeds), 0
    for i in range(size):
        place[nodes[i]] = i
    i = 0
    while i < size:  # the end moves on while neighbours are added
        reach = FETCHED + 1 if hop[i] < hops else LOOP + 1
        for kind in range(reach):
            begin, end = start[nodes[i] * KINDS + kind], start[nodes[i] * KINDS + kind + 1]
            count = min(end - begin, 1 if kind == LOOP else most)
            room = pairs + count
            target, source, pair = longer(target, room), longer(source, room), longer(pair, room)
            chosen = longer(chosen, count)
            choose(begin, end, count, random, chosen)
            for number in chosen[:count]:
                j = sources[number]
                if place[j] < 0:
                    nodes, hop = longer(nodes, size + 1), longer(hop, size + 1)
                    place[j], nodes[size], hop[size] = size, j, hop[i] + 1
                    size += 1
                target[pairs], source[pairs], pair[pairs] = i, place[j], number
                pairs += 1
        i += 1
    place[nodes[:size]] = -1
    return nodes[:size], hop[:size], target[:pairs], source[:pairs], pair[:pairs]
