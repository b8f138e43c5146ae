"""Tables of any length, row by row: every cell as the user wrote it."""

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import polars as pl

from detgraph.data.tables import SEPARATORS, read_lines, require_file, table_suffix
from detgraph.errors import DetError

PARQUET_ROWS = 4096


class Row(NamedTuple):
    """The cells of a data row, and the line it starts on (its number in Parquet)."""

    line: int
    cells: list[str]  # as many as the header has
    problem: str = ""  # with the row itself


def read_rows(path: Path) -> tuple[list[str], Iterator[Row]]:
    """The header of a CSV, TSV (either may be gzipped) or Parquet table, and its rows."""
    require_file(path)
    if path.suffix == ".parquet":
        table = pl.scan_parquet(path)
        try:
            return table.collect_schema().names(), _parquet_rows(table, path)
        except pl.exceptions.PolarsError as error:
            raise DetError(f"{path}: cannot be read as a table: {error}.") from None
    rows = _text_rows(path, _separator(path))
    header = next((row for row in rows if row.cells), None)
    if header is None:
        raise DetError(f"{path}: is empty, expected a header and one molecule a row.")
    return header.cells, _of_width(rows, len(header.cells))


@contextmanager
def open_table(path: Path, like: Path) -> Iterator[IO[str]]:
    """A text file to write rows to; gzipped if the name of the final file, ``like``, says so."""
    with (
        gzip.open(path, "wt", encoding="utf-8", newline="")
        if like.suffix == ".gz"
        else path.open("w", encoding="utf-8", newline="") as file
    ):
        yield file


def predicted_path(table: Path) -> Path:
    """Where predictions for a table go if nothing else is said: ``a.csv.gz`` → ``a-predicted.csv``."""
    name = table.name.removesuffix(".gz")
    return table.with_name(f"{Path(name).stem}-predicted.csv")


def row_writer(file: IO[str], path: Path) -> Callable[[Iterable[str]], object]:
    """Writes a row in the format that the name of ``path`` says."""
    return csv.writer(file, delimiter=_separator(path), lineterminator="\n").writerow


def _separator(path: Path) -> str:
    separator = SEPARATORS.get(table_suffix(path))
    if separator is None:
        raise DetError(
            f"{path}: expected a table that ends in {', '.join(SEPARATORS)} (or that with .gz), "
            f"got the ending {path.suffix!r}."
        )
    return separator


def _text_rows(path: Path, separator: str) -> Iterator[Row]:
    with (
        gzip.open(path, "rt", encoding="utf-8-sig", newline="")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8-sig", newline="") as file
    ):
        reader, line = csv.reader(file, delimiter=separator, strict=True), 1
        try:
            for cells in reader:
                yield Row(line, cells)
                line = reader.line_num + 1
        except UnicodeDecodeError:
            read_lines(path)  # raises, and names the line
            raise
        except csv.Error as error:
            raise DetError(
                f"{path}:{line}: cannot be read: {error}. Look for a quotation mark without its partner in "
                "the row that begins there."
            ) from None
        except (EOFError, OSError, zlib.error) as error:
            raise DetError(f"{path}:{line}: cannot be read: {error}.") from None


def _of_width(rows: Iterator[Row], width: int) -> Iterator[Row]:
    """Rows with as many cells as the header; in a table of one column a blank line is an empty cell."""
    for line, cells, _ in rows:
        if len(cells) == width:
            yield Row(line, cells)
        elif width == 1 and not cells:
            yield Row(line, [""])
        elif cells:
            surplus = f", left out: {', '.join(cells[width:])}" if len(cells) > width else ""
            problem = f"the row has {len(cells)} cells, expected {width} as in the header{surplus}"
            yield Row(line, [*cells, *[""] * width][:width], problem)


def _parquet_rows(table: pl.LazyFrame, path: Path) -> Iterator[Row]:
    first = 0
    while len(part := table.slice(first, PARQUET_ROWS).collect()):
        columns = [_as_text(column, path) for column in part]
        for number, cells in enumerate(zip(*columns, strict=True), start=first + 1):
            yield Row(number, list(cells))
        first += len(part)


def _as_text(column: pl.Series, path: Path) -> list[str]:
    """The cells of a column, lists and structures as JSON."""
    if column.dtype.is_nested():
        cells = column.to_list()
        return ["" if cell is None else json.dumps(cell, ensure_ascii=False, default=str) for cell in cells]
    try:
        return column.cast(pl.String).fill_null("").to_list()
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise DetError(
            f"{path}: column {column.name!r} holds {column.dtype}, which is not text ({reason}). "
            "Leave the column out."
        ) from None
