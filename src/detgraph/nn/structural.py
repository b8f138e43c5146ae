"""Structural scores: how the structural encoder weighs a connected neighbour."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from detgraph.nn.neighborhood import Neighborhood

StructuralForm = Literal["dot", "linear", "mixed"]


class DotScores(nn.Module):
    r"""Scaled dot product, :math:`q_i \cdot k_j / \sqrt{d}`."""

    def __init__(self, heads: int, channels: int) -> None:
        super().__init__()
        self.scale = channels**-0.5

    def forward(self, query: Tensor, key: Tensor, neighborhood: Neighborhood) -> Tensor:
        """Scores for every pair; query and key are (..., nodes, heads, channels)."""
        return neighborhood.dot(query * self.scale, key)


class LinearScores(nn.Module):
    r"""GAT's form, :math:`\sigma(b^\top (W v_i \,\|\, W v_j))` with a leaky ReLU as :math:`\sigma`."""

    def __init__(self, heads: int, channels: int) -> None:
        super().__init__()
        self.query_weight = nn.Parameter(torch.empty(heads, channels))
        self.key_weight = nn.Parameter(torch.empty(heads, channels))
        nn.init.xavier_uniform_(self.query_weight)
        nn.init.xavier_uniform_(self.key_weight)

    def forward(self, query: Tensor, key: Tensor, neighborhood: Neighborhood) -> Tensor:
        """Scores for every pair; query and key are (..., nodes, heads, channels)."""
        own = (query * self.query_weight).sum(dim=-1)  # (..., nodes, heads)
        other = (key * self.key_weight).sum(dim=-1)
        return functional.leaky_relu(neighborhood.outer_sum(own, other), 0.2)


class MixedScores(nn.Module):
    r"""SuperGAT's mix, :math:`\mathrm{linear}_{ij} \cdot \sigma(q_i \cdot k_j / \sqrt{d})`."""

    def __init__(self, heads: int, channels: int) -> None:
        super().__init__()
        self.linear = LinearScores(heads, channels)
        self.dot = DotScores(heads, channels)

    def forward(self, query: Tensor, key: Tensor, neighborhood: Neighborhood) -> Tensor:
        """Scores for every pair; query and key are (..., nodes, heads, channels)."""
        linear: Tensor = self.linear(query, key, neighborhood)
        dot: Tensor = self.dot(query, key, neighborhood)
        return linear * dot.sigmoid()


STRUCTURAL_FORMS: dict[str, type[DotScores] | type[LinearScores] | type[MixedScores]] = {
    "dot": DotScores,
    "linear": LinearScores,
    "mixed": MixedScores,
}
