"""Knowledge graphs: files of head, relation, tail become numbered triples with their names."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from detgraph.data.tables import read_lines
from detgraph.errors import DetError

COLUMNS = ("head", "relation", "tail")


@dataclass(frozen=True, eq=False)
class Triples:
    """A knowledge graph's facts, split into train, valid and test.

    Attributes:
        train: int64 (triples, 3): head, relation, tail, as positions in ``entities`` and ``relations``.
        valid: The same, to choose by.
        test: The same, to report on.
        entities: The user's ids, sorted.
        relations: The user's ids, sorted.
        entity_names: Human names in the order of ``entities``; the id where there is none.
        relation_names: The same for ``relations``.
        name: What the graph is called in reports.
        notes: Policies applied and findings a user should know, for people.
    """

    train: NDArray[np.int64]
    valid: NDArray[np.int64]
    test: NDArray[np.int64]
    entities: tuple[str, ...]
    relations: tuple[str, ...]
    entity_names: tuple[str, ...]
    relation_names: tuple[str, ...]
    name: str
    notes: tuple[str, ...] = ()


def read_triples(
    train: Path,
    valid: Path | None,
    test: Path | None,
    *,
    entity_names: Path | None = None,
    relation_names: Path | None = None,
    name: str,
    split_seed: int = 0,
) -> Triples:
    """Read tab-separated triples, UTF-8, ``.gz`` allowed.

    Args:
        train: Lines ``head<TAB>relation<TAB>tail``.
        valid: The same; give ``valid`` and ``test``, or neither for a random 80/10/10 split of ``train``.
        test: The same.
        entity_names: Lines ``id<TAB>name``.
        relation_names: Lines ``id<TAB>name``.
        name: What the graph is called in reports.
        split_seed: Seed of the random split.
    """
    if (valid is None) != (test is None):
        given = "validation" if test is None else "test"
        raise DetError(f"{name}: only a {given} file is given. Give both validation and test, or neither.")
    notes: list[str] = []
    tables = {"train": _read_columns(train, COLUMNS, notes)}
    if not tables["train"].height:
        raise DetError(f"{train}: holds no triple. Training needs lines head<TAB>relation<TAB>tail.")
    if valid is not None and test is not None:
        tables["valid"] = _read_columns(valid, COLUMNS, notes)
        tables["test"] = _read_columns(test, COLUMNS, notes)
    else:
        tables = _random_split(tables["train"], split_seed)
        notes.append(f"no validation and test file: 80/10/10 of the triples at random, seed {split_seed}")
    notes += _findings(tables)

    everything = pl.concat(tables.values())
    entities = pl.concat([everything["head"], everything["tail"].alias("head")]).unique().sort()
    relations = everything["relation"].unique().sort()
    numbered = {
        split: np.stack(
            [
                _positions(table[column], relations if column == "relation" else entities)
                for column in COLUMNS
            ],
            axis=1,
        )
        for split, table in tables.items()
    }
    return Triples(
        **numbered,
        entities=tuple(entities),
        relations=tuple(relations),
        entity_names=_names(entities, entity_names, "entities", notes),
        relation_names=_names(relations, relation_names, "relations", notes),
        name=name,
        notes=tuple(notes),
    )


def _read_columns(path: Path, columns: Sequence[str], notes: list[str]) -> pl.DataFrame:
    """Tab-separated text columns without duplicate rows; a merge is noted."""
    lines = read_lines(path)
    cells = lines["text"].str.split("\t")
    wrong = (cells.list.len() != len(columns)).arg_true()
    if len(wrong):
        raise DetError(
            f"{path}:{lines['line'][wrong[0]]}: has {len(cells[wrong[0]])} tab-separated columns, "
            f"expected {len(columns)}: {'<TAB>'.join(columns)}."
        )
    table = pl.DataFrame(
        {column: cells.list.get(place).str.strip_chars() for place, column in enumerate(columns)}
    )
    if table.height and [cell.lower() for cell in table.row(0)] == list(columns):
        raise DetError(f"{path}:{lines['line'][0]}: is a header, expected triples only. Remove this line.")
    blank = table.select(pl.any_horizontal(pl.col(columns) == "")).to_series().arg_true()
    if len(blank):
        raise DetError(f"{path}:{lines['line'][blank[0]]}: has a blank {' or '.join(columns)}. Fill it in.")
    distinct = table.unique(maintain_order=True)
    if distinct.height < table.height:
        notes.append(f"{table.height - distinct.height} duplicate lines of {path.name} merged")
    return distinct


def _random_split(table: pl.DataFrame, seed: int) -> dict[str, pl.DataFrame]:
    order = np.random.default_rng(seed).permutation(table.height)
    held_out = table.height // 10
    test, valid, train = np.split(order, [held_out, 2 * held_out])
    return {"train": table[np.sort(train)], "valid": table[np.sort(valid)], "test": table[np.sort(test)]}


def _findings(tables: dict[str, pl.DataFrame]) -> list[str]:
    """Leaks from training, and what valid and test hold that training never shows."""
    train, notes = tables["train"], []
    held_out = pl.concat([tables["valid"], tables["test"]])
    for split in ("valid", "test"):
        leaked = tables[split].join(train, on=COLUMNS, how="semi").height
        if leaked:
            notes.append(f"{leaked} triples of {split} are also in train: a leak, kept as given")
    seen = {
        "entities": pl.concat([train["head"], train["tail"].alias("head")]).unique(),
        "relations": train["relation"].unique(),
    }
    met = {
        "entities": pl.concat([held_out["head"], held_out["tail"].alias("head")]).unique(),
        "relations": held_out["relation"].unique(),
    }
    for kind, known in seen.items():
        unseen = int((~met[kind].is_in(known.implode())).sum())
        if unseen:
            notes.append(f"{unseen} {kind} of valid and test are unseen in train: kept")
    return notes


def _positions(values: pl.Series, known: pl.Series) -> NDArray[np.int64]:
    """The place of each value in ``known``."""
    places = values.replace_strict(known, range(len(known)), return_dtype=pl.Int64)
    return places.to_numpy().astype(np.int64)


def _names(ids: pl.Series, path: Path | None, kind: str, notes: list[str]) -> tuple[str, ...]:
    """The name of each id, or the id itself."""
    if path is None:
        return tuple(ids)
    table = _read_columns(path, ("id", "name"), notes)
    known: dict[str, str] = {}
    for id, name in table.rows():
        if id in known:
            first, second = (_line(path, f"{id}\t{text}") for text in (known[id], name))
            raise DetError(
                f"{path}:{second}: the name of {id!r} is {name!r}, but at {path}:{first} {known[id]!r}. "
                "Keep one of the two."
            )
        known[id] = name
    missing = sum(id not in known for id in ids)
    if missing:
        notes.append(f"{missing} {kind} have no name in {path.name}: shown by their id")
    return tuple(known.get(id, id) for id in ids)


def _line(path: Path, row: str) -> int:
    """Where a row of tab-separated cells is, blanks around them apart."""
    lines = read_lines(path)
    text = lines["text"].str.strip_chars().str.replace_all(r" *\t *", "\t")
    return int(lines["line"][(text == row).arg_true()[0]])
