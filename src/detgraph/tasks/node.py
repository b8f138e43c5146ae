"""Node classification: one class, or several labels, of each node of a network."""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torchmetrics.functional.classification import multilabel_f1_score

from detgraph.config import NodeConfig
from detgraph.data.networks import Network
from detgraph.errors import DetError
from detgraph.neighbors import SemanticNeighbors, Source
from detgraph.neighbors.exact import ScoreBlock, search_space
from detgraph.nn import NetworkDET, Sparse
from detgraph.nn.network import propagate, sample_distant
from detgraph.nn.semantic import SearchSpace
from detgraph.tasks.base import Metrics, Split, Task

PROPAGATION_STEPS = 2
SKETCH_ABOVE = 2**25  # numbers: up to here (128 MB) the features themselves are compared
SKETCH_CHANNELS = 256
MASKS: dict[Split, str] = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}


@dataclass
class Part:
    """One graph of the network with semantic neighbours of its own; graphs share nothing."""

    x: Tensor | None  # (nodes, features), dense or sparse CSR
    y: Tensor  # (nodes,) or (nodes, labels)
    masks: dict[Split, Tensor]  # (nodes,) bool
    edge_index: Tensor
    neighbors: SemanticNeighbors
    neighborhood: Sparse


class NodeBatch(NamedTuple):
    """One step: a whole graph, and where its training labels are."""

    x: Tensor | None
    y: Tensor
    mask: Tensor
    neighborhood: Sparse
    negative: Sparse | None


class NodeTask(Task):
    """Network → NetworkDET → cross-entropy of classes (or of each label) + λ·L_sn."""

    higher_is_better = True

    def __init__(self, data: Network, config: NodeConfig) -> None:
        super().__init__(config.seed, data.notes)
        self.data, self.config = data, config
        self.metric = "f1" if data.multi_label else "accuracy"
        model, graph = config.model, data.graph
        if graph.x is None and config.neighbors.source != "learned":
            raise DetError(
                f"{data.name}: has no node features, which neighbors.source={config.neighbors.source} needs. "
                "Take neighbors.source=learned."
            )
        self.model = NetworkDET(
            features=model.table_channels if graph.x is None else graph.x.size(1),
            num_nodes=graph.num_nodes if graph.x is None else None,
            classes=len(data.classes),
            head_channels=model.head_channels,
            heads=model.heads,
            layers=model.layers,
            encoding=model.encoding(),
        )
        self.schedule = config.neighbors.schedule()
        self.parts = [self.make_part(members) for members in graph_members(data)]

    def make_part(self, members: Tensor | None) -> Part:
        """The sub-network of ``members``, or the whole network."""
        graph, x = self.data.graph, self.data.graph.x
        if members is not None:
            x = take_rows(x, members)
            graph = copy(graph)
            graph.x = None  # PyG cannot take rows of sparse features
            graph = graph.subgraph(members)
        normalize = self.config.data.normalize
        if x is not None and (x.layout == torch.sparse_csr if normalize is None else normalize):
            x = normalize_rows(x)
        k = self.config.neighbors.k if self.config.model.tau != 1 else 0  # nobody would read them
        neighbors = SemanticNeighbors(k, graph.edge_index, graph.num_nodes, self.config.neighbors.backend)
        masks: dict[Split, Tensor] = {split: graph[name] for split, name in MASKS.items()}
        return Part(
            x,
            graph.y,
            masks,
            graph.edge_index,
            neighbors,
            Sparse.from_edges(graph.edge_index, graph.num_nodes, semantic_set=self.config.model.semantic_set),
        )

    def forward(self, batch: NodeBatch) -> dict[str, Tensor]:
        """``main``: cross-entropy of the training labels; ``sn``: λ·L_sn."""
        encoded = self.model(batch.x, batch.neighborhood)
        logits, y = encoded.x[batch.mask], batch.y[batch.mask]
        if self.data.multi_label:
            losses = {"main": functional.binary_cross_entropy_with_logits(logits, y)}
        else:
            losses = {"main": functional.cross_entropy(logits, y)}
        if batch.negative is not None:
            assert isinstance(self.model, NetworkDET)
            training = self.config.training
            losses["sn"] = training.sn_weight * self.model.neighbor_loss(
                encoded, batch.neighborhood, batch.negative, training.sn_loss
            )
        return losses

    def training_parts(self) -> list[Part]:
        """Graphs with training labels; L_sn, too, sees no others."""
        return [part for part in self.parts if part.masks["train"].any()]

    def steps(self) -> int:
        """One for each graph with training labels."""
        return len(self.training_parts())

    def batches(self, epoch: int) -> Iterator[NodeBatch]:
        """Every graph with training labels, in random order."""
        rng = self.rng(epoch)
        parts = self.training_parts()
        for index in rng.permutation(len(parts)):
            part = parts[index]
            negative = None
            if self.config.model.tau != 1 and self.config.training.sn_weight > 0 and part.edge_index.size(1):
                generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
                negative = sample_distant(part.neighborhood, generator).to(self.device)
            x = None if part.x is None else part.x.to(self.device)
            yield NodeBatch(
                x,
                part.y.to(self.device),
                part.masks["train"].to(self.device),
                part.neighborhood.to(self.device),
                negative,
            )

    def start_epoch(self, epoch: int) -> None:
        """Search each graph's semantic neighbours where that is due."""
        source = self.schedule.due(epoch)
        if source is None:
            return
        for part in self.parts:
            if part.neighbors.k:
                part.neighbors.search(self.space(part, source))
                self.join(part)

    def join(self, part: Part) -> None:
        """Take the fetched nodes into the pairs that attention sees."""
        part.neighborhood = Sparse.from_edges(
            part.edge_index, len(part.y), part.neighbors.edges(), self.config.model.semantic_set
        )

    @torch.no_grad()
    def space(self, part: Part, source: Source) -> SearchSpace | ScoreBlock:
        """Where to look for semantic neighbours.

        ``learned``: the states that the last semantic layer compares (contextual: after the aggregation of
        all layers below), in its own metric. Otherwise the cosine of features, plain or propagated.
        """
        if source == "learned" or part.x is None:
            assert isinstance(self.model, NetworkDET)
            self.eval()
            x = None if part.x is None else part.x.to(self.device)
            encoded = self.model(x, part.neighborhood.to(self.device))
            depth, operator = self.model.operators[-1]
            states = encoded.layers[depth].states
            return search_space(operator, states)
        x = sketch(part.x)
        return SearchSpace(
            propagate(x, part.neighborhood, PROPAGATION_STEPS if source == "propagated" else 0), "dot"
        )

    def neighbor_state(self) -> dict[str, Tensor]:
        """(nodes, k) of each graph."""
        return {str(index): part.neighbors.found for index, part in enumerate(self.parts)}

    def load_neighbor_state(self, state: dict[str, Tensor]) -> None:
        """Put back the fetched nodes."""
        for index, part in enumerate(self.parts):
            part.neighbors.found = state[str(index)]
            self.join(part)

    @torch.no_grad()
    def predict(self, split: Split) -> tuple[Tensor, Tensor]:
        """Logits and labels of a split, (nodes, classes) and (nodes,) or (nodes, labels)."""
        self.eval()
        logits, labels = [], []
        for part in self.parts:
            mask = part.masks[split]
            if mask.any():
                x = None if part.x is None else part.x.to(self.device)
                logits.append(self.model(x, part.neighborhood.to(self.device)).x.cpu()[mask])
                labels.append(part.y[mask])
        return torch.cat(logits), torch.cat(labels)

    def evaluate(self, split: Split) -> Metrics:
        """Accuracy, or micro-F1 at a threshold of one half."""
        logits, y = self.predict(split)
        if not self.data.multi_label:
            return {"accuracy": float((logits.argmax(dim=1) == y).float().mean())}
        return {"f1": micro_f1(logits > 0, y)}

    def has(self, split: Split) -> bool:
        """Whether ``split`` has nodes."""
        return any(bool(part.masks[split].any()) for part in self.parts)

    def trivial(self, split: Split) -> float:
        """The most frequent class; of many labels the frequent ones, as many as do best in training."""
        mask = self.data.graph["train_mask"]
        train, y = self.data.graph.y[mask], self.data.graph.y[self.data.graph[MASKS[split]]]
        if not self.data.multi_label:
            return float((y == train.mode().values).float().mean())
        often = train.mean(dim=0)  # (labels,)
        best = max(often, key=lambda share: micro_f1((often >= share).expand_as(train), train))
        return micro_f1((often >= best).expand_as(y), y)

    def vocabulary(self) -> dict[str, Any]:
        """The user's node ids and class names."""
        return {"nodes": list(self.data.nodes), "classes": list(self.data.classes)}

    def fingerprint(self) -> str:
        """Names, edges, labels, splits and features."""
        graph, names = self.data.graph, "\n".join((*self.data.nodes, *self.data.classes))
        x = graph.x
        parts = () if x is None else (x.values(), x.col_indices()) if x.layout == torch.sparse_csr else (x,)
        return self.digest(
            names, graph.edge_index, graph.y, *(graph[mask] for mask in MASKS.values()), *parts
        )

    def describe(self) -> str:
        """Counts of nodes, edges and labels."""
        graph = self.data.graph
        counts = " / ".join(f"{int(graph[name].sum()):,}" for name in MASKS.values())
        return (
            f"{self.data.name}: {graph.num_nodes:,} nodes, {graph.edge_index.size(1) // 2:,} edges, "
            f"{len(self.data.classes)} {'labels' if self.data.multi_label else 'classes'}, "
            f"{counts} nodes to train / validate / test"
        )

    def memory(self) -> int:
        """Gathered states of all pairs, for both encoders and all layers."""
        model = self.config.model
        nodes = max(len(part.y) for part in self.parts)
        edges = max(part.edge_index.size(1) for part in self.parts)
        pairs = nodes + edges + nodes * (self.config.neighbors.k if model.tau != 1 else 0)
        widths = [model.heads * model.head_channels] * (model.layers - 1) + [
            model.heads * len(self.data.classes)
        ]
        return sum(4 * pairs * width * (6 if model.tau != 1 else 4) for width in widths)


def graph_members(data: Network) -> list[Tensor | None]:
    """Nodes of each graph; [None] for a single one."""
    if "graph_id" not in data.graph:
        return [None]
    if data.graph.x is None:
        raise DetError(
            f"{data.name}: has several graphs and no node features. A learned table of nodes says nothing "
            "about other graphs: give features, or train on one graph."
        )
    ids = data.graph.graph_id
    return [ids == graph for graph in torch.unique(ids)]


def take_rows(x: Tensor, members: Tensor) -> Tensor:
    """The rows where ``members`` is True, of a dense or sparse matrix."""
    if x.layout != torch.sparse_csr:
        return x[members]
    return x.to_sparse(layout=torch.sparse_coo).index_select(0, members.nonzero()[:, 0]).to_sparse_csr()


def normalize_rows(x: Tensor) -> Tensor:
    """Scale each row to sum to 1 in absolute value; rows of zeros stay."""
    if x.layout != torch.sparse_csr:
        return functional.normalize(x, p=1.0)
    lengths = x.crow_indices().diff()
    row = torch.arange(len(lengths)).repeat_interleave(lengths)
    total = torch.zeros(len(lengths)).index_add(0, row, x.values().abs()).clamp(min=1e-12)
    return torch.sparse_csr_tensor(
        x.crow_indices(), x.col_indices(), x.values() / total[row], x.shape, check_invariants=False
    )


def sketch(x: Tensor) -> Tensor:
    """Dense unit rows to search in; of a large network a random projection with nearly the same angles."""
    if x.numel() > SKETCH_ABOVE and x.size(1) > SKETCH_CHANNELS:
        generator = torch.Generator().manual_seed(0)
        x = x @ torch.randn(x.size(1), SKETCH_CHANNELS, generator=generator)
    return functional.normalize(x.to_dense())


def micro_f1(predicted: Tensor, y: Tensor) -> float:
    """F1 over all (node, label) pairs."""
    return float(multilabel_f1_score(predicted.int(), y.int(), num_labels=y.size(1), average="micro"))
