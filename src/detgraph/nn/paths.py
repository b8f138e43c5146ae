"""The structural encoder over several hops: what a question reaches along edges, and how."""

import numpy as np
import torch
from torch import Tensor, nn

from detgraph.kernels.path_step import Hop, path_step
from detgraph.kernels.reach import Reached


class PathLayer(nn.Module):
    r"""One hop, of which the asked relation decides what each edge is worth.

    .. math::
        h'_v = h_v + [\mathrm{LN}(A m_v + B h_v)]_+, \qquad m_v = \sum_{u \to_r v} h_u \odot (R_r q + b_r)

    Args:
        relations: that can be walked along, inverses included.
        channels: size of the states.
    """

    def __init__(self, relations: int, channels: int) -> None:
        super().__init__()
        self.relations = relations
        self.by_relation = nn.Linear(channels, relations * channels)
        self.message = nn.Linear(channels, channels)
        self.state = nn.Linear(channels, channels, bias=False)
        self.norm = nn.LayerNorm(channels)
        nn.init.normal_(self.by_relation.bias)

    def forward(self, states: Tensor, question: Tensor, hop: Hop, old: Tensor, new: Tensor) -> Tensor:
        """New states of all that receives.

        Args:
            states: (sending nodes, channels).
            question: q, (questions, channels).
            hop: who sends to whom.
            old: (receivers that also send,) where they are among what sends.
            new: where they are among what receives.
        """
        along = self.by_relation(question).view(len(question), self.relations, -1)
        before = states.index_select(0, old)
        sums = self.message(path_step(states, along, hop)).index_add(0, new, self.state(before))
        # Sums of states stay whole where mixed precision makes products in halves.
        after: Tensor = self.norm(sums.float()).relu().index_add(0, new, before)
        return after


class PathEncoder(nn.Module):
    r"""A score of each entity that a question (source, q, ?) reaches in L hops.

    .. math::
        s_v = o \cdot [C h^L_v + D q]_+ + b, \qquad h^0_{source} = q

    Edges leave from what is reached by then. No embedding of an entity is read, so that what is learned holds
    for entities that training has not seen.

    Args:
        relations: that can be asked for and walked along, inverses included.
        channels: size of the states.
        hops: L.
    """

    def __init__(self, relations: int, channels: int, hops: int) -> None:
        super().__init__()
        self.question = nn.Parameter(torch.randn(relations, channels))
        self.layers = nn.ModuleList(PathLayer(relations, channels) for _ in range(hops))
        self.state = nn.Linear(channels, channels)
        self.asked = nn.Linear(channels, channels, bias=False)
        self.out = nn.Linear(channels, 1)

    def forward(self, reached: Reached, relation: Tensor) -> Tensor:
        """Scores of all goals, (goals,).

        Args:
            reached: by the questions.
            relation: (questions,) asked for.
        """
        question = self.question.index_select(0, relation)
        states, last = question, len(self.layers) - 1
        for number, (layer, hop) in enumerate(zip(self.layers, reached.hops, strict=True)):
            if number < last:  # what sends is the beginning of each question's receivers
                old = np.arange(len(states))
                new = old + np.repeat(hop.receivers[:-1] - hop.senders[:-1], np.diff(hop.senders))
            else:
                new = np.flatnonzero(reached.node >= 0)
                old = reached.node[new]
            states = layer(
                states, question, hop, *(torch.from_numpy(part).to(states.device) for part in (old, new))
            )
        of = torch.from_numpy(reached.question).to(states.device)
        hidden = self.state(states) + self.asked(question).index_select(0, of)
        scores: Tensor = self.out(hidden.relu())[:, 0]
        return scores.float()  # mixed precision gives halves
