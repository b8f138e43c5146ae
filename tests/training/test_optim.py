from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn, optim

from detgraph.config import TrainingConfig
from detgraph.training.optim import learning_rate, make_optimizer


def config(**values: Any) -> TrainingConfig:
    return TrainingConfig.model_validate({"learning_rate": 0.8, **values})


def rates(total: int, **values: Any) -> list[float]:
    return [learning_rate(step, total, config(**values)) for step in range(total + 1)]


def test_constant() -> None:
    assert rates(10) == [0.8] * 11


def test_warmup_rises_in_equal_steps_to_the_full_rate() -> None:
    assert rates(10, warmup=0.4) == pytest.approx([0.2, 0.4, 0.6, 0.8, *[0.8] * 7])


def test_warmup_over_seconds_stays_below_the_full_rate() -> None:
    config = TrainingConfig(warmup=0.05, learning_rate=0.01, minutes=0.5)
    assert max(learning_rate(second / 10, 30, config) for second in range(300)) <= 0.01


def test_linear_ends_at_zero() -> None:
    assert rates(8, schedule="linear") == pytest.approx([0.8 * (8 - step) / 8 for step in range(9)])


def test_cosine_is_halfway_in_the_middle_and_ends_at_zero() -> None:
    found = rates(8, schedule="cosine")
    assert (found[0], found[4], found[8]) == pytest.approx((0.8, 0.4, 0.0))
    assert all(later < earlier for earlier, later in pairwise(found))


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_fall_begins_where_the_warmup_ends(schedule: str) -> None:
    found = rates(10, schedule=schedule, warmup=0.5)
    assert found[4] == found[5] == max(found) == 0.8
    assert found[10] == pytest.approx(0)


@pytest.mark.parametrize("warmup", [0.01, 0.33, 1.0])
def test_any_warmup_stays_between_zero_and_the_full_rate(warmup: float) -> None:
    for total in (1, 2, 3, 7):
        found = rates(total, schedule="linear", warmup=warmup)[:total]
        assert all(0 < rate < 0.8 + 1e-9 for rate in found)


@pytest.mark.parametrize(
    ("name", "kind"), [("adam", optim.Adam), ("adamw", optim.AdamW), ("adamax", optim.Adamax)]
)
def test_optimizer_by_name(name: str, kind: type[optim.Optimizer]) -> None:
    parameter = nn.Parameter(torch.ones(2))
    found = make_optimizer([{"params": [parameter]}], config(optimizer=name, weight_decay=0.3))
    assert type(found) is kind
    assert (found.param_groups[0]["lr"], found.param_groups[0]["weight_decay"]) == (0.8, 0.3)
