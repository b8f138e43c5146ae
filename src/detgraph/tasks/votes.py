"""What similar entities answer to the same question."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from detgraph.tasks.groups import Integers, Questions

# Chosen on a part of the validation triples of FB15K-237 and WN18RR (docs/knowledge-graphs.md).
VOTERS = 64
SHARPNESS = 5.0  # of the softmax over cosines
SCALE = 32.0  # a vote of 1/32 counts ln 2


class Votes:
    r"""The entities nearest by angle vote for their own training answers.

    .. math::
        s_{irt} \mathrel{+}= \beta \ln(1 + 32 \sum_{k \in V(i)} a_{ik}\, [t \in A_{kr}] / |A_{kr}|), \quad
        a_{i\cdot} = \mathrm{softmax}(5 \cos(v_i, v_\cdot))

    V(i) are the 64 entities whose embeddings are most like i's, linked with it or not. Nobody votes for i:
    those whose answer it is are alike. Nothing is learned here: in training, entities are alike *because*
    they share answers; votes would be trusted too much.

    Args:
        questions: of the training triples.
        relations: number of relations, without inverses.
        entities: number of entities.
        members: those that training knows, who may vote.
        strength: β.
    """

    def __init__(
        self, questions: Questions, relations: int, entities: int, members: Tensor, strength: float
    ) -> None:
        self.questions, self.count, self.strength = questions, 2 * relations, strength
        self.keys = questions.source * self.count + questions.relation  # ascending
        self.members = members
        self.place = torch.full((entities,), -1)  # of each entity among the members
        self.place[members] = torch.arange(len(members))

    def voters(
        self, embeddings: Tensor, table: Tensor, itself: Tensor | None = None
    ) -> tuple[Integers, NDArray[np.float32]]:
        """V and a: entities and the weights of their votes, (rows, voters) each.

        A row of a sums to 1; it is nil for an entity that training does not know: others are alike by chance.

        Args:
            embeddings: (rows, channels) whose voters are wanted.
            table: (entities, channels).
            itself: (rows,) which entity each of them is; default: none of the table.
        """
        known = functional.normalize(table[self.members.to(table.device)], dim=1)
        cosine = functional.normalize(embeddings, dim=1) @ known.t()  # (rows, members)
        own = None if itself is None else self.place[itself].to(cosine.device)
        if own is not None:
            cosine.scatter_(1, own.clamp(min=0)[:, None], -torch.inf)
        best = cosine.topk(min(VOTERS, cosine.size(1)), dim=1)
        weights = (SHARPNESS * best.values.float()).softmax(dim=1)
        if own is not None:
            weights *= (own >= 0)[:, None]
        return self.members[best.indices.cpu()].numpy(), weights.cpu().numpy()

    def add(
        self,
        scores: Tensor,
        relation: Integers,
        voters: Integers,
        weights: NDArray[np.float32],
        itself: Integers | None = None,
    ) -> None:
        """Add the votes to ``scores``, in place.

        Args:
            scores: (questions, entities).
            relation: (questions,) r + R asks for the head.
            voters: (questions, voters) entities.
            weights: (questions, voters) of their votes.
            itself: (questions,) the sources, which get no votes; default: none of the table.
        """
        wanted = voters * self.count + relation[:, None]
        place = np.searchsorted(self.keys, wanted).clip(max=len(self.keys) - 1)
        row, slot = np.nonzero(self.keys[place] == wanted)  # voters that were asked the same
        which = place[row, slot]
        voter, answer = self.questions.answers(which)
        share = weights[row, slot] / (self.questions.start[which + 1] - self.questions.start[which])
        if itself is not None:
            others = answer != itself[row[voter]]
            voter, answer = voter[others], answer[others]
        entry, vote = np.unique(row[voter] * scores.size(1) + answer, return_inverse=True)
        total = np.bincount(vote, weights=share[voter], minlength=len(entry))
        gain = torch.from_numpy(self.strength * np.log1p(SCALE * total)).to(scores)
        scores.view(-1).index_add_(0, torch.from_numpy(entry).to(scores.device), gain)
