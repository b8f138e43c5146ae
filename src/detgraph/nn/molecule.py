"""DET on molecules: whole graphs, dense, with Graphormer's structural encoder."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from detgraph.nn.heads import Readout, read_out
from detgraph.nn.model import DET, DualEncoding, Encoded
from detgraph.nn.neighborhood import Dense
from detgraph.nn.positions import DegreeEncoding, DistanceBias, PathBias, RandomWalkEncoding


class MoleculeBatch(NamedTuple):
    """A padded batch of molecules; code 0 is padding everywhere."""

    atoms: Tensor  # (batch, nodes, columns) atom codes
    degree: Tensor  # (batch, nodes) degree + 1
    distance: Tensor  # (batch, nodes, nodes) shortest-path distance + 1
    kinds: Tensor  # (kinds, columns) codes of each kind of bond
    paths: Tensor  # (batch, nodes, nodes, hops) kind + 1 of each bond on the way
    y: Tensor  # (batch, targets), NaN = missing
    walk: Tensor | None = None  # (batch, nodes, steps) return probabilities, for models that read them

    @property
    def mask(self) -> Tensor:
        """(batch, nodes), True = the atom exists."""
        return self.degree > 0


class MoleculeDET(nn.Module):
    """Atoms → DET → one vector of predictions a molecule.

    Args:
        atom_codes: number of atom codes, padding included.
        bond_codes: number of bond codes, padding included.
        targets: number of predictions.
        channels: size of the states.
        heads: attention heads.
        layers: number of layers.
        ffn_channels: hidden size of each FFN.
        encoding: the choices about the two encoders.
        readout: how the graph's state is made.
        hops: longest path whose bonds are read one by one.
        max_degree: rows of the degree tables; larger degrees share the last.
        max_distance: rows of the distance table; larger distances share the last.
        walk_steps: steps of the random-walk encoding, 0 = none.
    """

    def __init__(
        self,
        *,
        atom_codes: int,
        bond_codes: int,
        targets: int,
        channels: int = 80,
        heads: int = 8,
        layers: int = 12,
        ffn_channels: int = 80,
        encoding: DualEncoding,
        readout: Readout = "virtual",
        hops: int = 40,
        max_degree: int = 64,
        max_distance: int = 40,
        walk_steps: int = 0,
    ) -> None:
        super().__init__()
        self.atom = nn.Embedding(atom_codes, channels, padding_idx=0)
        self.degree = DegreeEncoding(channels, max_degree)
        self.walk = RandomWalkEncoding(channels, walk_steps) if walk_steps else None
        self.distance = DistanceBias(heads, max_distance)
        self.path = PathBias(bond_codes, heads, hops)
        self.virtual = nn.Parameter(torch.zeros(channels))
        self.virtual_bias = nn.Parameter(torch.zeros(heads))
        self.input_dropout = nn.Dropout(encoding.dropout)
        self.det = DET(
            [
                encoding.layer(
                    depth, channels, channels // heads, heads, block="pre_norm", ffn_channels=ffn_channels
                )
                for depth in range(layers)
            ],
            operator=encoding.shared_operator(channels),
            norm=nn.LayerNorm(channels),
        )
        self.readout: Readout = readout
        self.out = nn.Linear(channels, targets)
        for module in self.modules():
            if isinstance(module, nn.Linear):  # Graphormer's start: small weights, smaller the deeper
                nn.init.normal_(module.weight, std=0.02 / layers**0.5)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.weight[0].detach())  # row 0 is padding
        nn.init.normal_(self.virtual, std=0.02)

    def forward(self, batch: MoleculeBatch) -> Tensor:
        """Predictions, (batch, targets)."""
        encoded = self.encode(batch, first=1 if self.readout == "virtual" else None)
        state = read_out(encoded.x, batch.mask, self.readout)
        out: Tensor = self.out(state)
        return out

    def encode(self, batch: MoleculeBatch, first: int | None = None) -> Encoded:
        """States of virtual node and atoms, or of the ``first`` only, (batch, 1 + nodes, channels)."""
        atoms = self.atom(batch.atoms).sum(dim=2) + self.degree(batch.degree)
        if self.walk is not None:
            atoms = atoms + self.walk(batch.walk)
        x = torch.cat([self.virtual.expand(len(atoms), 1, -1), atoms], dim=1)
        neighborhood = Dense.from_mask(functional.pad(batch.mask, (1, 0), value=True))
        encoded: Encoded = self.det(
            self.input_dropout(x), neighborhood, self.position_bias(batch), first=first
        )
        return encoded

    def position_bias(self, batch: MoleculeBatch) -> Tensor:
        """Distance and path biases, and the virtual node's, (batch, heads, 1 + nodes, 1 + nodes)."""
        bias = self.distance(batch.distance) + self.path(batch.kinds, batch.paths)
        virtual = self.virtual_bias[:, None, None]
        bias = torch.cat([virtual.expand(*bias.shape[:3], 1), bias], dim=3)
        return torch.cat([virtual.expand(*bias.shape[:2], 1, bias.size(3)), bias], dim=2)
