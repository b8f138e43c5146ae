"""Models of others for networks: features and edges in, one vector of logits a node out."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import APPNP, GATConv, GCNConv, GPSConv, SAGEConv, SuperGATConv
from torch_geometric.nn.attention import SGFormerAttention

from detgraph.baselines.adjacency import normalized_adjacency, spread, spread_by_product
from detgraph.baselines.inputs import InputLinear
from detgraph.config.baselines import NetworkBaseline, NetworkBaselineName
from detgraph.kernels.dropout import Dropout, drop
from detgraph.nn import Sparse


class NetworkModel(nn.Module, ABC):
    """What all have in common.

    Args:
        config: sizes.
        features: number of input features.
        classes: number of logits.
    """

    def __init__(self, config: NetworkBaseline, *, features: int, classes: int) -> None:
        super().__init__()
        self.config = config
        self.dropout = Dropout(config.dropout)
        self.build(features, classes)

    @abstractmethod
    def build(self, features: int, classes: int) -> None:
        """Make the layers."""

    @abstractmethod
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits (nodes, classes); ``x`` is (nodes, features), dense or sparse CSR."""

    def auxiliary_losses(self) -> dict[str, Tensor]:
        """What else is minimised, already weighted; to be called after `forward`."""
        return {}


class GCN(NetworkModel):
    """Graph convolutions with ReLU between."""

    def build(self, features: int, classes: int) -> None:
        """Features → channels → … → classes."""
        hidden = [self.config.channels] * (self.config.layers - 1)
        convs = [GCNConv(i, o) for i, o in zip([features, *hidden], [*hidden, classes], strict=True)]
        take_features(convs[0], self.config.dropout)
        self.convs = nn.ModuleList(spread_by_product(conv) for conv in convs)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits (nodes, classes)."""
        adjacency = normalized_adjacency(edge_index, x.size(0))
        h: Tensor = self.convs[0](x, adjacency)
        for conv in self.convs[1:]:
            h = conv(self.dropout(h.relu()), adjacency)
        return h


class SAGE(NetworkModel):
    """GraphSAGE with the mean of neighbours.

    The mean of mapped features is the mapped mean of features, so the first layer maps first: its
    messages have the size of hidden states.
    """

    def build(self, features: int, classes: int) -> None:
        """Features → channels → … → classes."""
        hidden = [self.config.channels] * (self.config.layers - 1)
        sizes = [*hidden, classes]
        self.into = InputLinear(features, 2 * sizes[0], dropout=self.config.dropout, bias=False)
        self.bias = nn.Parameter(torch.zeros(sizes[0]))
        first = SAGEConv(sizes[0], sizes[0])
        first.lin_l = first.lin_r = nn.Identity()
        convs = [first, *(SAGEConv(i, o) for i, o in pairwise(sizes))]
        self.convs = nn.ModuleList(convs)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits (nodes, classes)."""
        near, own = self.into(x).chunk(2, dim=1)
        h: Tensor = self.convs[0]((near, own + self.bias), edge_index)
        for conv in self.convs[1:]:
            h = conv(self.dropout(h.relu()), edge_index)
        return h


class GAT(NetworkModel):
    """Attention over neighbours, with ELU between layers; the last layer's heads are averaged."""

    def build(self, features: int, classes: int) -> None:
        """Features → heads * channels → … → classes."""
        config = self.config
        inner = [config.heads * config.channels] * (config.layers - 1)
        convs = [self.conv(size, config.channels, config.heads) for size in [features, *inner][:-1]]
        convs.append(self.conv([features, *inner][-1], classes, config.output_heads, concat=False))
        take_features(convs[0], config.dropout)
        self.convs = nn.ModuleList(convs)

    def conv(self, in_channels: int, out_channels: int, heads: int, concat: bool = True) -> Any:
        """One layer."""
        return GATConv(in_channels, out_channels, heads, concat=concat, dropout=self.config.dropout)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits (nodes, classes)."""
        h: Tensor = self.convs[0](x, edge_index)
        for conv in self.convs[1:]:
            h = conv(self.dropout(functional.elu(h)), edge_index)
        return h


class SupervisedAttention(SuperGATConv):
    """PyG's layer on pairs that are indexed once: the same numbers in a fraction of the time."""

    def forward(self, x: Tensor, near: Sparse, unconnected: Sparse | None = None) -> Tensor:
        """States (nodes, heads * channels), or their mean over heads.

        Args:
            x: (nodes, features).
            near: nodes and those connected to them.
            unconnected: in training, other pairs to tell those from.
        """
        x = self.lin(x).view(-1, self.heads, self.out_channels)
        scores = logits = self.logits(x, near)
        if self.attention_type == "MX":
            own, other = (x * self.att_r).sum(dim=-1), (x * self.att_l).sum(dim=-1)  # (nodes, heads)
            scores = near.outer_sum(own, other) * logits.sigmoid()
        weights = near.softmax(functional.leaky_relu(scores, self.negative_slope), near.structural)
        out = near.aggregate(drop(weights, self.dropout) if self.training else weights, x)
        if unconnected is not None:
            positive = logits[torch.rand(len(logits), device=x.device) < self.edge_sample_ratio]
            negative = self.logits(x, unconnected)
            self.att_x = torch.cat([positive, negative])
            self.att_y = torch.cat([torch.ones(len(positive)), torch.zeros(len(negative))]).to(x)
        out = out.flatten(1) if self.concat else out.mean(dim=1)
        states: Tensor = out + self.bias
        return states

    def logits(self, x: Tensor, pairs: Sparse) -> Tensor:
        """How much each pair looks like an edge, (pairs, heads)."""
        return pairs.dot(x, x) * (self.out_channels**-0.5 if self.attention_type == "SD" else 1.0)


class SuperGAT(GAT):
    """Attention that also learns to tell edges from unconnected pairs."""

    def conv(self, in_channels: int, out_channels: int, heads: int, concat: bool = True) -> Any:
        """One layer."""
        return SupervisedAttention(
            in_channels,
            out_channels,
            heads,
            concat=concat,
            dropout=self.config.dropout,
            attention_type=self.config.name.removeprefix("supergat-").upper(),
            edge_sample_ratio=self.config.edge_sample,
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits (nodes, classes)."""
        near = Sparse.from_edges(edge_index, x.size(0))
        h = x
        for depth, conv in enumerate(self.convs):
            h = conv(
                self.dropout(functional.elu(h)) if depth else h,
                near,
                self.unconnected(near) if self.training else None,
            )
        return h

    def unconnected(self, near: Sparse) -> Sparse:
        """Random pairs without edge; fewer where chance hits an edge or a node itself."""
        nodes = near.num_nodes
        count = int(self.config.negative_ratio * self.config.edge_sample * len(near.target))
        target, source = torch.randint(nodes, (2, count), device=near.target.device)
        far = ~near.connected(target, source)
        target, order = target[far].sort()
        return Sparse.from_pairs(target, source[far][order], nodes)

    def auxiliary_losses(self) -> dict[str, Tensor]:
        """``attention``: cross-entropy of the mean scores of edges and unconnected pairs, of all layers."""
        convs: Iterable[Any] = self.convs
        losses = [conv.get_attention_loss() for conv in convs]
        return {"attention": self.config.attention_weight * torch.stack(losses).sum()}


class GCNII(NetworkModel):
    r"""Many convolutions, each with a share of the initial state and weights near the identity.

    .. math:: h_l = \mathrm{relu}(((1-\alpha) A h_{l-1} + \alpha h_0)((1-\beta_l) I + \beta_l W_l))

    with :math:`\beta_l = \ln(\theta / l + 1)`: one sparse and one dense product a layer.
    """

    def build(self, features: int, classes: int) -> None:
        """Features → channels, layers of the same size, channels → classes."""
        config, size = self.config, self.config.channels
        self.into = InputLinear(features, size, dropout=config.dropout)
        self.out = nn.Linear(size, classes)
        weights = (nn.Parameter(torch.empty(size, size)) for _ in range(config.layers))
        self.inner = nn.ParameterList(nn.init.xavier_uniform_(weight) for weight in weights)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits (nodes, classes)."""
        alpha, theta = self.config.alpha, self.config.theta
        adjacency = (1 - alpha) * normalized_adjacency(edge_index, x.size(0))
        h = self.into(x).relu()
        initial, identity = alpha * h, torch.eye(h.size(1), device=h.device)
        for depth, weight in enumerate(self.inner, start=1):
            near_identity = torch.lerp(identity, weight, math.log(theta / depth + 1))
            h = ((spread(adjacency, self.dropout(h)) + initial) @ near_identity).relu_()
        logits: Tensor = self.out(self.dropout(h))
        return logits

    def auxiliary_losses(self) -> dict[str, Tensor]:
        """``decay``: of the convolutions, which the authors regularise more."""
        return inner_decay(self.inner, self.config.inner_decay)


class APPNPNet(NetworkModel):
    """A perceptron whose predictions spread by personalised PageRank."""

    def build(self, features: int, classes: int) -> None:
        """Features → channels → classes, then propagation."""
        config = self.config
        self.into = InputLinear(features, config.channels, dropout=config.dropout)
        self.out = nn.Linear(config.channels, classes)
        self.spread = spread_by_product(APPNP(config.steps, config.alpha))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits (nodes, classes)."""
        h = self.out(self.dropout(self.into(x).relu()))
        logits: Tensor = self.spread(h, normalized_adjacency(edge_index, x.size(0)))
        return logits


class GPS(NetworkModel):
    """Graph convolution beside linear (Performer's) attention of all pairs."""

    def build(self, features: int, classes: int) -> None:
        """Features → channels, layers of the same size, channels → classes."""
        config = self.config
        self.into = InputLinear(features, config.channels, dropout=config.dropout)
        self.out = nn.Linear(config.channels, classes)
        self.layers = nn.ModuleList(
            GPSConv(
                config.channels,
                spread_by_product(GCNConv(config.channels, config.channels)),
                heads=config.heads,
                dropout=config.dropout,
                # A batch is the whole graph, so its own statistics are exact, in evaluation as well.
                norm_kwargs={"track_running_stats": False},
                attn_type="performer",
                attn_kwargs={
                    "head_channels": config.channels // config.heads,
                    "dropout": config.attention_dropout,
                },
            )
            for _ in range(config.layers)
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits (nodes, classes)."""
        adjacency = normalized_adjacency(edge_index, x.size(0))
        h = self.into(x)
        for layer in self.layers:
            h = layer(h, adjacency)
        logits: Tensor = self.out(self.dropout(h))
        return logits


class SGFormer(NetworkModel):
    """One layer of linear attention of all pairs, mixed with graph convolutions."""

    def build(self, features: int, classes: int) -> None:
        """Features → channels twice, then channels → classes."""
        config, size = self.config, self.config.channels
        self.graph = GCN(config, features=features, classes=size)
        self.attention = nn.Sequential(
            InputLinear(features, size, dropout=config.dropout),
            nn.ReLU(),
            nn.Dropout(config.attention_dropout),
            nn.Unflatten(0, (1, -1)),  # PyG's attention wants a batch of graphs
            SGFormerAttention(size, heads=1, head_channels=size),
            nn.Flatten(0, 1),
            nn.Dropout(config.attention_dropout),
        )
        self.out = nn.Linear(size, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits (nodes, classes)."""
        share = self.config.graph_weight
        logits: Tensor = self.out(share * self.graph(x, edge_index) + (1 - share) * self.attention(x))
        return logits

    def auxiliary_losses(self) -> dict[str, Tensor]:
        """``decay``: of the attention half, which the authors regularise by itself."""
        return inner_decay(self.attention, self.config.inner_decay)


MODELS: dict[NetworkBaselineName, type[NetworkModel]] = {
    "gcn": GCN,
    "sage": SAGE,
    "gat": GAT,
    "supergat-sd": SuperGAT,
    "supergat-mx": SuperGAT,
    "gcnii": GCNII,
    "appnp": APPNPNet,
    "gps": GPS,
    "sgformer": SGFormer,
}


def build_network_model(config: NetworkBaseline, *, features: int, classes: int) -> NetworkModel:
    """The model that ``config`` names."""
    return MODELS[config.name](config, features=features, classes=classes)


def take_features(conv: Any, dropout: float) -> None:
    """Let one of PyG's convolutions drop and map features, sparse ones too; its weights stay as they are."""
    weight = conv.lin.weight
    conv.lin = InputLinear(weight.size(1), weight.size(0), dropout=dropout, bias=False)
    conv.lin.weight = weight


def inner_decay(module: nn.Module, weight: float) -> dict[str, Tensor]:
    """Half the squared norm of all weights: its gradient is that of a weight decay."""
    if weight == 0:
        return {}
    return {"decay": 0.5 * weight * torch.stack([p.square().sum() for p in module.parameters()]).sum()}
