"""Softmax cross-entropy of many answers among many candidates, with its gradient made on the way."""

from typing import Any

import torch
from torch import Tensor


def answer_loss(
    states: Tensor,
    candidates: Tensor,
    question: Tensor,
    answer: Tensor,
    smoothing: float,
    extra: Tensor | None,
) -> Tensor:
    r""":math:`-\frac{1}{|A|} \sum_{(q, a) \in A} \ln \mathrm{softmax}(h_q \cdot e + b)_a`, smoothed.

    Scores exist once: they turn into probabilities, and these into the gradient, in place.

    Args:
        states: (questions, channels).
        candidates: (candidates, channels).
        question: (answers,) row of ``states``.
        answer: (answers,) row of ``candidates``.
        smoothing: share of an answer's weight that all entities have in common.
        extra: (candidates,) added to the scores: logarithms of how many entities each stands for; or None.
    """
    loss: Tensor = _AnswerLoss.apply(states, candidates, question, answer, smoothing, extra)  # type: ignore[no-untyped-call]  # torch
    return loss


def scored_answer_loss(
    scores: Tensor, question: Tensor, answer: Tensor, smoothing: float, extra: Tensor | None
) -> Tensor:
    """The same of any scores (questions, candidates)."""
    likely = (scores if extra is None else scores + extra).log_softmax(dim=1)
    loss = -(1 - smoothing) * likely[question, answer].mean()
    if smoothing:
        loss = loss - smoothing * (likely @ stands_for(extra, scores.size(1), scores))[question].mean()
    return loss


def stands_for(extra: Tensor | None, candidates: int, like: Tensor) -> Tensor:
    """The share of all entities that each candidate stands for, (candidates,)."""
    return like.new_full((candidates,), 1 / candidates) if extra is None else extra.softmax(dim=0)


class _AnswerLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        candidates: Tensor,
        question: Tensor,
        answer: Tensor,
        smoothing: float,
        extra: Tensor | None,
    ) -> Tensor:
        scores = states @ candidates.t() if extra is None else torch.addmm(extra, states, candidates.t())
        likely = scores.type_as(states).log_softmax(dim=1)  # mixed precision halves products
        weight = states.new_full((len(answer),), 1 / len(answer))
        total = torch.zeros_like(states[:, 0]).index_add_(0, question, weight)  # (questions,)
        loss = -(1 - smoothing) * likely[question, answer].mean()
        if smoothing:
            share = stands_for(extra, len(candidates), states)
            loss = loss - smoothing * (likely @ share * total).sum()
        slope = likely.exp_().mul_(total[:, None])
        if smoothing:
            slope.addr_(total, share, alpha=-smoothing)
        slope.index_put_((question, answer), -(1 - smoothing) * weight, accumulate=True)
        ctx.save_for_backward(states, candidates, slope)
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        states, candidates, slope = ctx.saved_tensors
        return grad * (slope @ candidates), grad * (slope.t() @ states), None, None, None, None
