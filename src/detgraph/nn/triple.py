"""The triple ("atom") Transformer: the relation between two entities as one state."""

import torch
from torch import Tensor, nn

from detgraph.nn.model import DET, DualEncoding, Encoded
from detgraph.nn.neighborhood import Dense


class TripleEncoder(nn.Module):
    r"""The triple Transformer, :math:`e_{ij} = M_A([c_A, v_i, r_{ij}, v_j])`, read at :math:`c_A`.

    Args:
        channels: size of the states.
        heads: attention heads.
        layers: number of layers.
        ffn_channels: hidden size of each FFN.
        dropout: on states.
        attention_dropout: on attention weights.
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        layers: int,
        ffn_channels: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.context = nn.Parameter(torch.randn(channels) * 0.02)
        self.position = nn.Parameter(torch.randn(4, channels) * 0.02)
        self.norm = nn.LayerNorm(channels)
        structural = DualEncoding(tau=1.0, dropout=dropout, attention_dropout=attention_dropout)
        self.det = DET(
            [
                structural.layer(
                    depth, channels, channels // heads, heads, block="post_norm", ffn_channels=ffn_channels
                )
                for depth in range(layers)
            ]
        )

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Three (triples, channels) to one (triples, channels)."""
        tokens = torch.stack([self.context.expand_as(head), head, relation, tail], dim=1) + self.position
        everything = Dense.from_mask(torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device))
        encoded: Encoded = self.det(self.norm(tokens), everything, first=1)
        return encoded.x[:, 0]
