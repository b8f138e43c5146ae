import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import TASKS, TaskName, molecules_csv, outcome, tiny_config, tiny_values

from detgraph.config import Config, GraphConfig, parse_config
from detgraph.data.load import load_molecules
from detgraph.errors import DetError
from detgraph.tasks import GraphTask, Metrics, NodeTask, Split
from detgraph.training import Interrupted, Observer, Result, RunFolder, Trainer, half_precision, loop
from detgraph.training.half_precision import half_products_run
from detgraph.training.launch import load_run, prepare, resume, start
from detgraph.training.optim import learning_rate


class InterruptEveryStep(Observer):
    """Press Ctrl-C after the first batch."""

    def step(self, done: int, total: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)


class InterruptEveryEpoch(Observer):
    """Press Ctrl-C at the end of the first epoch."""

    def epoch(self, record: dict[str, Any]) -> None:
        os.kill(os.getpid(), signal.SIGINT)


def train_in_pieces(config: Config, path: Path, observer: Observer) -> int:
    """Train with as many interruptions as ``observer`` causes; how many there were."""
    trainer = start(config, path)
    for pieces in range(50):
        try:
            trainer.train(observer)
            return pieces
        except Interrupted:
            trainer = resume(path)
    pytest.fail("training does not come to an end")


@pytest.mark.parametrize("task", TASKS)
def test_resumed_equals_uninterrupted_bit_for_bit(task: TaskName, tmp_path: Path) -> None:
    config = tiny_config(task, tmp_path)
    trainer = start(config, tmp_path / "whole")
    steps = config.training.epochs * trainer.task.steps()
    trainer.train()
    torch.manual_seed(99)  # nothing may hang on what the process did before
    assert train_in_pieces(config, tmp_path / "steps", InterruptEveryStep()) == steps
    torch.manual_seed(98)
    assert train_in_pieces(config, tmp_path / "epochs", InterruptEveryEpoch()) == config.training.epochs
    assert outcome(tmp_path / "steps") == outcome(tmp_path / "whole")
    assert outcome(tmp_path / "epochs") == outcome(tmp_path / "whole")


def test_an_epoch_is_interrupted_in_its_middle(tmp_path: Path) -> None:
    trainer = start(tiny_config("graph", tmp_path), tmp_path / "run")
    with pytest.raises(Interrupted):
        trainer.train(InterruptEveryStep())
    again = resume(tmp_path / "run")
    assert (again.progress.epoch, again.progress.step) == (0, 1)
    assert again.task.steps() > 1
    assert again.progress.sums == trainer.progress.sums != {}


@pytest.mark.parametrize("task", TASKS)
def test_the_seed_decides(task: TaskName, tmp_path: Path) -> None:
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        torch.manual_seed(len(name))
        start(tiny_config(task, tmp_path, {"seed": seed}, epochs=2), tmp_path / name).train()
    assert outcome(tmp_path / "one") == outcome(tmp_path / "same")
    assert outcome(tmp_path / "one")["weights"] != outcome(tmp_path / "other")["weights"]


class InterruptEvaluations(Observer):
    """Stops at the given evaluations, of all that it is told of."""

    def __init__(self, *numbers: int) -> None:
        self.told, self.numbers = 0, numbers

    def evaluation(self, done: int, total: int) -> None:
        assert 0 < done <= total
        self.told += 1
        if self.told in self.numbers:
            raise Interrupted


def test_stopped_in_evaluations_equals_uninterrupted(tmp_path: Path) -> None:
    config = tiny_config("entity", tmp_path, epochs=2)  # evaluates after both, and the test split in the end
    start(config, tmp_path / "whole").train()
    observer, trainer = InterruptEvaluations(1, 3, 5), start(config, tmp_path / "pieces")
    for _ in range(3):
        with pytest.raises(Interrupted):
            trainer.train(observer)
        trainer = resume(tmp_path / "pieces")
    trainer.train(observer)
    assert outcome(tmp_path / "pieces") == outcome(tmp_path / "whole")


def test_runs_that_follow_paths_resume_bit_for_bit(tmp_path: Path) -> None:
    paths = {"composition": "complex", "path_hops": 2, "path_channels": 8}
    training = {"optimizer": "adagrad", "path_batch": 8, "path_rate": 0.3}
    config = tiny_config("entity", tmp_path, {"model": paths}, **training)
    whole = start(config, tmp_path / "whole")
    whole.train()
    train_in_pieces(config, tmp_path / "steps", InterruptEveryStep())
    assert outcome(tmp_path / "steps") == outcome(tmp_path / "whole")


@pytest.mark.parametrize("kernels", ["auto", "torch"])
@pytest.mark.parametrize(
    ("task", "extras"),
    [
        ("graph", {"walk_steps": 3, "walk_bias": True, "rings": True, "messages": True}),
        ("entity", {}),
        ("entity", {"composition": "complex", "path_hops": 2}),
    ],
)
def test_mixed_precision_finds_nearly_the_same(
    task: TaskName, extras: dict[str, Any], kernels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not half_products_run():
        pytest.skip("a product in bfloat16 ends the process on this CPU")
    monkeypatch.setenv("DETGRAPH_KERNELS", kernels)
    model = {"model": {**extras, "dropout": 0, "attention_dropout": 0}}
    losses = []
    for precision in ("32-true", "bf16-mixed"):
        config = tiny_config(task, tmp_path, model, epochs=1, batch_size=64, precision=precision)
        start(config, tmp_path / precision).train()
        losses.append(RunFolder.open(tmp_path / precision).metrics()[0]["main"])
    assert losses[0] != losses[1] == pytest.approx(losses[0], rel=0.01)


def test_a_cpu_that_dies_of_half_precision_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(half_precision, "PRODUCT", "import os; os.abort()")
    half_products_run.cache_clear()
    config = tiny_config("graph", tmp_path, epochs=1, precision="bf16-mixed", device="cpu")
    try:
        with pytest.raises(DetError, match=r"bf16-mixed: .* Take training.precision=32-true, or"):
            start(config, tmp_path / "run")
    finally:
        half_products_run.cache_clear()
    assert not (tmp_path / "run").exists()


def standing_still(tmp_path: Path, **training: Any) -> Config:
    """A model that moves too little for its accuracy to change."""
    return tiny_config("node", tmp_path, {"model": {"tau": 1}}, epochs=30, learning_rate=1e-12, **training)


def test_patience_stops_training(tmp_path: Path) -> None:
    result = start(standing_still(tmp_path, patience=3), tmp_path / "run").train()
    assert (result.best_epoch, result.epochs) == (0, 4)


def test_patience_counts_evaluations(tmp_path: Path) -> None:
    result = start(standing_still(tmp_path, patience=3, evaluate_every=2), tmp_path / "run").train()
    assert (result.best_epoch, result.epochs) == (1, 8)


def test_a_resumed_run_has_no_new_patience(tmp_path: Path) -> None:
    pieces = train_in_pieces(standing_still(tmp_path, patience=3), tmp_path / "run", InterruptEveryEpoch())
    assert pieces == 4
    assert outcome(tmp_path / "run")["result"]["epochs"] == 4


def test_evaluate_every_and_always_at_the_end(tmp_path: Path) -> None:
    start(tiny_config("node", tmp_path, epochs=7, evaluate_every=3), tmp_path / "run").train()
    records = RunFolder.open(tmp_path / "run").metrics()
    assert [record["epoch"] for record in records if "valid" in record] == [2, 5, 6]
    assert all({"main", "sn", "seconds"} <= record.keys() for record in records)


def test_a_recorded_loss_is_the_mean_of_its_own_epoch(tmp_path: Path) -> None:
    no_dropout = {"model": {"dropout": 0, "attention_dropout": 0}}
    start(tiny_config("graph", tmp_path, no_dropout, learning_rate=1e-12), tmp_path / "run").train()
    first, *others = [record["main"] for record in RunFolder.open(tmp_path / "run").metrics()]
    assert others == pytest.approx([first] * 2, rel=1e-4)


def check_best(task: TaskName, tmp_path: Path) -> Result:
    """The result is that of the best epoch by validation, and the weights kept give it again.

    The learning rate is so high that with one of a few seeds the last epoch is not the best.
    """
    for seed in range(5):
        path = tmp_path / f"seed{seed}"
        config = tiny_config(task, tmp_path, {"seed": seed}, epochs=12, learning_rate=0.3)
        result = start(config, path).train()
        found = [record["valid"][result.metric] for record in RunFolder.open(path).metrics()]
        best = max(found) if result.higher_is_better else min(found)
        assert result.best_epoch == found.index(best)
        assert result.valid[result.metric] == best
        if best != found[-1]:
            again = load_run(path)
            assert again.evaluate("valid") == result.valid
            assert again.evaluate("test") == result.test
            return result
    pytest.fail("the last epoch was the best with every seed")


def test_best_weights_where_lower_is_better(tmp_path: Path) -> None:
    assert not check_best("graph", tmp_path).higher_is_better


@pytest.mark.parametrize("task", ["node", "entity"])
def test_best_weights_where_higher_is_better(task: TaskName, tmp_path: Path) -> None:
    assert check_best(task, tmp_path).higher_is_better


@pytest.mark.parametrize("k", [0, 2])
@pytest.mark.parametrize("semantic_set", ["union", "fetched"])
def test_neighbors_put_back_change_nothing(k: int, semantic_set: str, tmp_path: Path) -> None:
    changes: dict[str, dict[str, Any]] = {"neighbors": {"k": k}, "model": {"semantic_set": semantic_set}}
    task = prepare(tiny_config("node", tmp_path, changes))
    assert isinstance(task, NodeTask)
    task.start_epoch(0)
    before, _ = task.predict("valid")
    task.load_neighbor_state(task.neighbor_state())
    after, _ = task.predict("valid")
    assert torch.equal(before, after)


class CountingTask(GraphTask):
    """Remembers which splits were evaluated."""

    def evaluate(self, split: Split) -> Metrics:
        self.__dict__.setdefault("evaluated", []).append(split)
        return super().evaluate(split)


def test_the_test_split_is_read_once_after_training(tmp_path: Path) -> None:
    config = tiny_config("graph", tmp_path, epochs=4)
    assert isinstance(config, GraphConfig)
    task = CountingTask(load_molecules(config.data), config)
    Trainer(task, config.training, RunFolder.create(tmp_path / "run", config)).train()
    assert task.__dict__["evaluated"] == ["valid"] * 4 + ["test"]


def test_a_loss_that_is_not_finite(tmp_path: Path) -> None:
    trainer = start(tiny_config("graph", tmp_path, learning_rate=1e30), tmp_path / "run")
    with pytest.raises(DetError, match=r"not finite in epoch 1, step \d.*training\.learning_rate.*clip_norm"):
        trainer.train()
    assert RunFolder.open(tmp_path / "run").result() is None


def test_a_metric_that_is_not_a_number(tmp_path: Path) -> None:
    config = tiny_config("graph", tmp_path, {"data": {"kind": "classification"}})
    labels = [0.0 if row % 5 == 3 else float(row % 2) for row in range(20)]  # valid has one class only
    molecules_csv(tmp_path, targets=labels)
    with pytest.raises(DetError, match=r"validation auc is not a number.*labels"):
        start(config, tmp_path / "run").train()


def test_no_validation_part(tmp_path: Path) -> None:
    values = tiny_values("graph", tmp_path)
    molecules_csv(tmp_path, splits=("train", "train", "test"))
    with pytest.raises(DetError, match="nothing to validate on"):
        start(parse_config(values, folder=tmp_path), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_no_test_part(tmp_path: Path) -> None:
    values = tiny_values("graph", tmp_path)
    molecules_csv(tmp_path, splits=("train", "train", "valid"))
    result = start(parse_config(values, folder=tmp_path), tmp_path / "run").train()
    assert result.test is None
    assert result.trivial > 0
    assert json.loads((tmp_path / "run/result.json").read_text())["test"] is None


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("needs a machine without CUDA")
    with pytest.raises(DetError, match=r"training\.device=cuda cannot be used.*training\.device=auto"):
        start(tiny_config("node", tmp_path, device="cuda"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_finished_run_keeps_no_checkpoint(tmp_path: Path) -> None:
    start(tiny_config("node", tmp_path, checkpoint_seconds=0), tmp_path / "run").train()
    files = {path.name for path in (tmp_path / "run").iterdir()}
    assert files == {
        *("config.yaml", "versions.json", "metrics.jsonl", "result.json"),
        *("model.safetensors", "neighbors.safetensors", "vocabulary.json"),
    }
    with pytest.raises(DetError, match=r"has finished already.*det evaluate"):
        resume(tmp_path / "run")


class CountSteps(Observer):
    """How many batches were done."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self, done: int, total: int) -> None:
        self.steps += 1


def with_minutes(folder: Path, minutes: float) -> Config:
    return tiny_config("graph", folder, minutes=minutes, schedule="cosine")


def test_time_ends_training_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    observer = CountSteps()
    trainer = start(with_minutes(tmp_path, 1e-9), tmp_path / "run")
    result = trainer.train(observer)
    assert observer.steps == 1 < trainer.task.steps()
    assert (result.epochs, result.best_epoch) == (1, 0)
    assert result.test is not None


def test_time_enough_changes_nothing(tmp_path: Path) -> None:
    observer = CountSteps()
    trainer = start(with_minutes(tmp_path, 1e6), tmp_path / "run")
    result = trainer.train(observer)
    assert result.epochs == trainer.config.epochs
    steps = result.epochs * trainer.task.steps()
    assert observer.steps == steps
    last = learning_rate(steps - 1, steps, trainer.config)
    assert trainer.optimizer.param_groups[0]["lr"] == pytest.approx(last) != trainer.config.learning_rate


def test_a_run_out_of_time_is_not_trained_on(tmp_path: Path) -> None:
    trainer = start(with_minutes(tmp_path, 1e-9), tmp_path / "run")
    with pytest.raises(Interrupted):
        trainer.train(InterruptEveryEpoch())
    observer = CountSteps()
    assert resume(tmp_path / "run").train(observer).epochs == 1
    assert observer.steps == 0


class ThreadsSeen(Observer):
    """How many threads torch had in each step."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def step(self, done: int, total: int) -> None:
        self.seen.add(torch.get_num_threads())


def test_small_steps_take_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(2)
    try:
        small, large = ThreadsSeen(), ThreadsSeen()
        start(tiny_config("node", tmp_path), tmp_path / "small").train(small)
        assert torch.get_num_threads() == 2
        monkeypatch.setattr(loop, "ALONE_BELOW", 0)
        start(tiny_config("node", tmp_path), tmp_path / "large").train(large)
    finally:
        torch.set_num_threads(1)
    assert (small.seen, large.seen) == ({1}, {2})
