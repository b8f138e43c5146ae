"""The semantic neighbours of a graph: the current S and the epochs at which it is searched anew."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from detgraph.neighbors.exact import ScoreBlock
from detgraph.neighbors.search import Backend, find_neighbors
from detgraph.nn.semantic import SearchSpace


@dataclass
class SemanticNeighbors:
    """S(i) for every node, refreshed at the start of every ``every``-th epoch.

    Attributes:
        k: how many distant nodes each node fetches.
        every: epochs between two searches.
        backend: how to search.
        edge_index: (2, edges); connected nodes are not fetched.
        num_nodes: how many nodes there are.
        groups: (nodes,) graph of each node, for several graphs.
        found: (nodes, k) the current S, -1 = none.
        seconds: time spent searching so far.
    """

    k: int
    every: int
    backend: Backend
    edge_index: Tensor
    num_nodes: int
    groups: Tensor | None = None
    found: Tensor = field(init=False)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.found = torch.full((self.num_nodes, self.k), -1, dtype=torch.long)

    def refresh(self, epoch: int, states: Callable[[], SearchSpace | ScoreBlock]) -> bool:
        """Search again if ``epoch`` is due; ``states`` is only called then. Returns whether it was."""
        if self.k == 0 or epoch % self.every != 0:
            return False
        started = time.perf_counter()
        self.found = find_neighbors(
            states(), self.k, self.edge_index, self.num_nodes, backend=self.backend, groups=self.groups
        )
        self.seconds += time.perf_counter() - started
        return True

    def edges(self) -> Tensor:
        """The current S as PyG edges: (source = fetched node, target = fetching node), (2, pairs)."""
        exists = self.found >= 0
        target = torch.arange(self.num_nodes)[:, None].expand_as(self.found)[exists]
        return torch.stack([self.found[exists], target])

    def purity(self, labels: Tensor) -> float:
        """Share of fetched nodes with the same known label as the node that fetched them."""
        source, target = self.edges()
        known = (labels[source] >= 0) & (labels[target] >= 0)
        return (
            float((labels[source] == labels[target])[known].float().mean()) if known.any() else float("nan")
        )
