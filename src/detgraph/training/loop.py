"""Algorithm 1, once for all tasks, on Lightning Fabric."""

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric

from detgraph.config import TrainingConfig
from detgraph.errors import DetError
from detgraph.tasks.base import Metrics, Task
from detgraph.training.averaging import WeightAverage
from detgraph.training.checkpoint import Progress, Snapshot, load_checkpoint, save_checkpoint
from detgraph.training.half_precision import half_products_run
from detgraph.training.interrupt import Interrupted, StopRequest
from detgraph.training.optim import learning_rate, make_optimizer
from detgraph.training.run import RunFolder, versions

ALONE_BELOW = 96 * 2**20  # bytes of a step


class Diverged(DetError):
    """Training has left the realm of numbers."""


class Observer:
    """Told of what happens in training; this one keeps silent."""

    def step(self, done: int, total: int) -> None:
        """A batch is done; ``total`` counts all batches of all epochs."""

    def evaluation(self, done: int, total: int) -> None:
        """So many of all questions of a long evaluation are done."""

    def epoch(self, record: dict[str, Any]) -> None:
        """An epoch is done; ``record`` is its line in metrics.jsonl."""


@dataclass(frozen=True)
class Result:
    """The outcome of a run; ``test`` was read once, with the weights that validation chose."""

    metric: str
    higher_is_better: bool
    valid: Metrics
    test: Metrics | None
    trivial: float  # the same metric, on the test split, of the best prediction that looks at no input
    best_epoch: int
    epochs: int
    parameters: int
    seconds: float


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """So many threads for torch, and for the kernels, which use as many."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def fitting_threads(task: Task) -> AbstractContextManager[None]:
    """One thread for small steps: to wake others for each of their operations takes longer than it saves."""
    return using_threads(1 if task.memory() < ALONE_BELOW else torch.get_num_threads())


def require_validation(task: Task) -> None:
    """Refuse data without a validation split."""
    if not task.has("valid"):
        raise DetError(
            f"nothing to validate on, so nothing can choose the weights ({task.describe()}). "
            "Put some rows into the split valid, or give more data."
        )


class Trainer:
    """Trains one task into one run folder, from the start or from the folder's checkpoint.

    A search for settings must not know the test split: with ``read_test`` off it is never looked at.
    """

    def __init__(self, task: Task, config: TrainingConfig, run: RunFolder, *, read_test: bool = True) -> None:
        require_validation(task)
        self.task, self.config, self.run, self.read_test = task, config, run, read_test
        self.progress = Progress()
        self.best: Snapshot | None = None
        self.fabric = make_fabric(config)
        # Fabric takes bfloat16 on a CPU for either kind of half precision.
        if config.precision != "32-true" and self.fabric.device.type == "cpu" and not half_products_run():
            raise DetError(
                f"training.precision={config.precision}: a product in bfloat16 ends the process on this CPU. "
                "Take training.precision=32-true, or set the variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16."
            )
        # Some optimisers make their state at once, where the parameters are.
        self.optimizer = make_optimizer(task.to(self.fabric.device).parameter_groups(), config)
        self.average = WeightAverage(self.optimizer, config.average)
        # Fabric wraps the task for mixed precision.
        self.module, self.fabric_optimizer = self.fabric.setup(task, self.optimizer)
        if run.checkpoint_file.exists():
            self.progress, neighbors, self.best = load_checkpoint(run.checkpoint_file, task, self.optimizer)
            task.load_neighbor_state(neighbors)
        self.clock = self.saved_at = time.monotonic()

    def train(self, observer: Observer | None = None) -> Result:
        """Train until the last epoch, or until validation stops getting better; then test once.

        Raises:
            Interrupted: on Ctrl-C or SIGTERM, after saving a checkpoint.
            InUse: if another process trains this run.
        """
        progress, observer = self.progress, observer or Observer()
        with self.run.alone():
            self.run.check_unfinished()  # by another process, after this one had opened it
            self.run.keep_metrics_before(progress.epoch)
            with StopRequest() as stop, self.watching(stop, observer):
                while progress.step or not self.at_end():  # an epoch that was begun is also evaluated
                    self.train_epoch(stop, observer)
                    observer.epoch(self.finish_epoch())
                    self.save_if_due(stop)
                self.save()  # the last evaluations can take long, too
                return self.finish()

    @contextmanager
    def watching(self, stop: StopRequest, observer: Observer) -> Iterator[None]:
        """Tell of evaluations, and end them on request; whoever evaluates has saved, or saves then."""

        def watch(done: int, total: int) -> None:
            observer.evaluation(done, total)
            if stop.requested:
                raise Interrupted

        before, self.task.watch = self.task.watch, watch
        try:
            yield
        finally:
            self.task.watch = before

    def train_epoch(self, stop: StopRequest, observer: Observer) -> None:
        """Select neighbours where due, then one pass over the batches not yet done."""
        with fitting_threads(self.task):
            self.train_batches(stop, observer)

    def train_batches(self, stop: StopRequest, observer: Observer) -> None:
        """What `train_epoch` does, on any number of threads."""
        task, progress, config = self.task, self.progress, self.config
        if progress.step == 0:
            torch.manual_seed(mix_seed(task.seed, progress.epoch))
            task.start_epoch(progress.epoch)
            progress.sums = {}
        steps = task.steps()
        self.module.train()
        for batch in islice(task.batches(progress.epoch), progress.step, None):
            done, total = float(progress.epoch * steps + progress.step), float(config.epochs * steps)
            if config.minutes is not None:
                self.tick()
                limit = 60 * config.minutes
                if progress.seconds >= limit and progress.step:
                    break
                if progress.seconds / limit > done / total:  # the rate follows what will end training first
                    done, total = progress.seconds, limit
            rate = learning_rate(done, total, config)
            for group in self.optimizer.param_groups:
                group["lr"] = rate * group.get("scale", 1.0)
            losses = self.module(batch)
            self.fabric.backward(torch.stack(list(losses.values())).sum())
            if config.clip_norm is not None:
                self.fabric.clip_gradients(self.module, self.fabric_optimizer, max_norm=config.clip_norm)
            self.fabric_optimizer.step()
            self.fabric_optimizer.zero_grad()
            self.average.update(progress.epoch * steps + progress.step)
            progress.step += 1
            for name, loss in losses.items():
                progress.sums[name] = progress.sums.get(name, 0.0) + float(loss.detach())
            if not math.isfinite(sum(progress.sums.values())):
                raise Diverged(
                    f"the loss is not finite in epoch {progress.epoch + 1}, step {progress.step}. "
                    "A smaller training.learning_rate, or training.clip_norm=1, usually helps."
                )
            observer.step(progress.epoch * steps + progress.step, self.expected(config.epochs * steps))
            self.save_if_due(stop)

    def finish_epoch(self) -> dict[str, Any]:
        """Evaluate where due, keep the best weights, and record the epoch."""
        task, progress = self.task, self.progress
        record: dict[str, Any] = {"epoch": progress.epoch}
        record |= {name: total / progress.step for name, total in progress.sums.items()}
        self.tick()
        if self.at_end(progress.epoch + 1) or (progress.epoch + 1) % self.config.evaluate_every == 0:
            try:
                with self.average.in_use(), fitting_threads(task):
                    record["valid"] = task.evaluate("valid")
                    self.keep_if_best(record["valid"])
            except Interrupted:
                self.save()  # the epoch is trained, and will be evaluated
                raise
        progress.epoch, progress.step = progress.epoch + 1, 0
        self.tick()
        record["seconds"] = round(progress.seconds, 3)
        self.run.append_metrics(record)
        return record

    def keep_if_best(self, metrics: Metrics) -> None:
        """Keep the present weights if none before had a better validation metric."""
        progress, sign, metric = self.progress, 1 if self.task.higher_is_better else -1, self.task.metric
        if math.isnan(metrics[metric]):
            raise Diverged(
                f"the validation {metric} is not a number after epoch {progress.epoch + 1}, so it "
                "cannot choose the weights. Either training has diverged (a smaller "
                "training.learning_rate helps), or the validation part lacks labels of some class."
            )
        if progress.best is None or sign * metrics[metric] > sign * progress.best[metric]:
            progress.best, progress.best_epoch, progress.stale = metrics, progress.epoch, 0
            self.best = self.snapshot()
        else:
            progress.stale += 1

    def at_end(self, epoch: int | None = None) -> bool:
        """Whether ``epoch`` (default: the present one) is past the last, or time or patience have run out."""
        epoch = self.progress.epoch if epoch is None else epoch
        minutes, patience = self.config.minutes, self.config.patience
        if patience is not None and self.progress.stale >= patience:
            return True
        out_of_time = minutes is not None and self.progress.seconds >= 60 * minutes and epoch > 0
        return epoch >= self.config.epochs or out_of_time

    def expected(self, most: int) -> int:
        """How many of ``most`` steps there will be, as far as the time used so far tells."""
        if self.config.minutes is None:
            return most
        done = self.progress.epoch * self.task.steps() + self.progress.step
        return min(most, max(done, round(done * 60 * self.config.minutes / self.progress.seconds)))

    def finish(self) -> Result:
        """Take the weights that validation chose, read the test split once, and write the outcome."""
        task, progress = self.task, self.progress
        assert self.best is not None, "the last epoch is always evaluated"
        assert progress.best is not None
        task.load_state_dict(self.best.weights)
        task.load_neighbor_state(self.best.neighbors)
        tested = self.read_test and task.has("test")
        result = Result(
            metric=task.metric,
            higher_is_better=task.higher_is_better,
            valid=progress.best,
            test=task.evaluate("test") if tested else None,
            trivial=task.trivial("test" if tested else "valid"),
            best_epoch=progress.best_epoch,
            epochs=progress.epoch,
            parameters=sum(parameter.numel() for parameter in task.parameters()),
            seconds=round(progress.seconds, 3),
        )
        self.run.save_weights(self.best.weights, self.best.neighbors)
        self.run.save_vocabulary(task.vocabulary(), task.fingerprint())
        self.run.save_result(
            {**asdict(result), "seed": task.seed, "notes": task.notes, "versions": versions()}
        )
        self.run.checkpoint_file.unlink(missing_ok=True)
        return result

    def snapshot(self) -> Snapshot:
        """A copy of the present weights and neighbours."""
        weights = {name: tensor.detach().cpu().clone() for name, tensor in self.task.state_dict().items()}
        neighbors = {name: tensor.clone() for name, tensor in self.task.neighbor_state().items()}
        return Snapshot(weights, neighbors)

    def save_if_due(self, stop: StopRequest) -> None:
        """Save a checkpoint after each interval, and before giving way to a stop request."""
        if stop.requested or time.monotonic() - self.saved_at > self.config.checkpoint_seconds:
            self.save()
        if stop.requested:
            raise Interrupted

    def save(self) -> None:
        """Write a checkpoint."""
        self.tick()
        save_checkpoint(self.run.checkpoint_file, self.progress, self.snapshot(), self.best, self.optimizer)
        self.saved_at = time.monotonic()

    def tick(self) -> None:
        """Count the time since the last call."""
        now = time.monotonic()
        self.progress.seconds += now - self.clock
        self.clock = now


def make_fabric(config: TrainingConfig) -> Fabric:
    """The device and precision that ``config`` names."""
    try:
        return Fabric(accelerator=config.device, devices=1, precision=config.precision)
    except RuntimeError as error:
        raise DetError(
            f"training.device={config.device} cannot be used on this machine: {error} "
            "training.device=auto takes what there is."
        ) from None


def mix_seed(seed: int, epoch: int) -> int:
    """One number from two, so that each epoch's dropout depends on nothing before it."""
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> 1)
