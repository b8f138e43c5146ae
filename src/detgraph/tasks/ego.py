"""Entity prediction with HittER's two levels: one sequence for each query."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from detgraph.config import EntityConfig
from detgraph.data.triples import Triples
from detgraph.nn import EgoBatch, EgoDET
from detgraph.tasks.base import Split
from detgraph.tasks.contexts import Contexts, queries
from detgraph.tasks.entity import EntityTask, Scored


class EgoTask(EntityTask):
    """Triples → EgoDET → softmax cross-entropy over all entities + λ·L_sn."""

    def __init__(self, data: Triples, config: EntityConfig) -> None:
        model, relations = config.model, len(data.relations)
        network = EgoDET(
            entities=len(data.entities),
            relations=relations,
            channels=model.channels,
            heads=model.heads,
            layers=model.layers,
            triple_layers=model.triple_layers,
            ffn_channels=model.ffn_channels,
            encoding=model.encoding(share_layers=True),
            score_dropout=model.score_dropout,
        )
        super().__init__(data, config, network)
        # Only training triples are ever seen as context; the others are only filtered out of rankings.
        self.contexts = Contexts(data.train, len(data.entities), relations, model.max_neighbors, model.mask)

    def forward(self, batch: EgoBatch) -> dict[str, Tensor]:
        """``main``: cross-entropy of the answer among all entities; ``sn``: λ·L_sn."""
        training = self.config.training
        scores = self.model(batch)
        losses = {
            "main": functional.cross_entropy(scores, batch.answer, label_smoothing=training.label_smoothing)
        }
        if self.wants_neighbor_loss:
            losses["sn"] = training.sn_weight * self.neighbor_loss(batch.source, batch.neighbors, self.table)
        return losses

    def steps(self) -> int:
        """Batches an epoch; every triple asks for its tail and for its head."""
        return -(-2 * len(self.data.train) // self.config.training.batch_size)

    def batches(self, epoch: int) -> Iterator[EgoBatch]:
        """All training queries in random order, with freshly sampled contexts that hide their answer."""
        rng = self.rng(epoch)
        asked = queries(self.data.train, len(self.data.relations))
        order = rng.permutation(len(asked))
        size = self.config.training.batch_size
        for start in range(0, len(order), size):
            yield self.collate(asked[order[start : start + size]], rng)

    def collate(self, asked: NDArray[np.int64], rng: np.random.Generator | None = None) -> EgoBatch:
        """Queries (source, relation, answer) with their contexts; with ``rng`` in the way of training."""
        neighbors, relations = self.contexts.of(asked, rng)
        # S holds no entity linked in training, so never the answer of a training query.
        semantic = self.neighbors.found[torch.from_numpy(asked[:, 0])]
        arrays = (asked[:, 0], asked[:, 1], neighbors, relations)
        tensors = [torch.from_numpy(array) for array in arrays] + [semantic, torch.from_numpy(asked[:, 2])]
        return EgoBatch(*(tensor.to(self.device) for tensor in tensors))

    def scored(self, asked: NDArray[np.int64], split: Split) -> Iterator[Scored]:
        """A row of scores for each query."""
        rng = self.rng(0) if split == "train" else None  # training queries hide their own triple here, too
        size = self.config.training.batch_size
        for start in range(0, len(asked), size):
            block = asked[start : start + size]
            yield Scored(self.model(self.collate(block, rng)), block, np.arange(len(block)))

    def memory(self) -> int:
        """States of all tokens of a batch, and its scores."""
        model, size = self.config.model, self.config.training.batch_size
        tokens = 2 + model.max_neighbors + self.neighbors.k
        states = 10 * model.channels + 2 * model.ffn_channels
        triples = 4 * tokens * states * model.triple_layers
        context = tokens * (states + 4 * model.heads * tokens) * model.layers
        return 4 * size * (triples + context + 3 * len(self.data.entities))
