"""DET on molecules: whole graphs with Graphormer's structural encoder."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from detgraph.kernels.choice import fused_on
from detgraph.kernels.dropout import Dropout
from detgraph.nn.heads import Readout, read_out
from detgraph.nn.messages import BondMessages
from detgraph.nn.model import DET, DualEncoding
from detgraph.nn.molecule_batch import MoleculeBatch
from detgraph.nn.neighborhood import Blocks
from detgraph.nn.padding import Padding
from detgraph.nn.positions import DegreeEncoding, PathBias, WalkBias, code_offsets


class MoleculeDET(nn.Module):
    """Atoms → DET → one vector of predictions a molecule.

    Args:
        atom_sizes: codes of each column of an atom.
        bond_sizes: codes of each column of a bond.
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
        walk_steps: steps of random walks, added to each atom's input (the chance to be back); 0 = none.
        walk_bias: whether walks between two atoms also bias their attention.
        rings: codes of the rings that bonds are in, added to the bonds' atoms and messages; 0 = not read.
        messages: whether each layer first passes messages along bonds.
        column_codes: rows that the tables keep for each column of codes, if not as many as it has.
    """

    def __init__(
        self,
        *,
        atom_sizes: Sequence[int],
        bond_sizes: Sequence[int],
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
        walk_bias: bool = False,
        rings: int = 0,
        messages: bool = False,
        column_codes: int | None = None,
    ) -> None:
        super().__init__()
        rows, offset = code_offsets(atom_sizes, column_codes)
        self.atom = nn.Embedding(rows, channels, padding_idx=0)
        self.register_buffer("atom_offset", offset, persistent=False)
        self.atom_offset: Tensor
        self.degree = DegreeEncoding(channels, max_degree)
        self.walk = nn.Linear(walk_steps, channels) if walk_steps else None
        self.walk_bias = WalkBias(walk_steps, heads) if walk_steps and walk_bias else None
        self.ring = nn.Embedding(rings, channels) if rings else None
        self.position = PathBias(bond_sizes, heads, hops, max_distance, column_codes)
        self.virtual = nn.Parameter(torch.zeros(channels))
        self.input_dropout = Dropout(encoding.dropout)
        self.messages = nn.ModuleList(
            BondMessages(channels, self.position.bond.num_embeddings, rings)
            for _ in range(layers if messages else 0)
        )
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
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.weight[0].detach())  # row 0 is not used
        nn.init.normal_(self.virtual, std=0.02)

    def forward(self, batch: MoleculeBatch) -> Tensor:
        """Predictions, (molecules, targets)."""
        x = self.encode(batch)
        if self.readout == "virtual":
            state = x[batch.sizes.cumsum(0) - batch.sizes]
        else:
            state = read_out(x[batch.node], batch.molecule, len(batch.sizes), self.readout)
        out: Tensor = self.out(state)
        return out

    def encode(self, batch: MoleculeBatch) -> Tensor:
        """Final states of virtual nodes and atoms, (nodes, channels)."""
        atoms = self.atom(batch.atoms + self.atom_offset).sum(dim=1) + self.degree(batch.degree)
        if self.walk is not None:
            atoms = atoms + self.walk(batch.walks[batch.path_self])
        nodes = len(batch.node) + len(batch.sizes)
        x = self.virtual.expand(nodes, -1).index_copy(0, batch.node, atoms)
        if self.ring is not None:
            x = x.index_add(0, batch.bonds[1], self.ring(batch.bond_rings))
        x = self.input_dropout(x)
        blocks, bias = Blocks(batch.sizes), self.pair_bias(batch)
        if fused_on(x):
            encoded: Tensor = self.det(x, blocks, bias, local=self.local(batch, batch.bonds)).x
            return encoded
        padding = Padding(blocks)
        local = self.local(batch, padding.place[batch.bonds])
        padded: Tensor = self.det(
            padding.states(x), padding.neighborhood, padding.scores(bias), local=local
        ).x
        return padding.flatten(padded)

    def pair_bias(self, batch: MoleculeBatch) -> Tensor:
        """What positions add to the structural scores, (pairs, heads)."""
        bias: Tensor = self.position(batch.paths, int((batch.sizes**2).sum()))
        return bias if self.walk_bias is None else self.walk_bias(bias, batch.walks, batch.path_pair)

    def local(self, batch: MoleculeBatch, bonds: Tensor) -> Callable[[int, Tensor], Tensor] | None:
        """The messages of each layer; ``bonds`` are numbers of nodes in the batch, padded or not."""
        if not len(self.messages):
            return None
        codes = self.position.codes[batch.bond_kinds]
        if self.ring is not None:
            codes = torch.cat([codes, batch.bond_rings[:, None] + self.position.bond.num_embeddings], dim=1)

        def pass_messages(depth: int, x: Tensor) -> Tensor:
            update: Tensor = self.messages[depth](x.reshape(-1, x.size(-1)), bonds, codes)
            return update.view_as(x)

        return pass_messages
