"""Sparse dual attention as one differentiable operation."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from detgraph.kernels.attention_kernels import (
    RECORD,
    add_gains,
    backward_sources,
    backward_targets,
    forward,
    note_moved,
    spread,
)
from detgraph.kernels.lanes import Array, Layout, draw_seed, dropout_limit, layout, use_threads
from detgraph.kernels.pairs import CHUNKS, PairIndex
from detgraph.kernels.semantic import FORMS, NONE


class Attended(NamedTuple):
    """States (nodes, heads, channels) and each encoder's weights (pairs, heads)."""

    states: Tensor
    first: Tensor
    second: Tensor | None


class Plan(NamedTuple):
    """What the two encoders read and attend to."""

    pairs: PairIndex
    in_first: Array  # (pairs,) bool
    in_second: Array
    use_dot: bool
    """Whether the first encoder reads dot products."""
    use_z: bool
    """Whether the first encoder reads ⊖."""
    dual: bool
    """Whether there is a second encoder, which reads ⊖."""
    dot_to_second: bool
    form: str | None
    """Form of ⊖."""
    dropout: float
    hops: int
    """How often the weights are applied; more than once: the mean over 0, 1, …, hops times."""


def dual_attention(h: Tensor, weight: Tensor | None, tau: Tensor | float, plan: Plan) -> Attended:
    r"""``h_i = Σ_j (τ·A¹_ij + (1-τ)·A²_ij) h_j`` with states that are query, key and value at once.

    With ``plan.hops`` K > 1 the mean of ``P^k h``, k = 0 … K, where P are these weights.

    Args:
        h: (nodes, heads, channels).
        weight: positive weights of ⊖, (heads, channels).
        tau: share of the first encoder; 1 where there is no second.
        plan: what the encoders read.
    """
    states, first, second = _DualAttention.apply(h, weight, torch.as_tensor(tau), plan)  # type: ignore[no-untyped-call]  # torch
    return Attended(states, first, second if plan.dual else None)


class _DualAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor | None, tau: Tensor, plan: Plan) -> tuple[Tensor, ...]:
        _, heads, channels = h.shape
        form = layout(heads, channels)
        use_threads(len(plan.pairs.source) * form.width)
        rows = form.pack(h)
        weights = np.zeros(form.width, np.float32) if weight is None else form.pack(weight[None])[0]
        pairs = len(plan.pairs.source)
        first = np.empty((pairs, form.lanes), np.float32)
        second = np.empty((pairs if plan.dual else 0, form.lanes), np.float32)
        weights_used = np.empty((pairs if plan.hops > 1 else 0, form.lanes), np.float32)
        reached = [rows, np.empty_like(rows)]  # after 0, 1, … hops
        settings = (
            plan.in_first,
            plan.in_second,
            FORMS[plan.form] if plan.form else NONE,
            plan.use_dot,
            plan.use_z,
            plan.dual,
            plan.dot_to_second,
            form.shift,
            np.float32(channels**-0.5),
            np.float32(tau),
            draw_seed() if plan.dropout else np.uint32(0),
            dropout_limit(plan.dropout),
            np.float32(1 / (1 - plan.dropout)),
        )
        index = plan.pairs
        forward(
            rows,
            weights,
            index.start,
            index.source,
            index.chunks,
            *settings,
            first,
            second,
            weights_used,
            reached[1],
        )
        for _ in range(1, plan.hops):
            reached.append(np.empty_like(rows))
            spread(weights_used, index.start, index.source, index.chunks, reached[-2], reached[-1])
        out = reached[1] if plan.hops == 1 else sum(reached[1:], rows) / np.float32(plan.hops + 1)
        ctx.saved = (form, reached[:-1], weights, first, second, weights_used, settings, index)
        outputs = form.unpack(out), form.per_head(first), form.per_head(second)
        ctx.mark_non_differentiable(*outputs[1:])
        return outputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        form, reached, weights, first, second, weights_used, settings, index = ctx.saved
        assert isinstance(form, Layout)
        rows = reached[0]
        use_threads(len(first) * form.width)
        grad_out = form.pack(grad)
        gains, moved = np.zeros_like(weights_used), np.zeros(len(rows), np.bool_)
        note_moved(grad_out, moved)
        if len(weights_used):
            grad_out /= np.float32(len(reached) + 1)
            grad_rows = spread_back(grad_out, reached, weights_used, index, form, gains, moved)
        record = np.empty((len(first), RECORD * form.lanes), np.float32)
        grad_h = np.empty_like(rows)
        grad_weight = np.zeros((CHUNKS, form.width), np.float32)
        grad_tau = np.zeros((CHUNKS, form.lanes), np.float32)
        backward_targets(
            rows,
            weights,
            index.start,
            index.source,
            index.slot,
            index.chunks,
            *settings,
            first,
            second,
            grad_out,
            moved,
            gains,
            record,
            grad_h,
            grad_weight,
            grad_tau,
        )
        backward_sources(
            rows,
            weights,
            index.by_source_start,
            index.by_source_target,
            index.by_source_chunks,
            settings[2],
            grad_out,
            moved,
            record,
            grad_h,
        )
        if len(weights_used):
            grad_h += grad_rows
        needs_weight, needs_tau = ctx.needs_input_grad[1:3]
        return (
            form.unpack(grad_h),
            form.unpack(grad_weight.sum(axis=0, keepdims=True))[0] if needs_weight else None,
            form.per_head(grad_tau.sum(axis=0, keepdims=True)).sum() if needs_tau else None,
            None,
        )


def spread_back(
    grad: Array,
    reached: list[Array],
    weights: Array,
    index: PairIndex,
    form: Layout,
    gains: Array,
    moved: Array,
) -> Array:
    """Gradients of the mean over hops: in the weights (added to ``gains``) and in the first states.

    Args:
        grad: gradient of each hop's states by way of the mean, (nodes, width).
        reached: states after 0, 1, … hops, but for the last.
        weights: (pairs, lanes).
        index: the pairs.
        form: layout of heads and channels.
        gains: (pairs, lanes).
        moved: (nodes,) nodes with a gradient; those that one reaches on the way are added.
    """
    by_source = np.empty_like(weights)
    by_source[index.slot] = weights
    flow = grad  # gradient of the states after the present hop
    for x in reversed(reached):
        note_moved(flow, moved)
        add_gains(flow, index.start, index.source, index.chunks, x, form.shift, gains)
        back = np.empty_like(grad)
        spread(by_source, index.by_source_start, index.by_source_target, index.by_source_chunks, flow, back)
        flow = back + grad
    return flow
