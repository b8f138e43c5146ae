"""`det evaluate`: measure a finished run."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from detgraph.cli.display import console
from detgraph.errors import DetError
from detgraph.training.launch import load_run

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class SplitName(StrEnum):
    """Splits to choose from."""

    train = "train"
    valid = "valid"
    test = "test"


@app.command()
def evaluate(
    folder: Annotated[Path, typer.Argument(help="The run folder.")],
    split: Annotated[SplitName, typer.Option(help="What to measure on.")] = SplitName.test,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Load a run's weights and measure them again."""
    task = load_run(folder)
    if not task.has(split.value):
        raise DetError(f"the data of {folder} has no {split.value} part.")
    metrics = task.evaluate(split.value)
    if as_json:
        print(json.dumps({"run": str(folder), "split": split.value, **metrics}))
        return
    console.print(task.describe())
    table = Table("", *metrics)
    table.add_row(split.value, *(f"{value:.4f}" for value in metrics.values()))
    console.print(table)
