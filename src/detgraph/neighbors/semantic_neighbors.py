"""The semantic neighbours of a graph, and the epochs at which they are searched anew."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from detgraph.neighbors.exact import ScoreBlock
from detgraph.neighbors.search import Backend, as_edges, find_neighbors
from detgraph.nn.semantic import SearchSpace

Source = Literal["features", "propagated", "learned", "output"]


@dataclass(frozen=True)
class Schedule:
    """When to search, and in which states.

    Attributes:
        source: states that select the neighbours.
        every: epochs between two searches in learned states.
        warmup: epochs before the first search in learned states; until then propagated features select.
    """

    source: Source = "learned"
    every: int = 1
    warmup: int = 0

    def due(self, epoch: int) -> Source | None:
        """The states to search in at the start of ``epoch`` (from 0), None to keep the neighbours."""
        if self.source in ("features", "propagated"):
            return self.source if epoch == 0 else None  # they do not change
        if epoch >= self.warmup:
            return self.source if (epoch - self.warmup) % self.every == 0 else None
        return "propagated" if epoch == 0 and self.source == "learned" else None


class SemanticNeighbors:
    """S(i) for every node of one graph.

    Args:
        k: how many distant nodes each node fetches.
        edge_index: (2, edges); connected nodes are not fetched.
        num_nodes: how many nodes there are.
        backend: how to search.
        members: the nodes that fetch and are fetched, ascending, with the ends of all edges; default: all.
    """

    def __init__(
        self,
        k: int,
        edge_index: Tensor,
        num_nodes: int,
        backend: Backend = "auto",
        members: Tensor | None = None,
    ) -> None:
        self.k, self.edge_index, self.num_nodes, self.backend = k, edge_index, num_nodes, backend
        self.members = torch.arange(num_nodes)
        if members is not None:
            self.members, self.edge_index = members, torch.searchsorted(members, edge_index)
        # (nodes, k), -1 = none; no columns before the first search, so that nothing is computed for them
        self.found = torch.empty((num_nodes, 0), dtype=torch.long)

    def search(self, space: SearchSpace | ScoreBlock) -> None:
        """Replace the neighbours by those that are nearest in ``space``, which has the members alone."""
        found = find_neighbors(space, self.k, self.edge_index, len(self.members), backend=self.backend)
        self.found = torch.full((self.num_nodes, self.k), -1)
        self.found[self.members] = torch.where(found >= 0, self.members[found], -1)

    def restore(self, found: Tensor) -> None:
        """Put back the neighbours that a search once found, (nodes, any number).

        Raises:
            ValueError: if they cannot be of this graph.
        """
        whole = found.dim() == 2 and len(found) == self.num_nodes and found.dtype == torch.long
        if not whole or (found.numel() and not -1 <= int(found.min()) <= int(found.max()) < self.num_nodes):
            raise ValueError(f"expected numbers of {self.num_nodes} nodes for each of them")
        self.found = found

    def edges(self) -> Tensor:
        """The current S as PyG edges (source, target), (2, pairs)."""
        return as_edges(self.found)

    def purity(self, labels: Tensor) -> float:
        """Share of fetched nodes with the same label as the node that fetched them; -1 = unknown label."""
        source, target = self.edges()
        known = (labels[source] >= 0) & (labels[target] >= 0)
        return (
            float((labels[source] == labels[target])[known].float().mean()) if known.any() else float("nan")
        )
