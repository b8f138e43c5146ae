"""`det predict` for knowledge graphs: one question, or a table of them."""

import json
from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from detgraph.cli.display import console
from detgraph.data.table_stream import open_table, read_rows, row_writer
from detgraph.data.tables import read_lines
from detgraph.data.triples import COLUMNS
from detgraph.errors import DetError
from detgraph.files import atomic_path
from detgraph.tasks import EntityTask
from detgraph.tasks.entity_prediction import Fact, Oracle, Question
from detgraph.training.launch import load_run


def answer_question(
    folder: Path, question: Question, facts: Path | None, top: int, *, known: bool, as_json: bool
) -> None:
    """Print the best answers."""
    answers = open_oracle(folder, facts).answer(question, top, known=known)
    if as_json:
        for answer in answers:
            print(json.dumps(answer._asdict(), ensure_ascii=False))
        return
    table = Table("", "entity", "id", "score", "known from", title=worded(question))
    for answer in answers:
        table.add_row(str(answer.rank), answer.name, answer.id, f"{answer.score:.3f}", answer.known)
    console.print(table)


def answer_table(
    folder: Path, table: Path, output: Path | None, facts: Path | None, top: int, *, known: bool
) -> None:
    """Write the best answers of every question of a table, an answer a row."""
    output = output or table.with_name(f"{table.name.split('.')[0]}-predicted.csv")
    oracle = open_oracle(folder, facts)
    header, rows = read_rows(table)
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise DetError(f"{table}: no column {missing[0]!r}. Columns there: {', '.join(header)}.")
    places = [header.index(name) for name in COLUMNS]
    count = 0
    with atomic_path(output) as temporary, open_table(temporary, output) as file:
        write = row_writer(file, output)
        write([*header, "rank", "answer", "answer_name", "score", "known"])
        for row in rows:
            if not any(row.cells):
                continue
            head, relation, tail = (row.cells[place].strip() or None for place in places)
            try:
                if relation is None:
                    raise DetError("the relation is empty.")
                answers = oracle.answer(Question(head, relation, tail), top, known=known)
            except DetError as error:
                raise DetError(f"{table}:{row.line}: {error}") from None
            for found in answers:
                write([*row.cells, str(found.rank), found.id, found.name, f"{found.score:.7g}", found.known])
            count += 1
    console.print(f"{count:,} questions answered.")
    console.print(f"Written: {output}")


def open_oracle(folder: Path, facts: Path | None) -> Oracle:
    """The run, with what is known beside its training data."""
    task = load_run(folder)
    assert isinstance(task, EntityTask)
    return Oracle(task, list(read_facts(facts)) if facts else ())


def read_facts(path: Path) -> Iterator[Fact]:
    """Tab-separated triples."""
    lines = read_lines(path)
    for line, text in zip(lines["line"].to_list(), lines["text"].to_list(), strict=True):
        cells = [cell.strip() for cell in text.split("\t")]
        if len(cells) != len(COLUMNS) or not all(cells):
            raise DetError(f"{path}:{line}: expected head<TAB>relation<TAB>tail, got {text!r}.")
        yield cells[0], cells[1], cells[2]


def worded(question: Question) -> str:
    """A question as a line."""
    return f"{question.head or '?'} – {question.relation} – {question.tail or '?'}"
