"""Models of others for molecules: a batch in, one vector of predictions a molecule out."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

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
)
from torch_geometric.utils import scatter, softmax, to_dense_adj, to_dense_batch

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

    reads_bonds: ClassVar[bool] = True

    def __init__(
        self, config: MoleculeBaseline, featurizer: Featurizer, targets: int, degrees: Sequence[int] = (0, 1)
    ) -> None:
        super().__init__()
        self.config, self.featurizer, self.degrees = config, featurizer, degrees
        channels = config.channels
        self.atom = CodeEmbedding(featurizer.atom_sizes, channels)
        if self.reads_bonds:
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
    def encode(self, x: Tensor, edge_index: Tensor, batch: MoleculeBatch) -> Tensor:
        """Final states of the atoms.

        Args:
            x: (atoms, channels).
            edge_index: (2, bonds · 2) atoms (source, target).
            batch: all else that is known.
        """

    def bonds(self, batch: MoleculeBatch) -> Tensor:
        """Embedded bonds, (bonds · 2, channels)."""
        out: Tensor = self.bond(self.columns[batch.bond_kinds])
        return out

    def forward(self, batch: MoleculeBatch) -> Tensor:
        """Predictions, (molecules, targets)."""
        # Virtual nodes are left out: an atom's number is that of its node less the virtual ones before it.
        atom_of = torch.empty(int(batch.sizes.sum()), dtype=torch.long, device=batch.node.device)
        atom_of[batch.node] = torch.arange(len(batch.node), device=batch.node.device)
        x = self.encode(self.dropout(self.atom(batch.atoms)), atom_of[batch.bonds], batch)
        out: Tensor = self.out(read_out(x, batch.molecule, len(batch.sizes), self.config.readout))
        return out


class Residual(MoleculeModel):
    """Convolution, batch norm, ReLU and a residual connection, layer after layer."""

    reads_bonds = False

    def build(self) -> None:
        """As many convolutions as layers."""
        self.convs = nn.ModuleList(self.convolution() for _ in range(self.config.layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(self.config.channels) for _ in range(self.config.layers))

    @abstractmethod
    def convolution(self) -> Any:
        """One of them."""

    def encode(self, x: Tensor, edge_index: Tensor, batch: MoleculeBatch) -> Tensor:
        """Layer after layer."""
        given = (edge_index, self.bonds(batch)) if self.reads_bonds else (edge_index,)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + self.dropout(functional.relu(norm(conv(x, *given))))
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

    reads_bonds = True

    def convolution(self) -> Any:
        """With an MLP of two layers."""
        return GINEConv(two_layers(self.config.channels), train_eps=True)


class PNA(Residual):
    """Several aggregators, and scalers that know how many bonds a training atom has on average."""

    reads_bonds = True

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

    def encode(self, x: Tensor, edge_index: Tensor, batch: MoleculeBatch) -> Tensor:
        """A convolution, then layers; the first one's norm and ReLU, which it does not need, come last."""
        first, *others = self.layers
        assert isinstance(first, DeepGCNLayer)
        bonds = self.bonds(batch)
        x = first.conv(x, edge_index, bonds)
        for layer in others:
            x = layer(x, edge_index, bonds)
        out: Tensor = self.dropout(first.act(first.norm(x)))
        return out


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


class BondAttention(nn.Module):
    r"""Attention over connected atoms whose scores are weighed, channel by channel, by their bond.

    .. math:: p_{ij} = q_i \odot k_j \odot W_e e_{ij} / \sqrt{d},\ w_{ij} = \mathrm{softmax}_j(1^T p_{ij})

    What comes out for atoms is :math:`\sum_j w_{ij} v_j`, for bonds :math:`p_{ij}`, both projected.
    """

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(channels, 3 * channels, bias=False)
        self.bond = nn.Linear(channels, channels, bias=False)
        self.out, self.bond_out = nn.Linear(channels, channels), nn.Linear(channels, channels)

    def forward(self, x: Tensor, edge_index: Tensor, bonds: Tensor) -> tuple[Tensor, Tensor]:
        """For atoms (atoms, channels) and bonds (bonds · 2, channels)."""
        source, target = edge_index
        query, key, value = self.project(x).view(len(x), 3, self.heads, -1).unbind(dim=1)
        bond = self.bond(bonds).unflatten(1, (self.heads, -1)) * query.size(-1) ** -0.5
        product = query[target] * key[source] * bond  # (bonds · 2, heads, size)
        weights = softmax(product.sum(dim=-1).clamp(-5, 5), target, num_nodes=len(x))
        attended = scatter(weights[:, :, None] * value[source], target, dim_size=len(x))
        return self.out(attended.flatten(1)), self.bond_out(product.flatten(1))


class GT(MoleculeModel):
    """Dwivedi and Bresson's graph Transformer: atoms and bonds, Laplacian eigenvectors as positions."""

    def build(self) -> None:
        """Attention over connected atoms, and blocks of atoms and of bonds."""
        config, channels, layers = self.config, self.config.channels, range(self.config.layers)
        self.position = nn.Linear(config.eigenvectors, channels)
        self.attentions = nn.ModuleList(BondAttention(channels, config.heads) for _ in layers)
        self.blocks = nn.ModuleList(TransformerBlock(channels, config.dropout) for _ in layers)
        self.bond_blocks = nn.ModuleList(TransformerBlock(channels, config.dropout) for _ in layers)

    def encode(self, x: Tensor, edge_index: Tensor, batch: MoleculeBatch) -> Tensor:
        """Layer after layer."""
        x, bonds = x + self.position(self.eigenvectors(edge_index, batch)), self.bonds(batch)
        for attention, block, bond_block in zip(self.attentions, self.blocks, self.bond_blocks, strict=True):
            attended, product = attention(x, edge_index, bonds)
            x, bonds = block(x, attended), bond_block(bonds, product)
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
        config, channels, layers = self.config, self.config.channels, range(self.config.layers)
        self.position = nn.Linear(config.eigenvectors, channels)
        self.projections = nn.ModuleList(nn.Linear(channels, 5 * channels) for _ in layers)
        self.outputs = nn.ModuleList(nn.Linear(channels, channels) for _ in layers)
        self.pair_bonds = nn.ModuleList(nn.Linear(channels, channels) for _ in layers)
        self.blocks = nn.ModuleList(TransformerBlock(channels, config.dropout) for _ in layers)

    def encode(self, x: Tensor, edge_index: Tensor, batch: MoleculeBatch) -> Tensor:
        """Layer after layer, on padded molecules."""
        x, bonds = x + self.position(self.eigenvectors(edge_index, batch)), self.bonds(batch)
        connected = to_dense_adj(edge_index, batch.molecule) > 0  # (batch, atoms, atoms)
        source, target = edge_index
        first = torch.searchsorted(batch.molecule, batch.molecule)  # (atoms,) of the same molecule
        at = (batch.molecule[target], target - first[target], source - first[source])
        layers = zip(self.projections, self.pair_bonds, self.outputs, self.blocks, strict=True)
        for project, pair_bond, output, block in layers:
            projected = project(x).view(len(x), 5, self.config.heads, -1)
            query, key = projected[target, 0], projected[source, 1]  # (bonds · 2, heads, size)
            scale = query.size(-1) ** -0.5
            product = query * key * (1 + pair_bond(bonds).view_as(query))
            padded, exists = to_dense_batch(projected[:, 2:], batch.molecule)
            value, other_query, other_key = padded.unbind(dim=2)  # (batch, atoms, heads, size)
            far = torch.einsum("bihc,bjhc->bhij", other_query, other_key) * scale
            near = far.new_zeros((*connected.shape, far.size(1))).index_put(at, product.sum(dim=-1) * scale)
            is_near, is_other = connected[:, None], (~connected & exists[:, None, :])[:, None]
            weights = masked_softmax(near.permute(0, 3, 1, 2), is_near) / (1 + self.gamma)
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

    def encode(self, x: Tensor, edge_index: Tensor, batch: MoleculeBatch) -> Tensor:
        """Layer after layer."""
        x, bonds = x + self.position(batch.walks[batch.path_self]), self.bonds(batch)
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
