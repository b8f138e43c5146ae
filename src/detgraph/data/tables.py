"""A user's tables and text lines, read so that every error can name its file and line."""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from detgraph.errors import DetError

SEPARATORS = {".csv": ",", ".tsv": "\t"}


def require_file(path: Path) -> None:
    """Say so if ``path`` is no file."""
    if not path.is_file():
        raise DetError(
            f"{path}: there is no such file. Check the path; in a configuration it is relative to its file."
        )


def read_table(path: Path) -> pl.DataFrame:
    """Read CSV or TSV (every cell as text; ``.gz`` allowed) or Parquet, without rows that hold no value."""
    require_file(path)
    separator = SEPARATORS.get(table_suffix(path))
    if separator is None and path.suffix != ".parquet":
        raise DetError(f"{path}: expected a table (.csv, .tsv or .parquet), got the ending {path.suffix!r}.")
    try:
        if separator is None:
            return pl.read_parquet(path)
        table = pl.read_csv(path, separator=separator, infer_schema=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        if separator is not None:  # the likely causes, of which polars does not tell the line
            read_lines(path)
            _check_widths(path)
        reason = str(error).splitlines()[0]  # polars goes on with advice to programmers
        raise DetError(f"{path}: cannot be read as a table: {reason}.") from None
    if table.width and table.to_series(-1).null_count():
        _check_widths(path)  # polars pads short rows with nulls, so only then can one be short
    return table.filter(~pl.all_horizontal(pl.all().is_null()))


def read_lines(path: Path) -> pl.DataFrame:
    """Read UTF-8 text (``.gz`` allowed) as columns ``line`` (from 1) and ``text``, without blank lines."""
    require_file(path)
    data = path.read_bytes()
    try:
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        text = data.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        raise DetError(f"{path}: is not a whole gzip file ({error}). Get or make the file again.") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DetError(f"{path}:{line}: is not UTF-8 text. Save the file as UTF-8.") from None
    lines = pl.DataFrame({"text": text.split("\n")}, schema={"text": pl.String}).with_row_index("line", 1)
    return lines.with_columns(pl.col("text").str.strip_chars_end("\r")).filter(
        pl.col("text").str.contains(r"\S")
    )


def read_pairs(path: Path) -> tuple[pl.DataFrame, Callable[[int], str], list[str]]:
    """Read an edge list: its two columns as text, a function from a row to its place, and notes.

    A table (``.csv``, ``.tsv``, ``.parquet``) has a header and gives its first two columns; any other
    ending is a list separated by blanks without a header, where ``#`` starts a comment line.
    """
    if path.suffix == ".parquet" or table_suffix(path) in SEPARATORS:
        table = read_table(path)
        if table.width < 2:
            raise DetError(f"{path}: has the columns {table.columns}, expected two: source and target.")
        unused = table.columns[2:]
        notes = [f"columns of {path.name} not used: {', '.join(unused)}"] if unused else []
        pairs = table.select(pl.nth(0, 1).cast(pl.String).str.strip_chars())
        return pairs, partial(where, path), notes
    lines = read_lines(path).filter(~pl.col("text").str.starts_with("#"))
    cells = lines["text"].str.extract_all(r"\S+")
    place = lines["line"]
    short = (cells.list.len() < 2).arg_true()
    if len(short):
        raise DetError(f"{path}:{place[short[0]]}: has one word, expected two: source target.")
    wide = (cells.list.len() > 2).any()
    notes = [f"columns of {path.name} after the second not used: edges have no weight"] if wide else []
    pairs = pl.DataFrame({"source": cells.list.get(0), "target": cells.list.get(1)})
    return pairs, lambda row: f"{path}:{place[row]}", notes


def where(path: Path, row: int) -> str:
    """The place of data row ``row`` (from 0) of a table, as ``file:line``; Parquet has rows only."""
    if path.suffix == ".parquet":
        return f"{path}: row {row + 1}"
    for number, (line, _) in enumerate(_records(path)):
        if number == row + 1:  # record 0 is the header
            return f"{path}:{line}"
    return f"{path}: row {row + 1}"


def require_column(table: pl.DataFrame, column: str, path: Path) -> None:
    """Say which columns there are if ``column`` is not one of them."""
    if column not in table.columns:
        raise DetError(f"{path}: has no column {column!r}. {columns_there(table.columns)}")


def columns_there(columns: Sequence[str]) -> str:
    """The columns of a table in a sentence; one that holds a separator is likely several."""
    text = f"Columns there: {', '.join(columns)}."
    inside = next((sign for sign in (";", "\t", "|", ",") if len(columns) == 1 and sign in columns[0]), None)
    if inside is None:
        return text
    return f"{text} The separator seems to be {inside!r}: write the file with commas (.csv) or tabs (.tsv)."


def table_suffix(path: Path) -> str:
    """The ending that says what a table is, without ``.gz``."""
    return (Path(path.stem).suffix if path.suffix == ".gz" else path.suffix).lower()


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Records that hold any value, each with the line it starts on (a quoted cell may span lines)."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", errors="replace", newline="") as file:
        reader = csv.reader(file, delimiter=SEPARATORS[table_suffix(path)])
        start = 1
        for record in reader:
            if any(record):
                yield start, record
            start = reader.line_num + 1


def _check_widths(path: Path) -> None:
    """Name the first row that is shorter or longer than the header."""
    try:
        records = _records(path)
        _, header = next(records, (1, []))
        for line, record in records:
            if len(record) != len(header):
                raise DetError(
                    f"{path}:{line}: has {len(record)} cells, expected {len(header)} as in the header "
                    f"({', '.join(header)}). Mend the row, or quote a cell that holds the separator."
                )
    except (OSError, EOFError, zlib.error, csv.Error):
        return  # the caller reports what it could not read
