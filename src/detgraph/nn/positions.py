"""Where an atom stands: degree, random walks, shortest-path distance, and bonds along the path."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from detgraph.kernels.choice import fused_on
from detgraph.kernels.path_bias import path_bias

Paths = tuple[Tensor, Tensor, Tensor, Tensor]  # pair, shorter path, last bond, distance: see `MoleculeBatch`


def code_offsets(sizes: Sequence[int], column_codes: int | None = None) -> tuple[int, Tensor]:
    """Rows of one table for all columns of codes, and where each column's codes begin; row 0 is not used.

    Args:
        sizes: codes of each column.
        column_codes: rows kept for each column, if not as many as it has codes.
    """
    kept = torch.tensor([column_codes or size for size in sizes])
    return 1 + int(kept.sum()), 1 + kept.cumsum(0) - kept


class DegreeEncoding(nn.Module):
    r"""Degree centrality, :math:`c_i = f_c(\deg(v_i))`, as an embedding added to the node's state.

    Graphormer keeps one table for incoming and one for outgoing edges; bonds have no direction, so both
    are read at the same degree. Row 0 is not used.
    """

    def __init__(self, channels: int, max_degree: int = 64) -> None:
        super().__init__()
        self.incoming = nn.Embedding(max_degree, channels, padding_idx=0)
        self.outgoing = nn.Embedding(max_degree, channels, padding_idx=0)

    def forward(self, degree: Tensor) -> Tensor:
        """(atoms,) degrees to (atoms, channels)."""
        code = (degree + 1).clamp(max=self.incoming.num_embeddings - 1)
        out: Tensor = self.incoming(code) + self.outgoing(code)
        return out


class PathBias(nn.Module):
    r"""Distance and bonds along the shortest path, one number a head.

    .. math:: b_{ij} = f_d(\mathrm{spd}(v_i, v_j)) + \frac{1}{L} \sum_{t=1}^{L} W_t\, \bar b(\mathrm{bond}_t)

    :math:`\bar b` is the mean embedding of a bond's columns, :math:`W_t` the matrix of the t-th hop. Pairs
    with a virtual node have a number of their own. Without a path there is no bias.

    Args:
        bond_sizes: codes of each column of a bond.
        heads: attention heads.
        hops: longest path whose bonds are read.
        max_distance: rows of the distance table; larger distances share the last.
        column_codes: see `code_offsets`.
    """

    def __init__(
        self,
        bond_sizes: Sequence[int],
        heads: int,
        hops: int = 40,
        max_distance: int = 40,
        column_codes: int | None = None,
    ) -> None:
        super().__init__()
        rows, offset = code_offsets(bond_sizes, column_codes)
        self.distance = nn.Embedding(max_distance, heads, padding_idx=0)
        self.bond = nn.Embedding(rows, heads, padding_idx=0)
        self.hop = nn.Parameter(torch.randn(hops, heads, heads) * 0.02)
        self.virtual = nn.Parameter(torch.zeros(heads))
        columns = torch.cartesian_prod(*(torch.arange(size) for size in bond_sizes)).view(-1, len(bond_sizes))
        self.register_buffer("codes", columns + offset, persistent=False)  # (kinds, columns)
        self.codes: Tensor

    def forward(self, paths: Paths, pairs: int) -> Tensor:
        """The bias of all pairs of nodes, (pairs, heads)."""
        longest = int(paths[3].max()) - 1
        hop = self.hop[: max(min(longest, len(self.hop)), 1)]
        bonds = torch.einsum("kh,thg->tkg", self.bond(self.codes).mean(dim=1), hop)  # (hops, kinds, heads)
        base = self.virtual.expand(pairs, -1)
        form = path_bias if fused_on(base) else path_bias_by_length
        return form(self.distance.weight, bonds.type_as(base), paths, base)  # mixed precision halves products


def path_bias_by_length(distances: Tensor, bonds: Tensor, paths: Paths, base: Tensor) -> Tensor:
    """`path_bias` in plain torch: all paths of one bond, then of two, and so on."""
    pair, before, bond, distance = paths
    length, hops = distance - 1, len(bonds)
    sums = base.new_zeros((len(pair), base.size(1)))
    for bonds_read in range(1, hops + 1):
        here = (length == bonds_read).nonzero()[:, 0]
        sums = sums.index_copy(0, here, sums[before[here]] + bonds[bonds_read - 1, bond[here]])
    # Longer paths have the sum of their first bonds: go back to these, in steps that double.
    read = torch.where(length > hops, before, torch.arange(len(pair), device=pair.device))
    while (length[read] > hops).any():
        read = read[read]
    sums = sums[read]
    codes = distance.clamp(max=len(distances) - 1)
    known = torch.where((codes > 0)[:, None], distances[codes], 0.0)
    return base.index_copy(0, pair, known + sums / length.clamp(1, hops)[:, None])


class WalkBias(nn.Module):
    r"""Random walks between two atoms, :math:`w_{ij} = W\,[P_{ij}, (P^2)_{ij}, \dots, (P^K)_{ij}]`, a head.

    :math:`P = D^{-1} A`. Not in the paper: an extra that knows rings and branches.
    """

    def __init__(self, steps: int, heads: int) -> None:
        super().__init__()
        self.linear = nn.Linear(steps, heads, bias=False)

    def forward(self, bias: Tensor, walks: Tensor, pair: Tensor) -> Tensor:
        """Add to the bias (pairs, heads) what walks (atom pairs, steps) tell."""
        return bias.index_add(0, pair, self.linear(walks).type_as(bias))
