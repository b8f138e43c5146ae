"""Entity prediction with HittER's two levels: one sequence for each query."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from detgraph.config import EntityConfig
from detgraph.data.triples import Triples
from detgraph.nn import EgoBatch, EgoDET
from detgraph.nn.answer_loss import answer_loss
from detgraph.tasks.base import Split
from detgraph.tasks.contexts import Contexts, queries
from detgraph.tasks.entity import EntityTask, Scored
from detgraph.tasks.groups import Integers, Surroundings
from detgraph.tasks.rivals import Rivals


class EgoTask(EntityTask):
    """Triples → EgoDET → softmax cross-entropy of all answers, of the source where hidden, + λ·L_sn."""

    model: EgoDET

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
            hides_sources=config.training.source.share > 0,
        )
        super().__init__(data, config, network)
        # As in HittER, entities that no training triple names compete, too: they learn to be no answers.
        every, wanted = np.arange(len(data.entities)), config.training.candidates
        self.rivals = Rivals(every, wanted) if wanted is not None and wanted < len(every) else None
        # Only training triples are ever seen as context; the others are only filtered out of rankings.
        self.contexts = Contexts(data.train, len(data.entities), relations, model.max_neighbors, model.mask)
        self.surroundings = Surroundings(self.questions, len(data.entities), model.max_neighbors, model.mask)

    def forward(self, batch: EgoBatch) -> dict[str, Tensor]:
        """``main``: of all answers; ``source``: of hidden sources; ``sn``; each with its weight."""
        training, candidates = self.config.training, self.model.candidates(batch.candidates)
        row = torch.arange(len(self.data.entities), device=batch.answer.device)  # of each entity
        if batch.candidates is not None:
            row[batch.candidates] = torch.arange(len(batch.candidates), device=row.device)
        answer, query = self.model.encode(batch).unbind(dim=1)
        smoothing = training.label_smoothing
        main = answer_loss(answer, candidates, batch.question, row[batch.answer], smoothing, batch.extra)
        losses = {"main": main}
        if training.source.weight and len(batch.guess):
            each, hidden = torch.arange(len(batch.guess), device=row.device), row[batch.source[batch.guess]]
            guessed = answer_loss(query[batch.guess], candidates, each, hidden, 0.0, batch.extra)
            losses["source"] = training.source.weight * guessed
        if self.wants_neighbor_loss:
            losses["sn"] = training.sn_weight * self.neighbor_loss(batch.source, batch.neighbors, self.table)
        return losses

    def steps(self) -> int:
        """Batches an epoch; a triple asks for its tail and for its head."""
        training = self.config.training
        asked = len(self.questions.source) if training.answers == "all" else 2 * len(self.data.train)
        return -(-asked // training.batch_size)

    def batches(self, epoch: int) -> Iterator[EgoBatch]:
        """All training queries in random order, with freshly sampled contexts that hide their answers."""
        rng, training, questions = self.rng(epoch), self.config.training, self.questions
        together = training.answers == "all"
        asked = queries(self.data.train, len(self.data.relations))
        order = rng.permutation(len(questions.source) if together else len(asked))
        for start in range(0, len(order), training.batch_size):
            part = order[start : start + training.batch_size]
            if together:
                source = questions.source[part]
                around = self.surroundings.of(source, part[:, None], seed=int(rng.integers(2**62)))
                yield self.collate(source, questions.relation[part], around, questions.answers(part), rng)
            else:
                yield self.ask(asked[part], self.contexts.of(asked[part], rng), rng)

    def ask(
        self, asked: Integers, around: tuple[Integers, Integers], rng: np.random.Generator | None = None
    ) -> EgoBatch:
        """Queries (source, relation, answer) with their neighbourhoods, each with its own answer."""
        answers = np.arange(len(asked)), asked[:, 2]
        return self.collate(asked[:, 0], asked[:, 1], around, answers, rng)

    def collate(
        self,
        source: Integers,
        relation: Integers,
        around: tuple[Integers, Integers],
        answers: tuple[Integers, Integers],
        rng: np.random.Generator | None,
    ) -> EgoBatch:
        """Queries with their neighbourhoods; with ``rng`` some sources are hidden, some neighbours left out.

        Args:
            source: (queries,).
            relation: (queries,).
            around: neighbours and their relations, (queries, structural), -1 = none.
            answers: row of the query, and entity.
            rng: of training.
        """
        # S holds no entity linked in training, so never the answer of a training query.
        semantic = self.neighbors.found[torch.from_numpy(source)].numpy()
        shown, guess = source, np.empty(0, np.int64)
        neighbors = around[0]
        if rng is not None:
            shown, guess = self.hide(source, rng)
            neighbors, semantic = (self.leave_out(part, rng) for part in (neighbors, semantic))
        competing: tuple[NDArray[Any], ...] = ()
        if rng is not None and self.rivals is not None:
            competing = self.rivals.draw(np.append(answers[1], source[guess]), rng)
        arrays = (source, shown, relation, neighbors, around[1], semantic, *answers, guess, *competing)
        return EgoBatch(*(torch.from_numpy(array).to(self.device) for array in arrays))

    def hide(self, source: Integers, rng: np.random.Generator) -> tuple[Integers, Integers]:
        """What is shown in place of each source, -1 = a mask; and the rows whose source is to be guessed."""
        config = self.config.training.source
        chosen, masked, replaced = (
            rng.random(len(source)) < share for share in (config.share, config.masked, config.replaced)
        )
        other = np.where(replaced, rng.integers(len(self.data.entities), size=len(source)), source)
        return np.where(chosen, np.where(masked, -1, other), source), np.flatnonzero(chosen)

    def model_scores(self, asked: NDArray[np.int64], split: Split) -> Iterator[Scored]:
        """A row of scores for each query."""
        rng = self.rng(0) if split == "train" else None  # training queries hide their own triple here, too
        size = self.config.training.batch_size
        for start in range(0, len(asked), size):
            block = asked[start : start + size]
            batch = self.ask(block, self.contexts.of(block, rng))
            yield Scored(self.model(batch), block, np.arange(len(block)))

    def memory(self) -> int:
        """States of all tokens of a batch, and its scores."""
        model, size = self.config.model, self.config.training.batch_size
        tokens = 2 + model.max_neighbors + self.neighbors.k
        states = 10 * model.channels + 2 * model.ffn_channels
        triples = 4 * tokens * states * model.triple_layers
        context = tokens * (states + 4 * model.heads * tokens) * model.layers
        return 4 * size * (triples + context + 3 * len(self.data.entities))
