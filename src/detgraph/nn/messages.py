"""Messages along bonds, beside attention."""

from torch import Tensor, nn


class BondMessages(nn.Module):
    r"""GINE's update, :math:`m_i = \mathrm{MLP}(x_i + \sum_{j \in N(i)} \mathrm{ReLU}(x_j + e_{ij}))`.

    Not in the paper: attention over a whole molecule learns slowly what a bond is.

    Args:
        channels: size of the states.
        bond_codes: number of bond codes.
        rings: number of ring codes, which follow those of bonds.
    """

    def __init__(self, channels: int, bond_codes: int, rings: int = 0) -> None:
        super().__init__()
        self.bond = nn.Embedding(bond_codes + rings, channels)
        self.norm = nn.LayerNorm(channels)
        self.update = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, channels))

    def forward(self, x: Tensor, bonds: Tensor, codes: Tensor) -> Tensor:
        """The update of all nodes.

        Args:
            x: (nodes, channels).
            bonds: (2, bonds) as (source, target).
            codes: (bonds, columns).
        """
        x = self.norm(x)
        source, target = bonds
        messages = (x.index_select(0, source) + self.bond(codes).sum(dim=1)).relu()
        out: Tensor = self.update(x.index_add(0, target, messages))
        return out
