"""Optimisers and the learning rate as a function of the step."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import optim

from detgraph.config import TrainingConfig

OPTIMIZERS: dict[str, Callable[..., optim.Optimizer]] = {
    "adam": partial(optim.Adam, fused=True),  # one pass over all parameters instead of several over each
    "adamw": partial(optim.AdamW, fused=True),
    "adamax": optim.Adamax,
    "adagrad": partial(optim.Adagrad, fused=True),
}


def make_optimizer(groups: list[dict[str, Any]], config: TrainingConfig) -> optim.Optimizer:
    """The optimiser that ``config`` names, of groups as `Task.parameter_groups` gives them."""
    return OPTIMIZERS[config.optimizer](groups, lr=config.learning_rate, weight_decay=config.weight_decay)


def learning_rate(step: float, total: float, config: TrainingConfig) -> float:
    """Linear warm-up, then constant, or falling to 0 along a line or half a cosine.

    ``step`` of ``total`` are batches, or seconds where the time is limited.
    """
    warmup = config.warmup * total
    if step < warmup:
        return config.learning_rate * min(1.0, (step + 1) / math.ceil(warmup))
    done = min((step - warmup) / max(1, total - warmup), 1.0)
    factor = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}
    return config.learning_rate * factor[config.schedule]
