"""One hop of the path encoder: messages along the edges that leave what a question has reached.

Nodes of a question lie one after the other, and so do its edges; one thread writes all that belongs to it,
in a fixed order.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from detgraph.kernels.choice import fused_on
from detgraph.kernels.lanes import PARALLEL, Array, use_threads
from detgraph.kernels.vector import LANES, load, store


class Hop(NamedTuple):
    """The edges of one hop, of all questions; nodes are numbered within their question."""

    senders: Array  # (questions + 1,) where each question's sending nodes begin
    receivers: Array  # (questions + 1,) where its receiving nodes begin
    begin: Array  # (questions,) its first edge
    end: Array  # (questions,) after its last edge
    sender: Array  # (edges,) int32
    receiver: Array  # (edges,) int32
    relation: Array  # (edges,) int32

    def edges(self) -> tuple[Array, Array, Array, Array]:
        """Sender, receiver, relation and question of every edge; nodes numbered over all questions."""
        count = self.end - self.begin
        question = np.repeat(np.arange(len(count)), count)
        edge = np.arange(len(question)) - np.repeat(np.cumsum(count) - count - self.begin, count)
        sender = self.senders[question] + self.sender[edge]
        return (
            sender,
            self.receivers[question] + self.receiver[edge],
            self.relation[edge].astype(np.int64),
            question,
        )


def path_step(states: Tensor, relation: Tensor, hop: Hop) -> Tensor:
    r""":math:`m_v = \sum_{u \to_r v} h_u \odot e_{qr}` for all nodes v that a question q reaches.

    Args:
        states: h, (sending nodes, channels); channels are a multiple of 8 for the kernel.
        relation: e, (questions, relations, channels).
        hop: who sends to whom.

    Returns:
        (receiving nodes, channels).
    """
    if fused_on(states) and states.size(1) % LANES == 0:
        out: Tensor = _PathStep.apply(states.float(), relation.float(), hop)  # type: ignore[no-untyped-call]  # torch
        return out
    return plain_path_step(states, relation, hop)


def plain_path_step(states: Tensor, relation: Tensor, hop: Hop) -> Tensor:
    """The same in plain torch, on any device: all edges exist at once."""
    sender, receiver, along, question = (torch.from_numpy(part).to(states.device) for part in hop.edges())
    messages = states[sender] * relation[question, along]
    return states.new_zeros((int(hop.receivers[-1]), states.size(1))).index_add(0, receiver, messages)


class _PathStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, relation: Tensor, hop: Hop) -> Tensor:
        inputs = [tensor.detach().contiguous().numpy() for tensor in (states, relation)]
        use_threads(int((hop.end - hop.begin).sum()) * states.size(1))
        out = np.zeros((hop.receivers[-1], states.size(1)), np.float32)
        send(*inputs, *hop, out)
        ctx.saved = inputs, hop
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (states, relation), hop = ctx.saved
        use_threads(int((hop.end - hop.begin).sum()) * states.shape[1])
        found = np.zeros_like(states), np.zeros_like(relation)
        send_back(grad.contiguous().numpy(), states, relation, *hop, *found)
        return *(torch.from_numpy(part) for part in found), None


@njit(**PARALLEL)
def send(
    states: Array,
    by_relation: Array,
    senders: Array,
    receivers: Array,
    begin: Array,
    end: Array,
    sender: Array,
    receiver: Array,
    relation: Array,
    out: Array,
) -> None:
    """Messages of all edges; ``out`` is added to."""
    width, relations = states.shape[1], by_relation.shape[1]
    for q in prange(len(begin)):
        for edge in range(begin[q], end[q]):
            at = (senders[q] + sender[edge]) * width
            to = (receivers[q] + receiver[edge]) * width
            by = (q * relations + relation[edge]) * width
            for c in range(0, width, LANES):
                message = load(states, at + c) * load(by_relation, by + c)
                store(out, to + c, load(out, to + c) + message)


@njit(**PARALLEL)
def send_back(
    grad: Array,
    states: Array,
    by_relation: Array,
    senders: Array,
    receivers: Array,
    begin: Array,
    end: Array,
    sender: Array,
    receiver: Array,
    relation: Array,
    grad_states: Array,
    grad_by_relation: Array,
) -> None:
    """Gradients of `send`, which are added to."""
    width, relations = states.shape[1], by_relation.shape[1]
    for q in prange(len(begin)):
        for edge in range(begin[q], end[q]):
            at = (senders[q] + sender[edge]) * width
            to = (receivers[q] + receiver[edge]) * width
            by = (q * relations + relation[edge]) * width
            for c in range(0, width, LANES):
                slope = load(grad, to + c)
                store(grad_states, at + c, load(grad_states, at + c) + slope * load(by_relation, by + c))
                store(grad_by_relation, by + c, load(grad_by_relation, by + c) + slope * load(states, at + c))
