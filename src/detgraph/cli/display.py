"""What people see of training: what will be done, a bar with the time left, and the outcome."""

import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from detgraph.tasks import Task
from detgraph.training import Interrupted, Observer, Result, Trainer

# Names of files and data may hold brackets, and a command broken over two lines cannot be copied.
console = Console(highlight=False, markup=False, soft_wrap=True)
beside = Console(highlight=False, markup=False, soft_wrap=True, stderr=True)  # what would disturb JSON


class TrainingBar(Observer):
    """A progress bar on a terminal; elsewhere a line at every tenth of the way."""

    def __init__(self, title: str, trainer: Trainer, screen: Console = console) -> None:
        self.screen = screen
        self.metric = trainer.task.metric
        self.losses = self.score = ""
        steps = trainer.task.steps()
        self.done = trainer.progress.epoch * steps + trainer.progress.step
        self.total = trainer.config.epochs * steps
        self.printed = 0
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}"),
        )
        self.bar = Progress(*columns, console=screen, disable=not screen.is_terminal, transient=True)
        self.row = self.bar.add_task(title, total=self.total, completed=self.done, state="")
        self.title = title

    def __enter__(self) -> "TrainingBar":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def step(self, done: int, total: int) -> None:
        """Move the bar."""
        self.done, self.total = done, total
        self.bar.update(self.row, completed=done, total=total)

    def evaluation(self, done: int, total: int) -> None:
        """Show that the bar stands still for a reason."""
        self.bar.update(self.row, state=f"evaluating: {100 * done // total} %")

    def epoch(self, record: dict[str, Any]) -> None:
        """Show losses and the validation metric."""
        self.losses = " ".join(f"{name} {record[name]:.3f}" for name in ("main", "sn") if name in record)
        if "valid" in record:
            self.score = f"valid {self.metric} {record['valid'][self.metric]:.4f}"
        self.bar.update(self.row, state=f"{self.losses}  {self.score}")
        tenth = 10 * self.done // self.total
        if not self.screen.is_terminal and (record["epoch"] == 0 or tenth > self.printed):
            self.printed = tenth
            left = record["seconds"] * (self.total - self.done) / self.done
            parts = (
                f"epoch {record['epoch'] + 1}",
                self.losses,
                self.score,
                f"at most {duration(left)} left",
            )
            self.screen.print(f"{self.title}: {', '.join(part for part in parts if part)}")


@contextmanager
def evaluation_bar(task: Task) -> Iterator[None]:
    """A bar for evaluations that take long."""
    with Progress(console=beside, disable=not beside.is_terminal, transient=True) as bar:
        row = bar.add_task("evaluating", total=None)
        task.watch = lambda done, total: bar.update(row, completed=done, total=total)
        yield


def announce(task: Task, trainer: Trainer, screen: Console = console) -> None:
    """Say what will be trained, on what, and what it will take."""
    screen.print(task.describe())
    show_notes(task.notes, screen)
    parameters = sum(parameter.numel() for parameter in task.parameters())
    need = task.memory() + 16 * parameters
    steps, minutes = task.steps(), trainer.config.minutes
    budget = "" if minutes is None else f" or {minutes:g} minutes"
    screen.print(
        f"{parameters:,} parameters, about {need / 2**20:,.0f} MB for a step, {steps:,} "
        f"step{'s' * (steps != 1)} an epoch, at most {trainer.config.epochs:,} epochs{budget}"
    )


def run_training(trainer: Trainer, title: str, screen: Console = console) -> Result | None:
    """Train with a bar; None if it was interrupted and saved."""
    try:
        with TrainingBar(title, trainer, screen) as bar:
            return trainer.train(bar)
    except Interrupted:
        folder = shlex.quote(str(trainer.run.path))
        screen.print(f"Stopped; everything is saved. Go on with: det resume {folder}")
        return None


def show_notes(notes: Iterable[str], screen: Console = console) -> None:
    """What has to be said beside every number."""
    for note in notes:
        screen.print(f"note: {note}", style="dim")


def show_result(result: Result, trainer: Trainer) -> None:
    """The outcome as a table, where it is, and what to do with it."""
    table = Table("", *result.valid)
    table.add_row("valid", *(f"{value:.4f}" for value in result.valid.values()))
    if result.test is not None:
        table.add_row("test", *(f"{value:.4f}" for value in result.test.values()))
    console.print(table)
    console.print(
        f"best epoch {result.best_epoch + 1} of {result.epochs}, {duration(result.seconds)}; "
        f"a prediction that looks at no input gets {result.metric} {result.trivial:.4f}"
    )
    show_notes(trainer.task.notes)
    console.print(f"Run folder: {trainer.run.path}")
    folder, split = shlex.quote(str(trainer.run.path)), "" if result.test else " --split valid"
    console.print(f"Next: open {trainer.run.report_file}, or run: det evaluate {folder}{split}")


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
