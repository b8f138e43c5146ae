"""`det predict` for knowledge graphs: one question, or a table of them."""

import json
from itertools import islice
from pathlib import Path

from rich.table import Table

from detgraph.cli.display import console
from detgraph.cli.molecule_predictions import BadRows
from detgraph.data.table_stream import Row, open_table, predicted_path, read_rows, row_writer
from detgraph.data.tables import columns_there, read_lines
from detgraph.data.triples import COLUMNS
from detgraph.errors import DetError
from detgraph.files import atomic_path
from detgraph.tasks import EntityTask
from detgraph.tasks.entity_prediction import Answer, Asked, Oracle, Question
from detgraph.training.launch import load_run

ADDED = ("rank", "answer", "answer_name", "score", "known")  # columns
PROBLEM = "problem"  # column of reasons
BLOCK = 4096  # questions answered at once


def answer_question(
    folder: Path,
    question: Question,
    output: Path | None,
    facts: Path | None,
    top: int,
    *,
    known: bool,
    as_json: bool,
) -> None:
    """Print the best answers, or write them to a file."""
    oracle = open_oracle(folder, facts)
    (answers,) = oracle.answers([oracle.understand(question)], top, known=known)
    if output is not None:
        with atomic_path(output) as temporary, open_table(temporary, output) as file:
            write = row_writer(file, output)
            write([*COLUMNS, *ADDED])
            for answer in answers:
                write([*(text or "" for text in question), *cells(answer)])
        console.print(f"Written: {output}")
        return
    if as_json:
        for answer in answers:
            print(json.dumps(answer._asdict(), ensure_ascii=False))
        return
    table = Table("", "entity", "id", "score", "known from", title=worded(question))
    for answer in answers:
        table.add_row(str(answer.rank), answer.name, answer.id, f"{answer.score:.3f}", answer.known)
    console.print(table)


def answer_table(
    folder: Path,
    table: Path,
    output: Path | None,
    facts: Path | None,
    bad_rows: BadRows,
    top: int,
    *,
    known: bool,
) -> None:
    """Write the best answers of a table of questions, an answer a row, or the reason why there is none."""
    output = output or predicted_path(table)
    oracle = open_oracle(folder, facts)
    header, rows = read_rows(table)
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise DetError(f"{table}: no column {missing[0]!r}. {columns_there(header)}")
    places = [header.index(name) for name in COLUMNS]
    reasons = bad_rows is BadRows.nan
    taken = [name for name in (*ADDED, *[PROBLEM] * reasons) if name in header]
    if taken:
        raise DetError(f"{table} has a column {taken[0]!r}, which the answers are to have. Rename it first.")
    done, bad = 0, 0
    with atomic_path(output) as temporary, open_table(temporary, output) as file:
        write = row_writer(file, output)
        write([*header, *ADDED, *[PROBLEM] * reasons])
        while block := list(islice(rows, BLOCK)):
            read = [understand(oracle, row, places) for row in block]
            found = iter(oracle.answers([one for one in read if isinstance(one, Asked)], top, known=known))
            for row, one in zip(block, read, strict=True):
                done += 1
                if isinstance(one, Asked):
                    for answer in next(found):
                        write([*row.cells, *cells(answer), *[""] * reasons])
                    continue
                bad += 1
                if bad_rows is BadRows.fail:
                    raise DetError(f"{table}:{row.line}: {one} Mend it, or take --bad-rows nan or skip.")
                if reasons:
                    write([*row.cells, *[""] * len(ADDED), str(one)])
    left_out = f"; {bad:,} could not be read" if bad else ""
    console.print(f"{done - bad:,} of {done:,} questions answered{left_out}.")
    console.print(f"Written: {output}")


def understand(oracle: Oracle, row: Row, places: list[int]) -> Asked | DetError:
    """The question of a row, or why it cannot be answered."""
    head, relation, tail = (row.cells[place].strip() or None for place in places)
    try:
        if row.problem:
            raise DetError(f"{row.problem}.")
        if relation is None:
            raise DetError("the relation is empty.")
        return oracle.understand(Question(head, relation, tail))
    except DetError as error:
        return error


def cells(answer: Answer) -> list[str]:
    """An answer in the order of `ADDED`."""
    return [str(answer.rank), answer.id, answer.name, f"{answer.score:.7g}", answer.known]


def open_oracle(folder: Path, facts: Path | None) -> Oracle:
    """The run, with what is known beside its training data: tab-separated triples."""
    task = load_run(folder)
    assert isinstance(task, EntityTask)
    oracle = Oracle(task)
    if facts is None:
        return oracle
    lines = read_lines(facts)
    for line, text in zip(lines["line"].to_list(), lines["text"].to_list(), strict=True):
        ends = [cell.strip() for cell in text.split("\t")]
        try:
            if len(ends) != len(COLUMNS) or not all(ends):
                raise DetError(f"expected head<TAB>relation<TAB>tail, got {text!r}.")
            oracle.learn((ends[0], ends[1], ends[2]))
        except DetError as error:
            raise DetError(f"{facts}:{line}: {error}") from None
    return oracle


def worded(question: Question) -> str:
    """A question as a line."""
    return f"{question.head or '?'} – {question.relation} – {question.tail or '?'}"
