"""Where a node stands: degree, random walks, shortest-path distance, and bonds along the path."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class DegreeEncoding(nn.Module):
    r"""Degree centrality, :math:`c_i = f_c(\deg(v_i))`, as an embedding added to the node's state.

    Graphormer keeps one table for incoming and one for outgoing edges; bonds have no direction, so both
    are read at the same degree.
    """

    def __init__(self, channels: int, max_degree: int = 64) -> None:
        super().__init__()
        self.incoming = nn.Embedding(max_degree, channels, padding_idx=0)
        self.outgoing = nn.Embedding(max_degree, channels, padding_idx=0)

    def forward(self, degree: Tensor) -> Tensor:
        """(batch, nodes) degrees + 1, 0 for padding, to (batch, nodes, channels)."""
        degree = degree.clamp(max=self.incoming.num_embeddings - 1)
        out: Tensor = self.incoming(degree) + self.outgoing(degree)
        return out


class RandomWalkEncoding(nn.Module):
    r"""Random-walk return probabilities, :math:`w_i = W\,[P_{ii}, (P^2)_{ii}, \dots, (P^K)_{ii}] + b`.

    :math:`P = D^{-1} A`. Not in the paper: an extra that tells apart atoms of rings of different sizes.
    """

    def __init__(self, channels: int, steps: int) -> None:
        super().__init__()
        self.linear = nn.Linear(steps, channels)

    def forward(self, walk: Tensor) -> Tensor:
        """(batch, nodes, steps) probabilities to (batch, nodes, channels)."""
        out: Tensor = self.linear(walk)
        return out


class DistanceBias(nn.Module):
    r"""Shortest-path distance, :math:`d_{ij} = f_d(\mathrm{spd}(v_i, v_j))`, one number a head."""

    def __init__(self, heads: int, max_distance: int = 40) -> None:
        super().__init__()
        self.table = nn.Embedding(max_distance, heads, padding_idx=0)

    def forward(self, distance: Tensor) -> Tensor:
        """(batch, nodes, nodes) distances + 1, 0 = none, to (batch, heads, nodes, nodes)."""
        out: Tensor = self.table(distance.clamp(max=self.table.num_embeddings - 1))
        return out.permute(0, 3, 1, 2)


class PathBias(nn.Module):
    r"""Bonds along the shortest path, :math:`e_{ij} = \frac{1}{L} \sum_t W_t\, \bar b(\mathrm{bond}_t)`.

    :math:`\bar b` is the mean embedding of a bond's columns and :math:`W_t` the matrix of the t-th hop.
    """

    def __init__(self, codes: int, heads: int, hops: int = 40) -> None:
        super().__init__()
        self.bond = nn.Embedding(codes, heads, padding_idx=0)
        self.hop = nn.Parameter(torch.randn(hops, heads, heads) * 0.02)

    def forward(self, kinds: Tensor, paths: Tensor) -> Tensor:
        """Bias of every pair.

        Args:
            kinds: (kinds, columns) codes of each kind of bond in the batch.
            paths: (batch, nodes, nodes, hops) kind + 1 of each bond on the way, 0 after the end.

        Returns:
            (batch, heads, nodes, nodes)
        """
        batch, nodes, _, hops = paths.shape
        hops = min(hops, self.hop.size(0))
        bond = functional.pad(
            self.bond(kinds).mean(dim=1), (0, 0, 1, 0)
        )  # (1 + kinds, heads), row 0 = no bond
        table = torch.einsum("kh,thg->tkg", bond, self.hop[:hops])  # (hops, 1 + kinds, heads)
        index = paths[..., :hops] + torch.arange(hops, device=paths.device) * bond.size(0)
        length = (paths[..., :hops] > 0).sum(dim=-1).clamp(min=1)
        # embedding_bag sums over the path without holding a (batch, nodes, nodes, hops, heads) tensor.
        summed = functional.embedding_bag(index.flatten(0, 2), table.flatten(0, 1), mode="sum")
        return (summed.view(batch, nodes, nodes, -1) / length[..., None]).permute(0, 3, 1, 2)
