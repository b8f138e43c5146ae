"""`det evaluate`: measure a finished run."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.table import Table

from detgraph.cli.display import console, evaluation_bar, show_notes
from detgraph.errors import DetError
from detgraph.tasks import EntityTask, Metrics, Task
from detgraph.training.launch import load_run

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class SplitName(StrEnum):
    """Splits to choose from."""

    train = "train"
    valid = "valid"
    test = "test"


class Part(StrEnum):
    """What to look at one by one."""

    direction = "direction"
    relation = "relation"


@app.command()
def evaluate(
    folder: Annotated[Path, typer.Argument(help="The run folder.")],
    split: Annotated[SplitName, typer.Option(help="What to measure on.")] = SplitName.test,
    by: Annotated[
        Part | None, typer.Option(help="On knowledge graphs: also each direction, or each relation.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a row.")] = False,
) -> None:
    """Load a run's weights and measure them again.

    For example `det evaluate runs/umls --by relation`.
    """
    task = load_run(folder)
    if not task.has(split.value):
        raise DetError(f"the data of {folder} has no {split.value} part.")
    with evaluation_bar(task):
        rows = {split.value: task.evaluate(split.value)} if by is None else parts(task, split, by)
    if as_json:
        for name, metrics in rows.items():
            part = {} if name == split.value else {"part": name}
            row = {"run": str(folder), "split": split.value, **part, **metrics, "notes": task.notes}
            print(json.dumps(row, ensure_ascii=False))
        return
    console.print(task.describe())
    table = Table("", *rows[split.value])
    for name, metrics in rows.items():
        table.add_row(name, *(f"{metrics[key]:.4f}" for key in rows[split.value]))
    console.print(table)
    show_notes(task.notes)


def parts(task: Task, split: SplitName, by: Part) -> dict[str, Metrics]:
    """The metrics of the split, and of each direction or relation, by name."""
    if not isinstance(task, EntityTask):
        raise DetError(f"--by {by.value} is for runs on knowledge graphs.")
    with torch.no_grad():
        ranking = task.eval().ranking(split.value)
    rows = {split.value: ranking.metrics()}
    if by is Part.direction:
        return rows | ranking.by_direction()
    data = task.data
    names = [
        name if data.relation_names.count(name) == 1 else f"{name} ({id})"
        for name, id in zip(data.relation_names, data.relations, strict=True)
    ]
    return rows | {names[relation]: metrics for relation, metrics in ranking.by_relation().items()}
