"""Models of others for molecules: a batch in, one vector of predictions a molecule out."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import (
    DeepGCNLayer,
    GATConv,
    GCNConv,
    GENConv,
    GINEConv,
    GPSConv,
    PNAConv,
    SAGEConv,
    TransformerConv,
)
from torch_geometric.utils import to_dense_adj, to_dense_batch

from detgraph.config.baselines import MoleculeBaseline, MoleculeBaselineName
from detgraph.data.featurizers import Featurizer
from detgraph.nn import MoleculeBatch
from detgraph.nn.heads import read_out
from detgraph.nn.positions import code_offsets

PNA_AGGREGATORS = ["mean", "min", "max", "std"]
PNA_SCALERS = ["identity", "amplification", "attenuation"]


class CodeEmbedding(nn.Module):
    """The sum of an embedding for each column of codes."""

    def __init__(self, sizes: tuple[int, ...], channels: int) -> None:
        super().__init__()
        rows, offset = code_offsets(sizes)
        self.table = nn.Embedding(rows, channels)
        self.register_buffer("offset", offset, persistent=False)
        self.offset: Tensor

    def forward(self, codes: Tensor) -> Tensor:
        """(rows, columns) to (rows, channels)."""
        out: Tensor = self.table(codes + self.offset).sum(dim=1)
        return out


class MoleculeModel(nn.Module, ABC):
    """What all have in common: embedded atoms and bonds, layers, read-out, an MLP that halves twice.

    Args:
        config: which model, and its sizes.
        featurizer: what the codes mean.
        targets: number of predictions.
        degrees: how many training atoms have 0, 1, 2 and so on bonds; a saved model's are with its weights.
    """

    def __init__(
        self, config: MoleculeBaseline, featurizer: Featurizer, targets: int, degrees: Sequence[int] = (0, 1)
    ) -> None:
        super().__init__()
        self.config, self.featurizer, self.degrees = config, featurizer, degrees
        channels = config.channels
        self.atom = CodeEmbedding(featurizer.atom_sizes, channels)
        self.bond = CodeEmbedding(featurizer.bond_sizes, channels)
        kinds = torch.arange(featurizer.bond_kinds).numpy()
        self.register_buffer("columns", torch.from_numpy(featurizer.bond_columns(kinds)), persistent=False)
        self.columns: Tensor
        self.dropout = nn.Dropout(config.dropout)
        self.build()
        self.out = nn.Sequential(
            nn.Linear(channels, channels // 2),
            nn.ReLU(),
            nn.Linear(channels // 2, channels // 4),
            nn.ReLU(),
            nn.Linear(channels // 4, targets),
        )

    @abstractmethod
    def build(self) -> None:
        """Make the layers."""

    @abstractmethod
    def encode(self, x: Tensor, edge_index: Tensor, bonds: Tensor, batch: MoleculeBatch) -> Tensor:
        """Final states of the atoms.

        Args:
            x: (atoms, channels).
            edge_index: (2, bonds · 2) atoms (source, target).
            bonds: (bonds · 2, channels).
            batch: all else that is known.
        """

    def forward(self, batch: MoleculeBatch) -> Tensor:
        """Predictions, (molecules, targets)."""
        # Virtual nodes are left out: an atom's number is that of its node less the virtual ones before it.
        atom_of = torch.empty(int(batch.sizes.sum()), dtype=torch.long, device=batch.node.device)
        atom_of[batch.node] = torch.arange(len(batch.node), device=batch.node.device)
        bonds = self.bond(self.columns[batch.bond_kinds])
        x = self.encode(self.dropout(self.atom(batch.atoms)), atom_of[batch.bonds], bonds, batch)
        out: Tensor = self.out(read_out(x, batch.molecule, len(batch.sizes), self.config.readout))
        return out


class Residual(MoleculeModel):
    """Convolution, batch norm, ReLU and a residual connection, layer after layer."""

    def build(self) -> None:
        """As many convolutions as layers."""
        self.convs = nn.ModuleList(self.convolution() for _ in range(self.config.layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(self.config.channels) for _ in range(self.config.layers))

    @abstractmethod
    def convolution(self) -> Any:
        """One of them."""

    def convolve(self, conv: nn.Module, x: Tensor, edge_index: Tensor, bonds: Tensor) -> Tensor:
        """Apply one of them; this kind does not look at bonds."""
        out: Tensor = conv(x, edge_index)
        return out

    def encode(self, x: Tensor, edge_index: Tensor, bonds: Tensor, batch: MoleculeBatch) -> Tensor:
        """Layer after layer."""
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + self.dropout(functional.relu(norm(self.convolve(conv, x, edge_index, bonds))))
        return x


class GCN(Residual):
    """Graph convolutions."""

    def convolution(self) -> Any:
        """Kipf and Welling's."""
        return GCNConv(self.config.channels, self.config.channels)


class SAGE(Residual):
    """GraphSAGE with the maximum of the neighbours."""

    def convolution(self) -> Any:
        """With a projection before the maximum."""
        return SAGEConv(self.config.channels, self.config.channels, aggr="max", project=True)


class GAT(Residual):
    """Attention over connected atoms, heads side by side."""

    def convolution(self) -> Any:
        """Velickovic's."""
        channels, heads = self.config.channels, self.config.heads
        return GATConv(channels, channels // heads, heads)


class GINE(Residual):
    """Isomorphism network whose messages read bonds."""

    def convolution(self) -> Any:
        """With an MLP of two layers."""
        return GINEConv(two_layers(self.config.channels), train_eps=True)

    def convolve(self, conv: nn.Module, x: Tensor, edge_index: Tensor, bonds: Tensor) -> Tensor:
        """Reads bonds."""
        out: Tensor = conv(x, edge_index, bonds)
        return out


class PNA(GINE):
    """Several aggregators, and scalers that know how many bonds a training atom has on average."""

    def convolution(self) -> Any:
        """One tower."""
        channels = self.config.channels
        degrees = torch.tensor(self.degrees)
        return PNAConv(channels, channels, PNA_AGGREGATORS, PNA_SCALERS, degrees, edge_dim=channels, towers=1)


class DeeperGCN(MoleculeModel):
    """Generalised aggregation in pre-activated residual layers."""

    def build(self) -> None:
        """Norm, ReLU, dropout, convolution, residual."""
        channels = self.config.channels
        self.layers = nn.ModuleList(
            DeepGCNLayer(
                GENConv(channels, channels, aggr="softmax", t=1.0, learn_t=True, num_layers=2, norm="batch"),
                nn.BatchNorm1d(channels),
                nn.ReLU(),
                block="res+",
                dropout=self.config.dropout,
            )
            for _ in range(self.config.layers)
        )

    def encode(self, x: Tensor, edge_index: Tensor, bonds: Tensor, batch: MoleculeBatch) -> Tensor:
        """Layer after layer."""
        for layer in self.layers:
            x = layer(x, edge_index, bonds)
        return x


class TransformerBlock(nn.Module):
    """Attention and a feed-forward network, each with a residual connection and batch norm."""

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.first, self.second = nn.BatchNorm1d(channels), nn.BatchNorm1d(channels)
        self.feed = nn.Sequential(
            nn.Linear(channels, 2 * channels),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(2 * channels, channels),
        )

    def forward(self, x: Tensor, attended: Tensor) -> Tensor:
        """The block's output from its input and what attention made of that."""
        x = self.first(x + attended)
        out: Tensor = self.second(x + self.feed(x))
        return out


class GT(MoleculeModel):
    """Dwivedi and Bresson's graph Transformer: attention over connected atoms, Laplacian eigenvectors."""

    def build(self) -> None:
        """Attention that reads bonds, and blocks."""
        channels, heads = self.config.channels, self.config.heads
        self.position = nn.Linear(self.config.eigenvectors, channels)
        self.attentions = nn.ModuleList(
            TransformerConv(channels, channels // heads, heads, edge_dim=channels, root_weight=False)
            for _ in range(self.config.layers)
        )
        self.blocks = nn.ModuleList(
            TransformerBlock(channels, self.config.dropout) for _ in range(self.config.layers)
        )

    def encode(self, x: Tensor, edge_index: Tensor, bonds: Tensor, batch: MoleculeBatch) -> Tensor:
        """Layer after layer."""
        x = x + self.position(self.eigenvectors(edge_index, batch))
        for attention, block in zip(self.attentions, self.blocks, strict=True):
            x = block(x, attention(x, edge_index, bonds))
        return x

    def eigenvectors(self, edge_index: Tensor, batch: MoleculeBatch) -> Tensor:
        """Those of the lowest eigenvalues of the normalised Laplacian, signs random in training."""
        vectors, exists = laplacian(edge_index, batch)
        count = self.config.eigenvectors
        chosen = functional.pad(vectors[:, :, 1 : 1 + count], (0, max(0, count + 1 - vectors.size(2))))
        if self.training:
            chosen = chosen * (2 * torch.randint(2, (len(chosen), 1, count), device=chosen.device) - 1)
        return chosen[exists]


class SAN(GT):
    """Attention over all atoms, with keys of its own for pairs that are not connected.

    Kreuzer and others'; weights of connected pairs have the share 1/(1 + γ), those of others γ/(1 + γ).
    """

    gamma = 1e-5

    def build(self) -> None:
        """Projections for connected and for other pairs."""
        super().build()
        channels, layers = self.config.channels, self.config.layers
        self.attentions = nn.ModuleList()
        self.projections = nn.ModuleList(nn.Linear(channels, 5 * channels) for _ in range(layers))
        self.outputs = nn.ModuleList(nn.Linear(channels, channels) for _ in range(layers))
        self.pair_bonds = nn.ModuleList(nn.Linear(channels, channels) for _ in range(layers))

    def encode(self, x: Tensor, edge_index: Tensor, bonds: Tensor, batch: MoleculeBatch) -> Tensor:
        """Layer after layer, on padded molecules."""
        x = x + self.position(self.eigenvectors(edge_index, batch))
        connected = to_dense_adj(edge_index, batch.molecule, edge_attr=torch.ones_like(bonds[:, 0])) > 0
        between = to_dense_adj(edge_index, batch.molecule, edge_attr=bonds)  # (batch, atoms, atoms, channels)
        layers = zip(self.projections, self.pair_bonds, self.outputs, self.blocks, strict=True)
        for project, pair_bond, output, block in layers:
            padded, exists = to_dense_batch(project(x), batch.molecule)
            heads = padded.view(*padded.shape[:2], 5, self.config.heads, -1)
            query, key, value, other_query, other_key = heads.unbind(dim=2)  # (batch, atoms, heads, size)
            bias = pair_bond(between).view(*between.shape[:3], self.config.heads, -1)
            scale = query.size(-1) ** -0.5
            near = torch.einsum("bihc,bjhc,bijhc->bhij", query, key, 1 + bias) * scale
            far = torch.einsum("bihc,bjhc->bhij", other_query, other_key) * scale
            is_near, is_other = connected[:, None], (~connected & exists[:, None, :])[:, None]
            weights = masked_softmax(near, is_near) / (1 + self.gamma)
            weights = weights + masked_softmax(far, is_other) * self.gamma / (1 + self.gamma)
            attended = torch.einsum("bhij,bjhc->bihc", weights, value).flatten(2)[exists]
            x = block(x, output(attended))
        return x


class GPS(MoleculeModel):
    """GINE and attention over all atoms, side by side; random walks as positions."""

    def build(self) -> None:
        """As in PyG's example on ZINC."""
        channels, steps = self.config.channels, self.config.walk_steps
        self.position = nn.Sequential(nn.BatchNorm1d(steps), nn.Linear(steps, channels))
        self.layers = nn.ModuleList(
            GPSConv(
                channels,
                GINEConv(two_layers(channels)),
                heads=self.config.heads,
                dropout=self.config.dropout,
                attn_kwargs={"dropout": self.config.attention_dropout},
            )
            for _ in range(self.config.layers)
        )

    def encode(self, x: Tensor, edge_index: Tensor, bonds: Tensor, batch: MoleculeBatch) -> Tensor:
        """Layer after layer."""
        x = x + self.position(batch.walks[batch.path_self])
        for layer in self.layers:
            x = layer(x, edge_index, batch.molecule, edge_attr=bonds)
        return x


def two_layers(channels: int) -> nn.Sequential:
    """The MLP of a GINE convolution."""
    return nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, channels))


def laplacian(edge_index: Tensor, batch: MoleculeBatch) -> tuple[Tensor, Tensor]:
    """Eigenvectors of each molecule's normalised Laplacian, lowest eigenvalue first; which atoms exist."""
    adjacency = to_dense_adj(edge_index, batch.molecule)
    exists = to_dense_batch(batch.molecule, batch.molecule)[1]
    degree = adjacency.sum(dim=2)
    scale = degree.clamp(min=1).rsqrt()
    matrix = torch.diag_embed((degree > 0).float()) - scale[:, :, None] * adjacency * scale[:, None, :]
    # One by one: signs, and bases of equal eigenvalues, must not depend on the padding.
    vectors = torch.zeros_like(matrix)
    for molecule, atoms in enumerate(exists.sum(dim=1).tolist()):
        own = slice(0, atoms)
        vectors[molecule, own, own] = torch.linalg.eigh(matrix[molecule, own, own]).eigenvectors
    return vectors, exists


def masked_softmax(scores: Tensor, members: Tensor) -> Tensor:
    """Softmax over the last dimension, 0 for those that are no members."""
    weights = scores.masked_fill(~members, torch.finfo(scores.dtype).min).softmax(dim=-1)
    return weights.masked_fill(~members, 0.0)


MODELS: dict[MoleculeBaselineName, type[MoleculeModel]] = {
    "gcn": GCN,
    "sage": SAGE,
    "gin": GINE,
    "gat": GAT,
    "pna": PNA,
    "gt": GT,
    "san": SAN,
    "deepergcn": DeeperGCN,
    "gps": GPS,
}


def build_molecule_model(
    config: MoleculeBaseline, featurizer: Featurizer, targets: int, degrees: Sequence[int] = (0, 1)
) -> MoleculeModel:
    """The model that ``config`` names."""
    return MODELS[config.name](config, featurizer, targets, degrees)
