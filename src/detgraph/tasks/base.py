"""What a task is to the training loop: batches, losses, metrics."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

Split = Literal["train", "valid", "test"]
Metrics = dict[str, float]


class Task(nn.Module, ABC):
    """A model together with its data, its loss and its metric.

    Calling a task with a batch gives the named parts of the loss, already weighted; their sum is minimised.
    All randomness of an epoch comes from ``(seed, epoch)``, so training can go on from any step.
    """

    metric: str
    """The validation metric that chooses the checkpoint."""
    higher_is_better: bool
    model: nn.Module
    data: Any
    """`Network`, `Molecules` or `Triples`."""

    def __init__(self, seed: int, notes: tuple[str, ...]) -> None:
        super().__init__()
        self.seed = seed
        self.notes = notes
        """What was done to the data and has to be said beside every number."""
        self.watch: Callable[[int, int], None] = _unwatched
        """Told of long evaluations: how many of all questions are done. It may raise, to end them."""

    @abstractmethod
    def forward(self, batch: Any) -> dict[str, Tensor]:
        """Weighted parts of the loss, ``main`` first."""

    @abstractmethod
    def steps(self) -> int:
        """Batches an epoch."""

    @abstractmethod
    def batches(self, epoch: int) -> Iterator[Any]:
        """The training batches of an epoch, on the model's device."""

    @abstractmethod
    def evaluate(self, split: Split) -> Metrics:
        """Metrics of a split with the present weights."""

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Parameters as an optimiser takes them; ``scale`` is a group's share of the learning rate."""
        return [{"params": list(self.parameters())}]

    def start_epoch(self, epoch: int) -> None:
        """Algorithm 1: select the semantic neighbours, where they are due."""

    def neighbor_state(self) -> dict[str, Tensor]:
        """The semantic neighbours in use, which belong to a checkpoint."""
        return {}

    def load_neighbor_state(self, state: dict[str, Tensor]) -> None:
        """Put back what `neighbor_state` gave."""

    @abstractmethod
    def has(self, split: Split) -> bool:
        """Whether there is anything to evaluate in ``split``."""

    @abstractmethod
    def vocabulary(self) -> dict[str, Any]:
        """Names behind the numbers, for prediction: plain values that JSON can hold."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A checksum of the data in use: names, structure, labels and splits."""

    @abstractmethod
    def describe(self) -> str:
        """The data in one line, for people."""

    @abstractmethod
    def trivial(self, split: Split) -> float:
        """The metric of the best prediction that looks at no input: what any model must beat."""

    @abstractmethod
    def memory(self) -> int:
        """Rough bytes that one training step needs beside the parameters."""

    def rng(self, epoch: int) -> np.random.Generator:
        """The source of an epoch's order and samples."""
        return np.random.default_rng([self.seed, epoch])

    @staticmethod
    def digest(*parts: Any) -> str:
        """SHA-256 of texts, arrays and CPU tensors."""
        sha = hashlib.sha256()
        for part in parts:
            sha.update(part.encode() if isinstance(part, str) else np.ascontiguousarray(part).tobytes())
        return sha.hexdigest()

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device


def _unwatched(done: int, total: int) -> None:
    """Nobody wants to know."""
