"""The running mean of weights: its formula, standing in for them, and in a training that is resumed."""

import os
import signal
from pathlib import Path

import pytest
import torch
from tiny_runs import outcome, tiny_config
from torch import nn, optim

from detgraph.training import Interrupted, Observer
from detgraph.training.averaging import WeightAverage
from detgraph.training.launch import resume, start


def test_the_mean_follows_its_formula_and_stands_in() -> None:
    torch.manual_seed(0)
    model, unused = nn.Linear(3, 2), nn.Parameter(torch.ones(2))
    optimizer = optim.Adam([*model.parameters(), unused], lr=0.1, fused=True)
    average = WeightAverage(optimizer, 0.5)
    expected = None
    for step in range(6):
        torch.autograd.backward(model(torch.randn(4, 3)).square().sum())
        optimizer.step()
        optimizer.zero_grad()
        average.update(step)
        decay = min(0.5, (1 + step) / (10 + step))
        weight = model.weight.detach().clone()
        expected = weight if expected is None else decay * expected + (1 - decay) * weight
    assert expected is not None
    last = model.weight.detach().clone()
    with average.in_use():
        torch.testing.assert_close(model.weight.detach(), expected)
        assert torch.equal(unused, torch.ones(2))
    assert torch.equal(model.weight, last)
    assert not torch.allclose(last, expected)


def test_weights_come_back_after_an_error() -> None:
    model = nn.Linear(2, 2)
    optimizer = optim.Adam(model.parameters())
    average = WeightAverage(optimizer, 0.9)
    torch.autograd.backward(model(torch.ones(1, 2)).sum())
    optimizer.step()
    average.update(0)
    optimizer.step()
    last = model.weight.detach().clone()
    with pytest.raises(KeyError), average.in_use():
        raise KeyError
    assert torch.equal(model.weight, last)


class StopAtThree(Observer):
    """Press Ctrl-C after the third batch."""

    def step(self, done: int, total: int) -> None:
        if done == 3:
            os.kill(os.getpid(), signal.SIGINT)


def test_it_changes_the_outcome_and_survives_an_interruption(tmp_path: Path) -> None:
    plain = start(tiny_config("graph", tmp_path), tmp_path / "plain").train()
    config = tiny_config("graph", tmp_path, average=0.9)
    whole = start(config, tmp_path / "whole").train()
    assert whole.valid != plain.valid
    trainer = start(config, tmp_path / "pieces")
    with pytest.raises(Interrupted):
        trainer.train(StopAtThree())
    resume(tmp_path / "pieces").train()
    assert outcome(tmp_path / "pieces") == outcome(tmp_path / "whole")
