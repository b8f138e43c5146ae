"""Entity prediction with models of others: the same questions, candidates and ranking."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from detgraph.baselines.entities import PykeenModel
from detgraph.config import EntityConfig
from detgraph.data.triples import Triples
from detgraph.tasks.base import Split
from detgraph.tasks.contexts import distinct_questions
from detgraph.tasks.entity import EntityTask, Scored
from detgraph.tasks.groups import Integers

NUMBERS = 2**26  # that the scores of a block may take, with what they are made of
DISTANCES = ("transe", "rotate")  # models that hold the differences of all pairs


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
        scores = self.model(batch.source, batch.relation, batch.candidates) + batch.extra
        likely = scores.log_softmax(dim=1)
        smoothing = self.config.training.label_smoothing
        main = -(1 - smoothing) * likely[batch.question, batch.answer].mean()
        if smoothing:
            main = main - smoothing * likely.mean(dim=1)[batch.question].mean()
        losses = {"main": main}
        if self.config.training.n3:
            answer = batch.answer if batch.candidates is None else batch.candidates[batch.answer]
            source, relation = batch.source[batch.question], batch.relation[batch.question]
            losses["n3"] = self.config.training.n3 * self.model.cubes(source, relation, answer).mean()
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
        size = max(1, NUMBERS // (len(self.data.entities) * self.numbers_a_score))
        for start in range(0, len(first), size):
            source, relation, _ = torch.from_numpy(asked[first[start : start + size]].T).to(self.device)
            here = slice(*np.searchsorted(question, [start, start + size]))
            yield Scored(self.model(source, relation), asked[here], question[here] - start)

    @property
    def numbers_a_score(self) -> int:
        """How many numbers a model holds for each score."""
        baseline = self.config.baseline
        assert baseline is not None
        return baseline.channels if baseline.name in DISTANCES else 1

    def memory(self) -> int:
        """Scores of a batch, with what they are made of, and their gradients."""
        rivals = self.config.training.candidates or len(self.data.entities)
        return 8 * self.config.training.batch_size * rivals * self.numbers_a_score
