"""`det predict` for molecules: a table in, the same table with predictions out."""

import time
from collections.abc import Iterator
from enum import StrEnum
from itertools import tee
from pathlib import Path

from detgraph.cli.display import console
from detgraph.data.table_stream import Row, open_table, predicted_path, read_rows, row_writer
from detgraph.data.tables import columns_there
from detgraph.errors import DetError
from detgraph.files import atomic_path
from detgraph.tasks.molecule_prediction import predict_smiles
from detgraph.training.launch import load_predictor

PROBLEM = "problem"  # column of reasons
TELL_EVERY = 5.0  # seconds


class BadRows(StrEnum):
    """What to do with a row that cannot be predicted."""

    nan = "nan"
    skip = "skip"
    fail = "fail"


def predict_table(
    folder: Path, table: Path, output: Path | None, smiles_column: str, bad_rows: BadRows, prefix: str
) -> None:
    """Write the table with a column for each target, and one with the reason where there is no prediction."""
    output = output or predicted_path(table)
    task = load_predictor(folder)
    header, rows = read_rows(table)
    column = find_column(header, smiles_column, table)
    added = [f"{prefix}{target}" for target in task.data.targets]
    if bad_rows is BadRows.nan:
        added.append(f"{prefix}{PROBLEM}")
    if f"{prefix}{PROBLEM}" in added[: len(task.data.targets)] and bad_rows is BadRows.nan:
        raise DetError(f"a target is called {PROBLEM!r}, as the column of reasons: take --bad-rows skip.")
    taken = [name for name in added if name in header]
    if taken:
        raise DetError(f"{table} has a column {taken[0]!r} already. Name the new ones with --prefix.")
    done, bad = 0, 0
    with atomic_path(output) as temporary, open_table(temporary, output) as file:
        write = row_writer(file, output)
        write([*header, *added])
        own, read = tee(rows)
        # A row that is not whole may have anything in this column: it is not asked about.
        smiles = ("" if row.problem else row.cells[column] for row in read)
        for row, prediction in zip(with_news(own), predict_smiles(task, smiles), strict=True):
            problem = row.problem or prediction.problem
            done += 1
            bad += bool(problem)
            if problem and bad_rows is BadRows.fail:
                raise DetError(
                    f"{table}:{row.line}: the SMILES {row.cells[column]!r} cannot be predicted: {problem}. "
                    "Mend it, or take --bad-rows nan or skip."
                )
            if problem and bad_rows is BadRows.skip:
                continue
            numbers = ["" if value != value else f"{value:.7g}" for value in prediction.values]
            reason = [problem] if bad_rows is BadRows.nan else []
            write([*row.cells, *numbers, *reason])
    left_out = f"; {bad:,} could not be read" if bad else ""
    console.print(f"{done - bad:,} of {done:,} molecules predicted{left_out}.")
    console.print(f"Written: {output}")


def find_column(header: list[str], name: str, path: Path) -> int:
    """Where the column is; upper and lower case are the same where that is clear."""
    alike = [at for at, column in enumerate(header) if column.lower() == name.lower()]
    if name in header:
        return header.index(name)
    if len(alike) != 1:
        raise DetError(f"{path}: no column {name!r}. {columns_there(header)} Name it with --smiles-column.")
    return alike[0]


def with_news(rows: Iterator[Row]) -> Iterator[Row]:
    """Tell now and then how far it is; the length of a stream is not known."""
    start = told = time.monotonic()
    for count, row in enumerate(rows):
        yield row
        now = time.monotonic()
        if now - told > TELL_EVERY and console.is_terminal:
            told = now
            console.print(f"  {count:,} molecules, {count / (now - start):,.0f} a second")
