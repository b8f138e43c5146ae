"""The loss of many answers, against cross-entropy one answer at a time."""

import pytest
import torch
from torch.nn import functional

from detgraph.nn.answer_loss import answer_loss, scored_answer_loss


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("with_extra", [False, True])
def test_equals_cross_entropy_of_each_answer(smoothing: float, with_extra: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(5, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    candidates = torch.randn(9, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    question, answer = torch.tensor([0, 0, 0, 2, 3, 4, 4]), torch.tensor([1, 8, 3, 3, 0, 0, 5])
    extra = torch.randn(9, generator=generator, dtype=torch.float64) if with_extra else None
    loss = answer_loss(states, candidates, question, answer, smoothing, extra)
    scores = states @ candidates.t() + (0 if extra is None else extra)
    # The rest of an answer's weight goes to all entities: to candidates by how many they stand for.
    common = (
        torch.full((9,), 1 / 9, dtype=torch.float64) if extra is None else extra.exp() / extra.exp().sum()
    )
    weights = (1 - smoothing) * functional.one_hot(answer, 9) + smoothing * common
    expected = functional.cross_entropy(scores[question], weights)
    torch.testing.assert_close(loss, expected)
    plain = scored_answer_loss(states @ candidates.t(), question, answer, smoothing, extra)
    torch.testing.assert_close(plain, expected)
    ours = torch.autograd.grad(3 * loss, [states, candidates])
    theirs = torch.autograd.grad(3 * expected, [states, candidates])
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)
