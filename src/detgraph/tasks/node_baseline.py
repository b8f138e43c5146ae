"""Node classification by a model of others: the same data, splits, loss and metrics as for DET."""

import torch
from torch import Tensor, nn
from typing_extensions import override

from detgraph.baselines import build_network_model
from detgraph.config import NodeConfig
from detgraph.config.baselines import NetworkBaseline
from detgraph.data.networks import Network
from detgraph.nn import Sparse
from detgraph.nn.model import Encoded
from detgraph.tasks.node import NodeBatch, NodeTask

TABLE_CHANNELS = 64


class BaselineModel(nn.Module):
    """A baseline behind the call of `NetworkDET`.

    Args:
        config: which model, and its sizes.
        data: the network; without features, an input state is learned for each node.
    """

    def __init__(self, config: NetworkBaseline, data: Network) -> None:
        super().__init__()
        x = data.graph.x
        self.table = nn.Embedding(data.graph.num_nodes, TABLE_CHANNELS) if x is None else None
        self.network = build_network_model(
            config,
            features=TABLE_CHANNELS if x is None else x.size(1),
            classes=len(data.classes),
        )

    def forward(self, x: Tensor | None, neighborhood: Sparse) -> Encoded:
        """Logits (nodes, classes); no semantic layers."""
        near = neighborhood.structural[:, 0] & ~neighborhood.loop
        edge_index = torch.stack([neighborhood.source[near], neighborhood.target[near]])
        if x is None:
            assert self.table is not None
            x = self.table.weight
        return Encoded(self.network(x, edge_index), [])


class NodeBaselineTask(NodeTask):
    """Network → baseline → cross-entropy of classes (or of each label) + the model's own losses."""

    def __init__(self, data: Network, config: NodeConfig) -> None:
        assert config.baseline is not None
        structural_only = config.model.model_copy(update={"tau": 1.0})  # nothing is fetched
        super().__init__(data, config.model_copy(update={"model": structural_only}))
        self.model = BaselineModel(config.baseline, data)

    @override
    def forward(self, batch: NodeBatch) -> dict[str, Tensor]:
        """``main``: cross-entropy of the training labels; then what the baseline adds."""
        losses = super().forward(batch)
        assert isinstance(self.model, BaselineModel)
        return losses | self.model.network.auxiliary_losses()

    @override
    def memory(self) -> int:
        """States of all nodes, and messages of attention models."""
        baseline = self.config.baseline
        assert baseline is not None
        nodes = max(len(part.y) for part in self.parts)
        edges = max(part.edge_index.size(1) for part in self.parts)
        per_head = baseline.name in ("gat", "supergat-sd", "supergat-mx")
        rows = nodes + (nodes + edges if per_head or baseline.name == "sage" else 0)
        numbers = 4 * rows * baseline.channels * (baseline.heads if per_head else 1) * baseline.layers
        return 4 * numbers
