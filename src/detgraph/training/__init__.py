"""One training loop for all tasks, and the folder a run lives in."""

from detgraph.training.interrupt import Interrupted
from detgraph.training.loop import Observer, Result, Trainer
from detgraph.training.run import RunFolder

__all__ = ["Interrupted", "Observer", "Result", "RunFolder", "Trainer"]
