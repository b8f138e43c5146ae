"""DET on networks: one graph of any size, sparse, in GAT style."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from detgraph.kernels import fused_on
from detgraph.kernels.neighbor_loss import fused_neighbor_loss
from detgraph.kernels.semantic import FORMS
from detgraph.nn.layer import DualEncoderLayer
from detgraph.nn.model import DET, DualEncoding, Encoded
from detgraph.nn.neighborhood import Sparse
from detgraph.nn.semantic import LossForm, SemanticOperator, neighbor_loss


class NetworkDET(nn.Module):
    """Node features → DET → one vector of logits a node.

    Args:
        features: number of input features; with ``num_nodes`` given, size of a learned table instead.
        classes: number of logits.
        head_channels: size of each hidden head.
        heads: attention heads, also of the last layer, whose heads are averaged.
        layers: number of layers.
        encoding: the choices about the two encoders.
        num_nodes: learn an input state for each node (a network without features).
    """

    def __init__(
        self,
        *,
        features: int,
        classes: int,
        head_channels: int = 8,
        heads: int = 8,
        layers: int = 2,
        encoding: DualEncoding,
        num_nodes: int | None = None,
    ) -> None:
        super().__init__()
        if encoding.share_layers:
            raise ValueError(
                "layers of a network differ in size and cannot share ⊖: share_layers must be False"
            )
        self.table = None if num_nodes is None else nn.Embedding(num_nodes, features)
        sizes = [features] + [heads * head_channels] * (layers - 1)
        self.det = DET(
            [
                encoding.layer(
                    depth,
                    size,
                    head_channels if depth < layers - 1 else classes,
                    heads,
                    block="plain",
                    concat=depth < layers - 1,
                )
                for depth, size in enumerate(sizes)
            ],
            between=nn.ELU(),
        )

    def forward(self, x: Tensor | None, neighborhood: Sparse) -> Encoded:
        """Logits (nodes, classes) and all layers' outputs; ``x`` as `inputs` takes it."""
        encoded: Encoded = self.det(self.inputs(x), neighborhood)
        return encoded

    def inputs(self, x: Tensor | None) -> Tensor:
        """Features (nodes, features), dense or sparse; of a learned table, rows ``x`` or all."""
        if self.table is not None:
            return self.table.weight if x is None else self.table.weight.index_select(0, x)
        if x is None:
            raise ValueError("the model was built for node features, but x is None")
        return x

    @property
    def operators(self) -> list[tuple[int, SemanticOperator]]:
        """Depth and ⊖ of every layer that has one."""
        layers = (layer for layer in self.det.layers if isinstance(layer, DualEncoderLayer))
        return [(depth, layer.operator) for depth, layer in enumerate(layers) if layer.operator is not None]

    def neighbor_loss(
        self, encoded: Encoded, neighborhood: Sparse, negative: Sparse, form: LossForm = "bce"
    ) -> Tensor:
        """``L_sn`` summed over layers: connected pairs against the sampled distant pairs in ``negative``."""
        near = neighborhood.edges
        losses = []
        for depth, operator in self.operators:
            states = encoded.layers[depth].states
            if form == "bce" and operator.form in FORMS and fused_on(states):
                loss = fused_neighbor_loss(
                    states,
                    operator.positive_weight,
                    operator.bias,
                    operator.form,
                    near.index,
                    negative.index,
                )
            else:
                loss = neighbor_loss(
                    operator(states, near),
                    pair_weights(near.target, near.num_nodes),
                    operator(states, negative),
                    pair_weights(negative.target, negative.num_nodes),
                    form,
                )
            losses.append(loss)
        return torch.stack(losses).sum()


def pair_weights(target: Tensor, num_nodes: int) -> Tensor:
    """``1/(nodes · |N(i)|)`` for each pair: a mean over each node's pairs, then over nodes that have any."""
    count = torch.bincount(target, minlength=num_nodes)
    return 1 / (count[target] * (count > 0).sum())


def sample_distant(neighborhood: Sparse, generator: torch.Generator, among: int | None = None) -> Sparse:
    """As many random unconnected pairs for each node as it has neighbours (fewer where chance hits one).

    Args:
        neighborhood: who is connected.
        generator: the source of chance.
        among: partners are drawn from the first so many nodes; default: all.
    """
    n, target = neighborhood.num_nodes, neighborhood.edges.target
    source = torch.randint(among or n, target.shape, generator=generator).to(target.device)
    keep = ~neighborhood.connected(target, source)
    return Sparse.from_pairs(target[keep], source[keep], n)


def propagate(x: Tensor, neighborhood: Sparse, steps: int) -> Tensor:
    """Mean over {i} ∪ N(i), ``steps`` times: smooth features to start the search from, (nodes, features)."""
    near = neighborhood.structural[:, 0]
    target, source, nodes = neighborhood.target[near], neighborhood.source[near], neighborhood.num_nodes
    count = torch.bincount(target, minlength=nodes)
    start = torch.cat([count.new_zeros(1), count.cumsum(0)])
    share = (1 / count.to(x.dtype))[target]
    # A sparse product: gathered rows would be a (pairs, features) tensor.
    mean = torch.sparse_csr_tensor(start, source, share, (nodes, nodes), check_invariants=False)
    for _ in range(steps):
        x = mean @ x
    return functional.normalize(x)
