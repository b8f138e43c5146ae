"""Tables of entries, the same for all targets: for the terminal, as Markdown, as JSON, with the figure."""

import json
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from rich.table import Table

from detgraph.files import atomic_path, write_text
from detgraph.reproduce.entries import Entry
from detgraph.reproduce.target import Column, Target
from detgraph.training.run import versions

NO_ENTRY = "–"
NOT_RUN, NOT_COUNTED = "not run", "not counted"
MOST_NAMED = 5  # rows in a note


def terminal_tables(target: Target, entries: Sequence[Entry], width: int) -> list[Table]:
    """A cell holds our number above the paper's; what is too wide for one table is several."""
    sections = _sections(target, entries)
    columns = [
        [
            f"{column.title}\n{_unit(target, column)}",
            *(_two_lines(row[place]) for _, rows in sections for _, row in rows),
        ]
        for place, column in enumerate(target.columns)
    ]
    if _shows_parameters(target):
        sizes = (_stacked(*_parameters(row)) for _, rows in sections for _, row in rows)
        columns.insert(0, ["parameters", *sizes])
    labels = [model for _, rows in sections for model, _ in rows]
    parts: list[list[list[str]]] = []
    room = 0
    for column in columns:
        needed = _width(column)
        if needed > room:
            parts.append([])
            room = width - _width([*labels, *(section for section, _ in sections)]) - 1
        parts[-1].append(column)
        room -= needed
    tables = []
    for part in parts:
        table = Table("", *(column[0] for column in part))
        for shown in table.columns:
            shown.overflow = "fold"  # a number cut short would be another number
        lines = iter(zip(labels, *(column[1:] for column in part), strict=True))
        for section, rows in sections:
            if section:
                table.add_row(section, style="bold")
            for _ in rows:
                table.add_row(*next(lines))
            table.add_section()
        tables.append(table)
    tables[0].title, tables[-1].caption = target.title, target.caption
    return tables


def markdown(target: Target, entries: Sequence[Entry]) -> str:
    """A page with the table, and the figure if there is one."""
    figure = f"![{target.title}]({target.name}.svg)\n\n" if target.figure else ""
    return f"# {target.title}\n\n{target.caption}\n\n{figure}{markdown_table(target, entries)}\n"


def markdown_table(target: Target, entries: Sequence[Entry]) -> str:
    """Our numbers and the paper's side by side, then the notes."""
    sizes = ["parameters", "paper"] if _shows_parameters(target) else []
    head = [
        "",
        *sizes,
        *(
            text
            for column in target.columns
            for text in (f"{column.title}, {_unit(target, column)}", "paper")
        ),
    ]
    lines = [head, ["---"] * len(head)]
    for section, rows in _sections(target, entries):
        if section:
            lines.append([f"**{section}**", *[""] * (len(head) - 1)])
        for model, row in rows:
            numbers = (text for entry in row for text in (_ours(entry), _paper(entry)))
            lines.append([model, *(_parameters(row) if sizes else ()), *numbers])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([table, "", *(f"- {line}" for line in notes(target, entries))])


def notes(target: Target, entries: Sequence[Entry]) -> list[str]:
    """Every note once, with the rows and columns it is about."""
    rows: dict[tuple[str, str], dict[str, None]] = {}  # by note and column
    for entry in entries:
        for note in entry.notes:
            rows.setdefault((note, target.column(entry.cell).title), {})[entry.cell.model] = None
    columns: dict[tuple[str, tuple[str, ...]], list[str]] = {}  # where a note is about the same rows
    for (note, column), found in rows.items():
        columns.setdefault((note, tuple(found)), []).append(column)
    about: dict[str, list[str]] = {}
    all_rows = {entry.cell.model for entry in entries}
    for (note, models), titles in columns.items():
        which = ", ".join(models)
        if len(models) > MOST_NAMED or len(models) == len(all_rows) > 1:
            which = f"{len(models)} of {len(all_rows)} rows"
        about.setdefault(f"{which} on {', '.join(titles)}", []).append(note)
    return [f"{place}: {'; '.join(said)}" for place, said in about.items()]


def write_files(target: Target, entries: Sequence[Entry], output: Path) -> list[Path]:
    """Write all forms of a target to a folder."""
    page, data = output / f"{target.name}.md", output / f"{target.name}.json"
    write_text(page, markdown(target, entries))
    cells = [
        {
            **entry.record(),
            "parameters": entry.parameters,
            "study": entry.source,
            "commit": entry.commit,
        }
        for entry in entries
    ]
    content = {"target": target.name, "title": target.title, "cells": cells, "versions": versions()}
    write_text(data, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    files = [page, data]
    if target.figure is not None:
        files += save_figure(target.figure(target, entries), target.name, output)
    return files


def save_figure(figure: Figure, name: str, output: Path) -> list[Path]:
    """Write a figure as SVG and PNG; the same numbers give the same file."""
    files = [output / f"{name}.{kind}" for kind in ("svg", "png")]
    for file in files:
        kind = file.suffix[1:]
        # A fixed salt and no date.
        with atomic_path(file) as temporary, matplotlib.rc_context({"svg.hashsalt": name}):
            figure.savefig(
                temporary, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None
            )
    return files


Row = tuple[str, list[Entry | None]]  # label, an entry for each column


def _sections(target: Target, entries: Sequence[Entry]) -> list[tuple[str, list[Row]]]:
    """Rows in the order of the cells, under their sections."""
    found = {(entry.cell.model, target.column(entry.cell)): entry for entry in entries}
    sections: dict[str, dict[str, None]] = {}
    for entry in entries:
        sections.setdefault(entry.cell.section, {})[entry.cell.model] = None
    return [
        (
            section,
            [(model, [found.get((model, column)) for column in target.columns]) for model in rows],
        )
        for section, rows in sections.items()
    ]


def _width(texts: Sequence[str]) -> int:
    """What a column takes in a terminal, with its margins and a line beside it."""
    return 3 + max(len(line) for text in texts for line in text.split("\n"))


def _shows_parameters(target: Target) -> bool:
    return any(cell.parameters is not None for cell in target.cells)


def _parameters(row: Sequence[Entry | None]) -> tuple[str, str]:
    """Of our model and of the paper's."""
    entries = [entry for entry in row if entry is not None]
    ours = next((entry.parameters for entry in entries if entry.parameters), None)
    paper = next((entry.cell.parameters for entry in entries if entry.cell.parameters), None)
    return f"{ours:,}" if ours else NO_ENTRY, f"{paper:,}" if paper else NO_ENTRY


def _unit(target: Target, column: Column) -> str:
    measure = column.measure
    if target.facts is not None:  # counts are neither good nor bad
        return measure.title
    return f"{measure.title} {'↑' if measure.higher_is_better else '↓'}"


def _ours(entry: Entry | None) -> str:
    """Our number with one digit more than the paper has, and how many runs it is of."""
    if entry is None:
        return NO_ENTRY
    if entry.mean is None:
        return NOT_COUNTED if entry.counted else NOT_RUN
    if entry.counted:
        return _spread(entry.mean, None, entry.measure.digits)
    return f"{_spread(entry.mean, entry.std, entry.measure.digits + 1)} ({len(entry.scores)})"


def _paper(entry: Entry | None) -> str:
    if entry is None or entry.cell.paper is None:
        return NO_ENTRY
    return _spread(entry.cell.paper.mean, entry.cell.paper.std, entry.measure.digits)


def _two_lines(entry: Entry | None) -> str:
    return _stacked(_ours(entry), _paper(entry)).replace(" ± ", "±")  # a narrow terminal would break it


def _stacked(ours: str, paper: str) -> str:
    return ours if paper == NO_ENTRY else f"{ours}\npaper {paper}"


def _spread(mean: float, std: float | None, digits: int) -> str:
    center = f"{mean:,.{digits}f}"
    return center if std is None else f"{center} ± {std:,.{digits}f}"
