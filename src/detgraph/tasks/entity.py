"""Entity prediction: the missing end of a triple, ranked among all entities."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from detgraph.config import EntityConfig
from detgraph.data.triples import Triples
from detgraph.neighbors import SemanticNeighbors
from detgraph.neighbors.exact import search_space
from detgraph.nn import EgoBatch, EgoDET, Sparse
from detgraph.nn.network import pair_weights
from detgraph.nn.semantic import neighbor_loss
from detgraph.tasks.base import Metrics, Split, Task
from detgraph.tasks.contexts import Contexts, queries
from detgraph.tasks.ranking import KnownAnswers, ranks, summarize


class EntityTask(Task):
    """Triples → EgoDET → softmax cross-entropy over all entities + λ·L_sn."""

    metric = "mrr"
    higher_is_better = True

    def __init__(self, data: Triples, config: EntityConfig) -> None:
        super().__init__(config.seed, data.notes)
        self.data, self.config = data, config
        model, relations = config.model, len(data.relations)
        self.model = EgoDET(
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
        # Only training triples are ever seen as context; the others are only filtered out of rankings.
        self.contexts = Contexts(data.train, len(data.entities), relations, model.max_neighbors, model.mask)
        self.known = KnownAnswers(np.concatenate([data.train, data.valid, data.test]), relations)
        self.schedule = config.neighbors.schedule()
        edges = torch.from_numpy(np.unique(data.train[:, [0, 2]], axis=0).T.copy())
        k = config.neighbors.k if model.tau != 1 else 0
        self.neighbors = SemanticNeighbors(
            k, torch.cat([edges, edges.flip(0)], dim=1), len(data.entities), config.neighbors.backend
        )

    def forward(self, batch: EgoBatch) -> dict[str, Tensor]:
        """``main``: cross-entropy of the answer among all entities; ``sn``: λ·L_sn."""
        training = self.config.training
        scores = self.model(batch)
        losses = {
            "main": functional.cross_entropy(scores, batch.answer, label_smoothing=training.label_smoothing)
        }
        if self.config.model.tau != 1 and training.sn_weight > 0:
            losses["sn"] = training.sn_weight * self.neighbor_loss(batch)
        return losses

    def neighbor_loss(self, batch: EgoBatch) -> Tensor:
        """``L_sn`` of the batch: the sources' sampled neighbours against random unlinked entities."""
        assert isinstance(self.model, EgoDET)
        operator = self.model.det.operator
        assert operator is not None
        exists = batch.neighbors >= 0
        entities = len(self.data.entities)
        source = batch.source[:, None].expand_as(batch.neighbors)[exists]
        drawn = torch.randint(entities, source.shape, device=source.device)
        distant = ~self.contexts.linked(source.cpu(), drawn.cpu()).to(source.device)
        states = self.model.entity.weight[:, None, :]  # (entities, 1, channels)
        near = Sparse.from_pairs(source, batch.neighbors[exists], entities)
        far = Sparse.from_pairs(source[distant], drawn[distant], entities)
        return neighbor_loss(
            operator(states, near),
            pair_weights(near.target, entities),
            operator(states, far),
            pair_weights(far.target, entities),
            self.config.training.sn_loss,
        )

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

    def start_epoch(self, epoch: int) -> None:
        """Search the entity table where that is due; before the warm-up's end nothing is fetched."""
        if self.neighbors.k and self.schedule.due(epoch) == "learned":
            assert isinstance(self.model, EgoDET)
            operator = self.model.det.operator
            assert operator is not None
            with torch.no_grad():
                states = self.model.entity.weight[:, None, :]
                self.neighbors.search(search_space(operator, states))

    def neighbor_state(self) -> dict[str, Tensor]:
        """(entities, k)."""
        return {"entities": self.neighbors.found}

    def load_neighbor_state(self, state: dict[str, Tensor]) -> None:
        """Put back the fetched entities."""
        self.neighbors.found = state["entities"]

    @torch.no_grad()
    def evaluate(self, split: Split) -> Metrics:
        """Filtered ranks of both ends of every triple of ``split`` among all entities."""
        self.eval()
        rng = self.rng(0) if split == "train" else None  # training queries hide their own triple here, too
        return self.rank(split, lambda block: self.model(self.collate(block, rng)).cpu())

    def rank(self, split: Split, score: Callable[[NDArray[np.int64]], Tensor]) -> Metrics:
        """Metrics of any scorer of queries, a block at a time."""
        asked = queries(getattr(self.data, split), len(self.data.relations))
        size = self.config.training.batch_size
        blocks = (asked[start : start + size] for start in range(0, len(asked), size))
        return summarize(torch.cat([ranks(score(block), block, self.known) for block in blocks]))

    def has(self, split: Split) -> bool:
        """Whether ``split`` has triples."""
        return len(getattr(self.data, split)) > 0

    def trivial(self, split: Split) -> float:
        """MRR of ranking entities by how often they answer in training, whatever the question."""
        trained = queries(self.data.train, len(self.data.relations))
        count = torch.from_numpy(np.bincount(trained[:, 2], minlength=len(self.data.entities))).float()
        return self.rank(split, lambda block: count.expand(len(block), -1))["mrr"]

    def vocabulary(self) -> dict[str, Any]:
        """Ids and human names of entities and relations."""
        return {
            "entities": list(self.data.entities),
            "relations": list(self.data.relations),
            "entity_names": list(self.data.entity_names),
            "relation_names": list(self.data.relation_names),
        }

    def fingerprint(self) -> str:
        """Names and triples."""
        data = self.data
        return self.digest("\n".join((*data.entities, *data.relations)), data.train, data.valid, data.test)

    def describe(self) -> str:
        """Counts of triples, entities and relations."""
        data = self.data
        return (
            f"{data.name}: {len(data.train):,} / {len(data.valid):,} / {len(data.test):,} triples to train / "
            f"validate / test, {len(data.entities):,} entities, {len(data.relations):,} relations"
        )

    def memory(self) -> int:
        """States of all tokens of a batch, and its scores."""
        model, size = self.config.model, self.config.training.batch_size
        tokens = 2 + model.max_neighbors + self.neighbors.k
        states = 10 * model.channels + 2 * model.ffn_channels
        triples = 4 * tokens * states * model.triple_layers
        context = tokens * (states + 4 * model.heads * tokens) * model.layers
        return 4 * size * (triples + context + 3 * len(self.data.entities))
