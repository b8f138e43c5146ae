"""From graphs one after the other to a padded batch, for devices that the fused kernels do not serve."""

import torch
from torch import Tensor

from detgraph.nn.neighborhood import Blocks, Dense


class Padding:
    """Where the nodes and pairs of ``blocks`` stand in a padded batch."""

    def __init__(self, blocks: Blocks) -> None:
        sizes = blocks.sizes
        self.graphs, self.width = len(sizes), int(sizes.max())
        graph = torch.repeat_interleave(torch.arange(self.graphs, device=sizes.device), sizes)
        start = sizes.cumsum(0) - sizes
        within = torch.arange(len(graph), device=sizes.device) - start[graph]
        self.place = graph * self.width + within  # (nodes,) among batch · width
        self.pair_place = self.place[blocks.pairs.target] * self.width + within[blocks.pairs.source]

    @property
    def neighborhood(self) -> Dense:
        """Every node attends to all nodes of its graph."""
        exists = torch.zeros(self.graphs * self.width, dtype=torch.bool, device=self.place.device)
        exists[self.place] = True
        return Dense.from_mask(exists.view(self.graphs, self.width))

    def states(self, x: Tensor) -> Tensor:
        """(nodes, channels) to (batch, width, channels), 0 where there is no node."""
        padded = x.new_zeros((self.graphs * self.width, x.size(1))).index_copy(0, self.place, x)
        return padded.view(self.graphs, self.width, -1)

    def scores(self, scores: Tensor) -> Tensor:
        """(pairs, heads) to (batch, heads, width, width)."""
        padded = scores.new_zeros((self.graphs * self.width**2, scores.size(1)))
        padded = padded.index_copy(0, self.pair_place, scores)
        return padded.view(self.graphs, self.width, self.width, -1).permute(0, 3, 1, 2)

    def flatten(self, x: Tensor) -> Tensor:
        """(batch, width, channels) to (nodes, channels)."""
        return x.flatten(0, 1)[self.place]
