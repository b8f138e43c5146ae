"""What distant neighbours answer to the same question."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from detgraph.tasks.groups import Integers, Questions

SCALE = 32.0  # a vote of 1/32 counts ln 2


class Votes:
    r"""Semantic neighbours vote for their own training answers.

    .. math:: s_{irt} \mathrel{+}= \beta \ln(1 + 32 \sum_{k \in S(i)} a_{ik}\, [t \in A_{kr}] / |A_{kr}|)

    S(i) holds no entity that is linked with i, so no vote repeats a triple of i's own. Nothing is learned
    here: in training, entities are alike *because* they share answers; votes would be trusted too much.

    Args:
        questions: of the training triples.
        relations: number of relations, without inverses.
        strength: β.
    """

    def __init__(self, questions: Questions, relations: int, strength: float) -> None:
        self.questions, self.count, self.strength = questions, 2 * relations, strength
        self.keys = questions.source * self.count + questions.relation  # ascending

    def add(
        self, scores: Tensor, relation: Integers, neighbors: Integers, weights: NDArray[np.float32]
    ) -> None:
        """Add the votes to ``scores``, in place.

        Args:
            scores: (questions, entities).
            relation: (questions,) r + R asks for the head.
            neighbors: (questions, k) entities, -1 = none.
            weights: (questions, k) of their votes, a row sums to 1.
        """
        wanted = np.where(neighbors >= 0, neighbors * self.count + relation[:, None], -1)
        place = np.searchsorted(self.keys, wanted).clip(max=len(self.keys) - 1)
        row, slot = np.nonzero(self.keys[place] == wanted)  # neighbours that were asked the same
        which = place[row, slot]
        voter, answer = self.questions.answers(which)
        share = weights[row, slot] / (self.questions.start[which + 1] - self.questions.start[which])
        entry, vote = np.unique(row[voter] * scores.size(1) + answer, return_inverse=True)
        total = np.bincount(vote, weights=share[voter], minlength=len(entry))
        gain = torch.from_numpy(self.strength * np.log1p(SCALE * total)).to(scores)
        scores.view(-1).index_add_(0, torch.from_numpy(entry).to(scores.device), gain)
