"""Entity prediction with models of others: the same questions, candidates and ranking."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from detgraph.baselines.entities import DISTANCES, PykeenModel, real
from detgraph.config import EntityConfig
from detgraph.data.triples import Triples
from detgraph.nn.answer_loss import answer_loss, scored_answer_loss
from detgraph.nn.complex_product import cubes
from detgraph.tasks.base import Split
from detgraph.tasks.contexts import distinct_questions
from detgraph.tasks.entity import EntityTask, Scored
from detgraph.tasks.groups import Integers

NUMBERS = 2**26  # that the scores of a block may take


class QuestionBatch(NamedTuple):
    """Questions with all their answers."""

    source: Tensor  # (questions,)
    relation: Tensor  # (questions,)
    question: Tensor  # (answers,) row
    answer: Tensor  # (answers,) row of the candidates, or the entity if all compete
    candidates: Tensor | None  # (candidates,) entities
    extra: Tensor  # (candidates,) added to their scores


class EntityBaselineTask(EntityTask):
    """Triples → a model of PyKEEN → softmax cross-entropy of all answers, and N3 of ComplEx."""

    model: PykeenModel

    def __init__(self, data: Triples, config: EntityConfig) -> None:
        assert config.baseline is not None
        super().__init__(data, config, PykeenModel(config.baseline, data, config.seed))

    def forward(self, batch: QuestionBatch) -> dict[str, Tensor]:
        """``main``: mean over all answers; ``n3``."""
        self.model.after_step()  # of the step before
        training = self.config.training
        parts = self.model.embed(batch.source, batch.relation, batch.candidates)
        states, tails, asked = self.model.states(parts), real(parts.tails), (batch.question, batch.answer)
        if self.model.name in DISTANCES:
            scores = self.model.compare(states, tails)
            main = scored_answer_loss(scores, *asked, training.label_smoothing, batch.extra)
        else:
            main = answer_loss(states, tails, *asked, training.label_smoothing, batch.extra)
        losses = {"main": main}
        if training.n3:
            head, relation = (real(part)[batch.question] for part in (parts.heads, parts.relations))
            sizes = cubes(head) + cubes(relation) + cubes(tails[batch.answer])
            losses["n3"] = training.n3 * sizes.mean()
        return losses

    def steps(self) -> int:
        """Batches an epoch."""
        return -(-len(self.questions.source) // self.config.training.batch_size)

    def batches(self, epoch: int) -> Iterator[QuestionBatch]:
        """All training questions in random order."""
        rng, size = self.rng(epoch), self.config.training.batch_size
        order = rng.permutation(len(self.questions.source))
        for start in range(0, len(order), size):
            part = order[start : start + size]
            question, answer = self.questions.answers(part)
            candidates, extra = None, np.zeros(len(self.data.entities), np.float32)
            if self.rivals is not None:
                competing, extra = self.rivals.draw(answer, rng)
                answer = np.searchsorted(np.unique(answer), answer)  # the answers come first
                candidates = torch.from_numpy(competing).to(self.device)
            arrays = (self.questions.source[part], self.questions.relation[part], question, answer, extra)
            source, relation, row, answers, added = (
                torch.from_numpy(array).to(self.device) for array in arrays
            )
            yield QuestionBatch(source, relation, row, answers, candidates, added)

    def model_scores(self, asked: Integers, split: Split) -> Iterator[Scored]:
        """A row of scores for each distinct question, in blocks that fit into memory."""
        del split  # the models look at no neighbourhood
        self.model.after_step()
        asked, question, first = distinct_questions(asked)
        size = max(1, NUMBERS // len(self.data.entities))
        for start in range(0, len(first), size):
            source, relation, _ = torch.from_numpy(asked[first[start : start + size]].T).to(self.device)
            here = slice(*np.searchsorted(question, [start, start + size]))
            yield Scored(self.model(source, relation), asked[here], question[here] - start)

    def memory(self) -> int:
        """Scores of a batch, and their gradients."""
        rivals = self.config.training.candidates or len(self.data.entities)
        return 12 * self.config.training.batch_size * rivals
