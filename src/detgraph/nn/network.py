"""DET on networks: one graph of any size, sparse, in GAT style."""

import torch
from torch import Tensor, nn
from torch.nn import functional

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
        self.input_dropout = nn.Dropout(encoding.dropout)
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
            between=nn.Sequential(nn.ELU(), nn.Dropout(encoding.dropout)),
        )

    def forward(self, x: Tensor | None, neighborhood: Sparse) -> Encoded:
        """Logits (nodes, classes) and all layers' outputs; ``x`` is (nodes, features), dense or sparse."""
        encoded: Encoded = self.det(self.inputs(x), neighborhood)
        return encoded

    def inputs(self, x: Tensor | None) -> Tensor:
        """Features after dropout; of sparse ones only the stored values are dropped and kept."""
        if x is None:
            if self.table is None:
                raise ValueError("the model was built for node features, but x is None")
            x = self.table.weight
        if x.layout != torch.sparse_csr:
            dropped: Tensor = self.input_dropout(x)
            return dropped
        if not self.training:
            return x
        return torch.sparse_csr_tensor(
            x.crow_indices(), x.col_indices(), self.input_dropout(x.values()), x.shape, check_invariants=False
        )

    @property
    def operators(self) -> list[tuple[int, SemanticOperator]]:
        """Depth and ⊖ of every layer that has one."""
        layers = (layer for layer in self.det.layers if isinstance(layer, DualEncoderLayer))
        return [(depth, layer.operator) for depth, layer in enumerate(layers) if layer.operator is not None]

    def neighbor_loss(
        self, encoded: Encoded, neighborhood: Sparse, negative: Sparse, form: LossForm = "bce"
    ) -> Tensor:
        """``L_sn`` summed over layers: connected pairs against the sampled distant pairs in ``negative``."""
        is_edge = neighborhood.structural[:, 0] & ~neighborhood.loop
        positive_weight = pair_weights(neighborhood.target[is_edge], neighborhood.num_nodes)
        negative_weight = pair_weights(negative.target, negative.num_nodes)
        total = positive_weight.new_zeros(())
        for depth, operator in self.operators:
            output = encoded.layers[depth]
            assert output.z is not None
            distant = operator(output.states, negative)
            total = total + neighbor_loss(output.z[is_edge], positive_weight, distant, negative_weight, form)
        return total


def pair_weights(target: Tensor, num_nodes: int) -> Tensor:
    """``1/(nodes · |N(i)|)`` for each pair: a mean over each node's pairs, then over nodes that have any."""
    count = torch.bincount(target, minlength=num_nodes)
    return 1 / (count[target] * (count > 0).sum())


def sample_distant(neighborhood: Sparse, generator: torch.Generator) -> Sparse:
    """As many random unconnected pairs for each node as it has neighbours (fewer where chance hits one)."""
    n = neighborhood.num_nodes
    is_structural = neighborhood.structural[:, 0]
    target = neighborhood.target[is_structural & ~neighborhood.loop]
    source = torch.randint(n, target.shape, generator=generator).to(target.device)
    known = (neighborhood.target * n + neighborhood.source)[is_structural].sort().values
    drawn = target * n + source
    place = torch.searchsorted(known, drawn).clamp(max=max(len(known) - 1, 0))
    keep = known[place] != drawn
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
