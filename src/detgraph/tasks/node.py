"""Node classification: one class, or several labels, of each node of a network."""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torchmetrics.functional.classification import multilabel_f1_score

from detgraph.config import NodeConfig
from detgraph.data.feature_rows import cosines, normalize_rows, sketch, take_rows
from detgraph.data.networks import Network
from detgraph.errors import DetError
from detgraph.neighbors import SemanticNeighbors, Source
from detgraph.neighbors.blocks import Sampler
from detgraph.neighbors.exact import ScoreBlock, search_space
from detgraph.nn import NetworkDET, Sparse
from detgraph.nn.model import Encoded
from detgraph.nn.network import propagate, sample_distant
from detgraph.nn.semantic import SearchSpace
from detgraph.tasks.base import Metrics, Split, Task
from detgraph.tasks.consistency import consistency_loss
from detgraph.tasks.inference import encode_layerwise

PROPAGATION_STEPS = 2
INFERENCE_ROWS = 2**15  # nodes whose states are computed at once where training is in batches
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

    @cached_property
    def sampler(self) -> Sampler:
        """Draws blocks from the present pairs."""
        return Sampler(self.neighborhood)


class NodeBatch(NamedTuple):
    """One step: a whole graph, or a block of one."""

    x: Tensor | None
    y: Tensor
    mask: Tensor  # (nodes,) where the training labels are
    own: int  # nodes, from the first on, whose final states are those of the whole graph
    neighborhood: Sparse
    compared: Sparse  # pairs of which L_sn sees the connected ones
    negative: Sparse | None  # and distant ones, if L_sn is part of the loss
    consistency: float  # weight of the consistency of views


class NodeTask(Task):
    """Network → NetworkDET → cross-entropy of classes (or of each label) + λ·L_sn."""

    higher_is_better = True

    def __init__(self, data: Network, config: NodeConfig) -> None:
        super().__init__(config.seed, data.notes)
        self.data, self.config = data, config
        self.metric = "f1" if data.multi_label else "accuracy"
        model, graph = config.model, data.graph
        if graph.x is None and config.neighbors.source not in ("learned", "output"):
            raise DetError(
                f"{data.name}: has no node features, which neighbors.source={config.neighbors.source} needs. "
                "Take neighbors.source=learned or output."
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
        """``main``: cross-entropy of the training labels; ``consistency`` of views; ``sn``: λ·L_sn."""
        training, multi_label = self.config.training, self.data.multi_label
        views = [self.model(batch.x, batch.neighborhood) for _ in range(training.views)]
        cross_entropy = (
            functional.binary_cross_entropy_with_logits if multi_label else functional.cross_entropy
        )
        y = batch.y[batch.mask]
        losses = {"main": torch.stack([cross_entropy(view.x[batch.mask], y) for view in views]).mean()}
        if training.views > 1:
            losses["consistency"] = batch.consistency * consistency_loss(
                [view.x[: batch.own] for view in views], training.temperature, multi_label=multi_label
            )
        if batch.negative is not None:
            assert isinstance(self.model, NetworkDET)
            losses["sn"] = training.sn_weight * self.model.neighbor_loss(
                views[0], batch.compared, batch.negative, training.sn_loss
            )
        return losses

    def training_parts(self) -> list[Part]:
        """Graphs with training labels; L_sn, too, sees no others."""
        return [part for part in self.parts if part.masks["train"].any()]

    def steps(self) -> int:
        """One for each graph with training labels, or for each batch of its training nodes."""
        size = self.config.training.batch_size
        return sum(
            1 if size is None else -(-int(part.masks["train"].sum()) // size)
            for part in self.training_parts()
        )

    def batches(self, epoch: int) -> Iterator[NodeBatch]:
        """Every graph with training labels, in random order: whole, or its training nodes by and by."""
        rng = self.rng(epoch)
        parts = self.training_parts()
        training = self.config.training
        for index in rng.permutation(len(parts)):
            part = parts[index]
            if training.batch_size is None:
                yield self.make_batch(part, None, epoch, int(rng.integers(2**62)))
                continue
            nodes = torch.from_numpy(rng.permutation(part.masks["train"].nonzero()[:, 0].numpy()))
            for seeds in torch.split(nodes, training.batch_size):
                yield self.make_batch(part, seeds, epoch, int(rng.integers(2**62)))

    def make_batch(self, part: Part, seeds: Tensor | None, epoch: int, seed: int) -> NodeBatch:
        """A whole graph, or the block of it that the states of ``seeds`` depend on."""
        training, model = self.config.training, self.config.model
        x, y, mask, neighborhood, own = part.x, part.y, part.masks["train"], part.neighborhood, len(part.y)
        generator = torch.Generator().manual_seed(seed)
        compared, inner = neighborhood, own
        if seeds is not None:
            labelled = len(seeds)
            if training.views > 1:  # views are to agree on other nodes, too: as many
                others = (~mask).nonzero()[:, 0]
                drawn = torch.randperm(len(others), generator=generator)[:labelled]
                seeds = torch.cat([seeds, others[drawn]])
            # The first layer applies its attention several times.
            block = part.sampler.block(seeds, model.hops + model.layers - 1, training.fan_out, seed)
            x = block.nodes if x is None else take_rows(x, block.nodes)
            own = len(seeds)
            y, neighborhood = y[block.nodes], block.neighborhood
            mask = torch.arange(len(y)) < labelled
            # Of seeds and their neighbours alone the states are right in all layers.
            inner = int((block.hop <= 1).sum())
            compared = neighborhood.among(inner)
        negative = None
        if model.tau != 1 and training.sn_weight > 0 and len(compared.edges.target):
            negative = sample_distant(compared, generator, inner).to(self.device)
        ramp = training.consistency_ramp
        return NodeBatch(
            None if x is None else x.to(self.device),
            y.to(self.device),
            mask.to(self.device),
            own,
            neighborhood.to(self.device),
            compared.to(self.device),
            negative,
            training.consistency_weight * (min(1.0, epoch / ramp) if ramp else 1.0),
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
        part.__dict__.pop("sampler", None)
        part.neighborhood = Sparse.from_edges(
            part.edge_index, len(part.y), part.neighbors.edges(), self.config.model.semantic_set
        )

    @torch.no_grad()
    def space(self, part: Part, source: Source) -> SearchSpace | ScoreBlock:
        """Where to look for semantic neighbours.

        ``learned``: the states that the last semantic layer compares (contextual: after the aggregation of
        all layers below), in its own metric. ``output``: the cosine of logits. Otherwise that of features,
        plain or propagated.
        """
        if source == "output":
            return SearchSpace(functional.normalize(self.encode(part).x), "dot")
        if source == "learned" or part.x is None:
            assert isinstance(self.model, NetworkDET)
            depth, operator = self.model.operators[-1]
            return search_space(operator, self.encode(part).layers[depth].states)
        if source == "features":
            return cosines(part.x)
        return SearchSpace(propagate(sketch(part.x), part.neighborhood, PROPAGATION_STEPS), "dot")

    def neighbor_state(self) -> dict[str, Tensor]:
        """(nodes, k) of each graph."""
        return {str(index): part.neighbors.found for index, part in enumerate(self.parts)}

    def load_neighbor_state(self, state: dict[str, Tensor]) -> None:
        """Put back the fetched nodes."""
        for index, part in enumerate(self.parts):
            part.neighbors.restore(state[str(index)])
            self.join(part)

    @torch.no_grad()
    def encode(self, part: Part) -> Encoded:
        """A whole graph without dropout; layer by layer where training is in batches."""
        self.eval()
        x = None if part.x is None else part.x.to(self.device)
        if self.config.training.batch_size is not None:
            assert isinstance(self.model, NetworkDET)
            return encode_layerwise(self.model, x, part.sampler, INFERENCE_ROWS)
        encoded: Encoded = self.model(x, part.neighborhood.to(self.device))
        return encoded

    def predict(self, split: Split) -> tuple[Tensor, Tensor]:
        """Logits and labels of a split, (nodes, classes) and (nodes,) or (nodes, labels)."""
        logits, labels = [], []
        for part in self.parts:
            mask = part.masks[split]
            if mask.any():
                logits.append(self.encode(part).x.cpu()[mask])
                labels.append(part.y[mask])
        return torch.cat(logits), torch.cat(labels)

    def predict_all(self) -> Tensor:
        """Logits of every node, labelled or not, in the order of the data; (nodes, classes)."""
        found = torch.cat([self.encode(part).x.cpu() for part in self.parts])
        if "graph_id" not in self.data.graph:
            return found
        logits = torch.empty_like(found)
        logits[self.data.graph.graph_id.argsort(stable=True)] = found  # parts go by their graph's number
        return logits

    def choose_labels(self, logits: Tensor, y: Tensor) -> Tensor:
        """Of many labels, those predicted, (nodes, labels) bool.

        At a threshold of one half, or as many as a node has in ``y`` where that is known and to be told.
        """
        if not self.data.counts_known:
            return logits > 0
        return torch.where(y.isnan().any(dim=1, keepdim=True), logits > 0, top_labels(logits, y))

    def evaluate(self, split: Split) -> Metrics:
        """Accuracy, or micro-F1."""
        logits, y = self.predict(split)
        if not self.data.multi_label:
            return {"accuracy": float((logits.argmax(dim=1) == y).float().mean())}
        return {"f1": micro_f1(self.choose_labels(logits, y), y)}

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
        if self.data.counts_known:
            return micro_f1(top_labels(often.expand_as(y), y), y)
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
        """States of all nodes and weights of all pairs, forward and backward, in all layers and views."""
        model = self.config.model
        nodes = max(len(part.y) for part in self.parts)
        edges = max(part.edge_index.size(1) for part in self.parts)
        pairs = nodes + edges + nodes * (self.config.neighbors.k if model.tau != 1 else 0)
        inner, last = model.heads * model.head_channels, model.heads * len(self.data.classes)
        states = nodes * (inner * (model.layers - 1 + model.hops) + last)
        # Fused kernels keep each encoder's weights of each layer; the backward pass notes three numbers more.
        weights = pairs * model.heads * (2 * model.layers + 3)
        return 4 * self.config.training.views * (6 * states + weights)


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


def top_labels(scores: Tensor, y: Tensor) -> Tensor:
    """The best labels of each node (nodes, labels), as many as it has in ``y``."""
    place = scores.argsort(dim=1, descending=True).argsort(dim=1)  # of each label in its node's order
    return place < y.sum(dim=1, keepdim=True)


def micro_f1(predicted: Tensor, y: Tensor) -> float:
    """F1 over all (node, label) pairs."""
    return float(multilabel_f1_score(predicted.int(), y.int(), num_labels=y.size(1), average="micro"))
