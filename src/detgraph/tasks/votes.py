"""What similar entities answer to the same question."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from detgraph.tasks.groups import Integers, Questions

# Chosen on a part of the validation triples of FB15K-237 and WN18RR (docs/knowledge-graphs.md).
VOTERS = 64
SCALE = 32.0  # a vote of 1/32 counts ln 2


class Votes:
    r"""Similar entities of which the same was asked in training vote for their own answers.

    .. math::
        s_{irt} \mathrel{+}= \beta \ln(1 + 32 \sum_{k \in V(i, r)} a_{ik}\, [t \in A_{kr}] / |A_{kr}|), \quad
        a_{i\cdot} = \mathrm{softmax}(\gamma \cos(v_i, v_\cdot))

    V(i, r) are the 64 entities whose embeddings are most like i's, among those with training answers
    :math:`A_{kr}` to r, linked with i or not. Nobody votes for i: those whose answer it is are alike.
    Nothing is learned here: in training, entities are alike *because* they share answers; votes would be
    trusted too much.

    Args:
        questions: of the training triples.
        table: (entities, channels) embeddings.
        strength: β.
        sharpness: γ.
    """

    def __init__(self, questions: Questions, table: Tensor, strength: float, sharpness: float) -> None:
        self.questions, self.strength, self.sharpness = questions, strength, sharpness
        self.directions = functional.normalize(table.detach(), dim=1)
        self.by_relation = np.argsort(questions.relation, kind="stable")  # numbers of questions
        self.ordered = questions.relation[self.by_relation]
        self.known = np.isin(np.arange(len(table)), questions.source)

    def add(self, scores: Tensor, source: Integers, relation: Integers) -> None:
        """Add the votes on questions to their ``scores``, in place.

        An entity that training does not know gets none: others are like it by chance.

        Args:
            scores: (questions, entities).
            source: (questions,) entities; questions often share one.
            relation: (questions,) r + R asks for the head.
        """
        distinct, place = np.unique(source, return_inverse=True)
        cosine = self.directions[torch.from_numpy(distinct)] @ self.directions.t()
        for row, entity in enumerate(source):
            if self.known[entity]:
                self._add(scores[row], cosine[place[row]], relation[row], entity)

    def add_new(self, scores: Tensor, embedding: Tensor, relation: int) -> None:
        """The same for a question about an entity that is not in the table."""
        self._add(scores, self.directions @ functional.normalize(embedding, dim=0), relation, -1)

    def _add(self, scores: Tensor, cosine: Tensor, relation: int, itself: int) -> None:
        """One question: scores and cosines are (entities,)."""
        questions = self.questions
        asked = self.by_relation[slice(*np.searchsorted(self.ordered, [relation, relation + 1]))]
        asked = asked[questions.source[asked] != itself]
        if not len(asked):
            return
        best = cosine[torch.from_numpy(questions.source[asked])].topk(min(VOTERS, len(asked)))
        weights = (self.sharpness * best.values.float()).softmax(dim=0).cpu().numpy()
        which = asked[best.indices.cpu().numpy()]
        voter, answer = questions.answers(which)
        share = weights / (questions.start[which + 1] - questions.start[which])
        voter, answer = voter[answer != itself], answer[answer != itself]
        entity, vote = np.unique(answer, return_inverse=True)
        total = np.bincount(vote, weights=share[voter], minlength=len(entity))
        gain = torch.from_numpy(self.strength * np.log1p(SCALE * total)).to(scores)
        scores.index_add_(0, torch.from_numpy(entity).to(scores.device), gain)
