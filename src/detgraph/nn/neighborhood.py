"""Who may attend to whom: one interface, a dense (padded batch) and a sparse (CSR) form.

A neighbourhood is a list of pairs (i, j), "node i may attend to node j", with two memberships: pairs
of the structural set {i} ∪ N(i) and pairs of the semantic set. Every score of the architecture is made
of three pair primitives (``dot``, ``l1``, ``outer_sum``), so each encoder is written once for both forms.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.utils import softmax as segment_softmax
from typing_extensions import override

from detgraph.kernels.block_attention import BlockIndex
from detgraph.kernels.block_distance import block_l1
from detgraph.kernels.choice import fused_on
from detgraph.kernels.pair_steps import pair_dot, pair_softmax, pair_sum
from detgraph.kernels.pairs import PairIndex

SemanticSet = Literal["union", "fetched"]


class Neighborhood(ABC):
    """The pairs of nodes that may attend to each other."""

    structural: Tensor
    """Which pairs belong to {i} ∪ N(i); broadcasts against scores."""
    semantic: Tensor
    """Which pairs belong to the semantic set; the same object as ``structural`` if the sets are equal."""

    @abstractmethod
    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        """``a_i · b_j`` per head, for every pair."""

    @abstractmethod
    def l1(self, a: Tensor, b: Tensor) -> Tensor:
        """``Σ_d |a_i - b_j|_d`` per head, for every pair."""

    @abstractmethod
    def outer_sum(self, a: Tensor, b: Tensor) -> Tensor:
        """``a_i + b_j`` per head, for every pair, of one number a node and head."""

    @abstractmethod
    def softmax(self, scores: Tensor, members: Tensor) -> Tensor:
        """Softmax over each node's members; pairs outside get weight 0."""

    @abstractmethod
    def aggregate(self, weights: Tensor, values: Tensor) -> Tensor:
        """``Σ_j weights_ij · values_j`` for every node i."""

    @property
    def one_set(self) -> bool:
        """Whether both encoders attend to the same pairs, as on molecules."""
        return self.structural is self.semantic


@dataclass(frozen=True, eq=False)
class Dense(Neighborhood):
    """A padded batch of small graphs or sequences: every pair of its tokens.

    Nodes are (batch, nodes, heads, dim), scores (batch, heads, nodes, nodes).
    """

    structural: Tensor  # bool, broadcasts to (batch, 1, nodes, nodes)
    semantic: Tensor

    @classmethod
    def from_mask(cls, structural: Tensor, semantic: Tensor | None = None) -> "Dense":
        """Every node attends to all tokens that exist: masks are (batch, nodes), True = exists."""
        members = structural[:, None, None, :]
        return cls(members, members if semantic is None else semantic[:, None, None, :])

    def first(self, count: int) -> "Rows":
        """The same for the first ``count`` attending nodes only: their queries against all nodes."""
        structural = self.structural[:, :, :count]  # a mask of one row stays as it is
        semantic = structural if self.one_set else self.semantic[:, :, :count]
        return Rows(structural, semantic, slice(count))

    @override
    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        if b.size(2) == 1:  # all heads of a see the same b: one product instead of a copy for each
            by_head = a.transpose(1, 2)
            return (by_head.flatten(1, 2) @ b[:, :, 0].mT).view(*by_head.shape[:3], -1)
        return a.transpose(1, 2) @ b.permute(0, 2, 3, 1)

    @override
    def l1(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.cdist(a.transpose(1, 2), b.transpose(1, 2), p=1.0)

    @override
    def outer_sum(self, a: Tensor, b: Tensor) -> Tensor:
        return a.transpose(1, 2)[:, :, :, None] + b.transpose(1, 2)[:, :, None, :]

    @override
    def softmax(self, scores: Tensor, members: Tensor) -> Tensor:
        # A large negative number instead of -inf keeps rows without any member (padding) free of NaN.
        masked = scores.masked_fill(~members, torch.finfo(scores.dtype).min)
        return masked.softmax(dim=-1).masked_fill(~members, 0.0)

    @override
    def aggregate(self, weights: Tensor, values: Tensor) -> Tensor:
        if values.size(2) == 1:
            return (weights.flatten(1, 2) @ values[:, :, 0]).view(*weights.shape[:3], -1).transpose(1, 2)
        return (weights @ values.transpose(1, 2)).transpose(1, 2)


@dataclass(frozen=True, eq=False)
class Rows(Dense):
    """Some attending nodes against all nodes."""

    rows: Tensor | slice

    @override
    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        return super().dot(a[:, self.rows], b)

    @override
    def l1(self, a: Tensor, b: Tensor) -> Tensor:
        return super().l1(a[:, self.rows], b)

    @override
    def outer_sum(self, a: Tensor, b: Tensor) -> Tensor:
        return super().outer_sum(a[:, self.rows], b)


@dataclass(frozen=True, eq=False)
class Sparse(Neighborhood):
    """One graph of any size: a list of pairs, sorted by the attending node.

    Nodes are (nodes, heads, dim), scores (pairs, heads). Cost grows with the number of pairs.
    """

    target: Tensor  # (pairs,) the attending node i
    source: Tensor  # (pairs,) the node j attended to
    structural: Tensor  # (pairs, 1) bool
    semantic: Tensor  # (pairs, 1) bool
    loop: Tensor  # (pairs,) bool: the pair (i, i) that every node has
    num_nodes: int

    @classmethod
    def from_edges(
        cls,
        edge_index: Tensor,
        num_nodes: int,
        fetched: Tensor | None = None,
        semantic_set: SemanticSet = "union",
    ) -> "Sparse":
        """Pairs {i} ∪ N(i) ∪ S(i) from PyG edges (source, target).

        Args:
            edge_index: (2, edges); self-loops in it are ignored, every node attends to itself once.
            num_nodes: how many nodes there are.
            fetched: (2, pairs) semantic neighbours as (source, target), disjoint from the edges.
            semantic_set: the semantic encoder attends to {i} ∪ N(i) ∪ S(i) or to {i} ∪ S(i).
        """
        if fetched is None:
            fetched = edge_index.new_empty((2, 0))
        edges, extra, device = edge_index.size(1), fetched.size(1), edge_index.device
        nodes = torch.arange(num_nodes, device=device)
        pairs = torch.cat([nodes.expand(2, -1), edge_index, fetched], dim=1)
        loop = torch.arange(pairs.size(1), device=device) < num_nodes
        is_edge = torch.cat([loop[:num_nodes], edge_index[0] != edge_index[1], loop.new_zeros(extra)])
        is_fetched = torch.cat([loop[:num_nodes], loop.new_zeros(edges), loop.new_ones(extra)])
        order = pairs[1].argsort(stable=True)
        structural = is_edge[order, None]
        semantic = is_fetched[order, None]
        if semantic_set == "union":
            semantic = semantic | structural if extra else structural
        return cls(pairs[1, order], pairs[0, order], structural, semantic, loop[order], num_nodes)

    @classmethod
    def from_pairs(cls, target: Tensor, source: Tensor, num_nodes: int) -> "Sparse":
        """Just these pairs, to be scored."""
        members = torch.ones_like(target, dtype=torch.bool)
        return cls(target, source, members[:, None], members[:, None], ~members, num_nodes)

    def to(self, device: torch.device) -> "Sparse":
        """The same pairs on this device; where they are there already, with all that is known of them."""
        if self.target.device == device:
            return self
        structural = self.structural.to(device)
        semantic = structural if self.one_set else self.semantic.to(device)
        target, source, loop = self.target.to(device), self.source.to(device), self.loop.to(device)
        return Sparse(target, source, structural, semantic, loop, self.num_nodes)

    def among(self, count: int) -> "Sparse":
        """The pairs of the first ``count`` nodes alone."""
        own = (self.target < count) & (self.source < count)
        structural = self.structural[own]
        semantic = structural if self.one_set else self.semantic[own]
        ends = self.target[own], self.source[own]
        return Sparse(*ends, structural, semantic, self.loop[own], self.num_nodes)

    @cached_property
    def index(self) -> PairIndex:
        """The pairs as the fused kernels read them."""
        return PairIndex.build(self.target, self.source, self.num_nodes)

    @cached_property
    def edges(self) -> "Sparse":
        """The connected pairs alone, without self-loops."""
        is_edge = self.structural[:, 0] & ~self.loop
        return Sparse.from_pairs(self.target[is_edge], self.source[is_edge], self.num_nodes)

    @cached_property
    def near(self) -> Tensor:
        """Structural pairs as sorted numbers ``target · nodes + source``."""
        keys = self.target * self.num_nodes + self.source
        return keys[self.structural[:, 0]].sort().values

    def connected(self, target: Tensor, source: Tensor) -> Tensor:
        """Whether each of these pairs is structural."""
        wanted = target * self.num_nodes + source
        place = torch.searchsorted(self.near, wanted).clamp(max=len(self.near) - 1)
        return self.near[place] == wanted

    def at_target(self, x: Tensor) -> Tensor:
        """Each pair's attending node; `index_select` has a far quicker backward than indexing."""
        return x.index_select(0, self.target)

    def at_source(self, x: Tensor) -> Tensor:
        """Each pair's attended node."""
        return x.index_select(0, self.source)

    @override
    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        if fused_on(a) and fused_on(b) and a.shape == b.shape:
            return pair_dot(a, b, self.index)
        return (self.at_target(a) * self.at_source(b)).sum(dim=-1)

    @override
    def l1(self, a: Tensor, b: Tensor) -> Tensor:
        return (self.at_target(a) - self.at_source(b)).abs().sum(dim=-1)

    @override
    def outer_sum(self, a: Tensor, b: Tensor) -> Tensor:
        return self.at_target(a) + self.at_source(b)

    @override
    def softmax(self, scores: Tensor, members: Tensor) -> Tensor:
        if fused_on(scores):
            return pair_softmax(scores, members[:, 0].expand(len(scores)).contiguous(), self.index)
        masked = scores.masked_fill(~members, -torch.inf)
        weights: Tensor = segment_softmax(masked, self.target, num_nodes=self.num_nodes, dim=0)
        return weights

    @override
    def aggregate(self, weights: Tensor, values: Tensor) -> Tensor:
        if fused_on(weights) and fused_on(values):
            return pair_sum(weights.expand(-1, values.size(1)), values, self.index)
        messages = weights[:, :, None] * self.at_source(values)  # (pairs, heads, dim)
        out = messages.new_zeros((self.num_nodes, *messages.shape[1:]))
        return out.index_add(0, self.target, messages)


@dataclass(frozen=True, eq=False)
class Blocks(Neighborhood):
    """Whole small graphs one after the other, without padding: every pair of nodes of the same graph.

    Nodes are (nodes, heads, dim), scores (pairs, heads), graph by graph and row by row.
    """

    sizes: Tensor  # (graphs,) nodes of each

    @cached_property
    def structural(self) -> Tensor:  # type: ignore[override]  # computed where it is asked for
        """All pairs belong to both sets."""
        return torch.ones((1, 1), dtype=torch.bool, device=self.sizes.device)

    @property
    def semantic(self) -> Tensor:  # type: ignore[override]  # computed where it is asked for
        """The same set."""
        return self.structural

    @cached_property
    def index(self) -> BlockIndex:
        """The graphs as the fused kernels read them."""
        return BlockIndex.of(self.sizes.numpy())

    @cached_property
    def pairs(self) -> Sparse:
        """The same pairs in a list."""
        device = self.sizes.device
        graph = torch.repeat_interleave(torch.arange(len(self.sizes), device=device), self.sizes)
        start = self.sizes.cumsum(0) - self.sizes
        target = torch.repeat_interleave(torch.arange(len(graph), device=device), self.sizes[graph])
        first = (self.sizes**2).cumsum(0) - self.sizes**2
        within = torch.arange(len(target), device=device) - first[graph[target]]
        return Sparse.from_pairs(
            target, start[graph[target]] + within % self.sizes[graph[target]], len(graph)
        )

    @override
    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        return self.pairs.dot(a, b)

    @override
    def l1(self, a: Tensor, b: Tensor) -> Tensor:
        return block_l1(a, self.index) if a is b and fused_on(a) else self.pairs.l1(a, b)

    @override
    def outer_sum(self, a: Tensor, b: Tensor) -> Tensor:
        return self.pairs.outer_sum(a, b)

    @override
    def softmax(self, scores: Tensor, members: Tensor) -> Tensor:
        return self.pairs.softmax(scores, members)

    @override
    def aggregate(self, weights: Tensor, values: Tensor) -> Tensor:
        return self.pairs.aggregate(weights, values)
