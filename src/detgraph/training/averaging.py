"""A running mean of the weights, which generalises better than the last weights of a noisy descent."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn, optim

ENTRY = "average"


class WeightAverage:
    r""":math:`\bar w \leftarrow d\,\bar w + (1 - d)\,w` after each step, with d rising to ``decay``.

    The mean is kept in the optimiser's state, beside its own means, and so belongs to every checkpoint.

    Args:
        optimizer: whose parameters are averaged.
        decay: how slowly the mean moves; None = no mean, weights are used as they are.
    """

    def __init__(self, optimizer: optim.Optimizer, decay: float | None) -> None:
        self.optimizer, self.decay = optimizer, decay

    def pairs(self) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Parameters with their means, where there is one."""
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                state = self.optimizer.state[parameter]
                if ENTRY in state:
                    yield parameter, state[ENTRY]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after ``step`` steps; to be called after the optimiser's step."""
        if self.decay is None:
            return
        decay = min(self.decay, (1 + step) / (10 + step))  # the first weights are soon forgotten
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                state = self.optimizer.state[parameter]
                if ENTRY in state:
                    state[ENTRY].lerp_(parameter, 1 - decay)
                elif state:  # a parameter without a gradient has no state, and stays as it is
                    state[ENTRY] = parameter.detach().clone()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """The means stand in for the weights."""
        pairs = list(self.pairs())
        own = [parameter.data for parameter, _ in pairs]
        try:
            for parameter, mean in pairs:
                parameter.data = mean
            yield
        finally:
            for (parameter, _), weights in zip(pairs, own, strict=True):
                parameter.data = weights
