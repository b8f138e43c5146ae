import json
from pathlib import Path

import pytest
import torch
from torch import nn, optim
from torch.nn import functional

from detgraph.config import TrainingConfig
from detgraph.errors import DetError
from detgraph.training.checkpoint import Progress, Snapshot, load_checkpoint, save_checkpoint
from detgraph.training.optim import OPTIMIZERS, make_optimizer


def fresh(name: str) -> tuple[nn.Module, optim.Optimizer]:
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.Linear(3, 1))
    config = TrainingConfig.model_validate({"optimizer": name, "learning_rate": 0.1, "weight_decay": 0.01})
    return model, make_optimizer([{"params": list(model.parameters())}], config)


def steps(model: nn.Module, optimizer: optim.Optimizer, count: int) -> None:
    for _ in range(count):
        optimizer.zero_grad()
        torch.autograd.backward(functional.mse_loss(model(torch.randn(5, 4)), torch.ones(5, 1)))
        optimizer.step()


def save(path: Path, model: nn.Module, optimizer: optim.Optimizer, best: Snapshot | None = None) -> Progress:
    progress = Progress(3, 2, None if best is None else {"mrr": 0.25}, 1, 4, 5.5, {"main": 1.25})
    now = Snapshot(dict(model.state_dict()), {"0": torch.tensor([[1, -1]])})
    save_checkpoint(path, progress, now, best, optimizer)
    return progress


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_weights_and_random_state_go_on(name: str, tmp_path: Path) -> None:
    model, optimizer = fresh(name)
    steps(model, optimizer, 3)
    saved = save(tmp_path / "c.safetensors", model, optimizer)
    steps(model, optimizer, 3)

    torch.manual_seed(7)
    again, its_optimizer = fresh(name)
    progress, neighbors, best = load_checkpoint(tmp_path / "c.safetensors", again, its_optimizer)
    assert (progress, best) == (saved, None)
    assert neighbors["0"].tolist() == [[1, -1]]
    steps(again, its_optimizer, 3)
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_best_snapshot_comes_back(tmp_path: Path) -> None:
    model, optimizer = fresh("adam")
    best = Snapshot({"0.weight": torch.ones(3, 4)}, {"entities": torch.tensor([[5]])})
    save(tmp_path / "c.safetensors", model, optimizer, best)
    _, _, found = load_checkpoint(tmp_path / "c.safetensors", *fresh("adam"))
    assert found is not None
    assert torch.equal(found.weights["0.weight"], best.weights["0.weight"])
    assert torch.equal(found.neighbors["entities"], best.neighbors["entities"])
    assert found.weights.keys() == best.weights.keys()


def test_the_file_is_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    save(path, *fresh("adamw"))
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")  # the format: length of a JSON header, header, numbers
    header = json.loads(content[8 : 8 + length])
    assert "now.weights/0.weight" in header
    assert json.loads(header["__metadata__"]["progress"])["epoch"] == 3


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_file(kept: float, tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    save(path, *fresh("adam"))
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(DetError, match=r"c\.safetensors is damaged .* Delete it to train this run from its"):
        load_checkpoint(path, *fresh("adam"))


def test_a_checkpoint_of_another_model(tmp_path: Path) -> None:
    save(tmp_path / "c.safetensors", *fresh("adam"))
    other = nn.Linear(2, 2)
    with pytest.raises(DetError, match=r"does not fit .*has the data changed\?"):
        load_checkpoint(tmp_path / "c.safetensors", other, optim.Adam(other.parameters()))
