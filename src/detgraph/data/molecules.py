"""Molecules: a table of SMILES and targets becomes graphs with integer atom and bond codes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from detgraph.data.featurize import featurize
from detgraph.data.featurizers import Featurizer
from detgraph.data.molecule_graphs import MoleculeGraphs
from detgraph.data.scaffolds import scaffold_splits
from detgraph.data.tables import columns_there, read_table, where
from detgraph.errors import DetError

Kind = Literal["regression", "classification"]
BadRows = Literal["fail", "skip"]

SPLITS = ("train", "valid", "test")
_SPLIT_NAMES = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test"}


class BadRow(NamedTuple):
    """A row of the data that was left out."""

    row: int  # from 1
    reason: str
    split: str | None  # None: it is in no split


@dataclass(frozen=True)
class Molecules:
    """Molecules with their targets and splits, and what was done to get them.

    Attributes:
        graphs: The molecules in arrays; ``graphs[i]`` is a PyG graph.
        y: float32 (molecules, targets), NaN where missing.
        smiles: As the user wrote them.
        splits: Indices into ``graphs`` for "train", "valid" and "test".
        targets: The names of the columns of ``y``.
        kind: "classification" if every target is 0 or 1.
        name: What the molecules are called in reports.
        notes: Policies applied and deviations from an official protocol, for people.
        bad_rows: Rows that were left out.
    """

    graphs: MoleculeGraphs
    y: NDArray[np.float32]
    smiles: tuple[str, ...]
    splits: dict[str, NDArray[np.int64]]
    targets: tuple[str, ...]
    kind: Kind
    name: str
    notes: tuple[str, ...] = ()
    bad_rows: tuple[BadRow, ...] = ()

    @classmethod
    def none(cls, featurizer: Featurizer, targets: Sequence[str], kind: Kind) -> "Molecules":
        """No molecules, for a saved model that is to predict others."""
        graphs = MoleculeGraphs.of(featurizer, [featurizer.encode([])])
        nothing = np.empty(0, np.int64)
        y, splits = np.empty((0, len(targets)), np.float32), dict.fromkeys(SPLITS, nothing)
        return cls(graphs, y, (), splits, tuple(targets), kind, "none")

    @property
    def featurizer(self) -> Featurizer:
        """What the atom and bond columns mean."""
        return self.graphs.featurizer


def random_splits(
    count: int, *, seed: int, sizes: tuple[int, int] | None = None
) -> dict[str, NDArray[np.int64]]:
    """Seeded random rows of train and valid, of these ``sizes`` or 80 % and 10 %; the rest is test."""
    train, valid = sizes or (round(0.8 * count), round(0.1 * count))
    order = np.random.default_rng(seed).permutation(count).astype(np.int64)
    parts = np.split(order, [train, train + valid])
    return {name: np.sort(rows) for name, rows in zip(SPLITS, parts, strict=True)}


def make_molecules(
    smiles: Sequence[str],
    y: NDArray[np.floating[Any]],  # (rows, targets), NaN = missing
    *,
    targets: Sequence[str],
    splits: Mapping[str, NDArray[np.int64]],
    kind: Kind = "regression",
    featurizer: str = "standard",
    name: str = "molecules",
    notes: Sequence[str] = (),
    bad_rows: BadRows = "fail",
    place: Callable[[int], str] = lambda row: f"row {row + 1}",
    limit: int | None = None,
    seed: int = 0,
) -> Molecules:
    """Featurise every SMILES; rows that RDKit refuses are an error, or are left out and reported.

    Args:
        smiles: one SMILES per row; anything after a blank (CXSMILES, a name) is not read.
        y: the targets, one row per SMILES.
        targets: the names of the columns of ``y``.
        splits: rows of each split, as indices into ``smiles``.
        kind: "classification" if every target is 0 or 1.
        featurizer: "standard" or "zinc".
        name: the name of the data set.
        notes: what a reader of results has to know about this data.
        bad_rows: "fail" on a SMILES that cannot be read, or "skip" it.
        place: names the place of a row in the user's file, for error messages.
        limit: use only so many rows, a random sample.
        seed: of the sample.
    """
    if limit is not None and limit < len(smiles):
        # Its own stream: with that of a random split, the sample would be the first training rows.
        rows = np.sort(np.random.default_rng((seed, 1)).permutation(len(smiles))[:limit]).tolist()
        return make_molecules(
            [smiles[row] for row in rows],
            y[rows],
            targets=targets,
            splits=renumber(splits, rows, len(smiles)),
            kind=kind,
            featurizer=featurizer,
            name=name,
            notes=(*notes, f"a random sample of {limit} of {len(smiles)} molecules, seed {seed}"),
            bad_rows=bad_rows,
            place=lambda row: place(rows[row]),
        )
    graphs, bad = featurize(smiles, featurizer, f"Reading molecules of {name}")
    if bad and bad_rows == "fail":
        row, reason = bad[0]
        raise DetError(
            f"{place(row)}: the SMILES {smiles[row]!r} cannot be read: {reason}. "
            "Mend the row, or set data.bad_rows=skip to leave such rows out."
        )
    if len(graphs) == 0:
        first = f" The first, at {place(bad[0][0])}: {bad[0][1]}." if bad else ""
        raise DetError(f"{name}: no valid molecule among {len(smiles)} rows.{first} Check the SMILES column.")
    unread = {row for row, _ in bad}
    kept = [row for row in range(len(smiles)) if row not in unread]
    skipped = (f"{len(bad)} of {len(smiles)} rows were left out: their SMILES cannot be read",) if bad else ()
    return Molecules(
        graphs=graphs,
        y=np.asarray(y, dtype=np.float32).reshape(len(smiles), len(targets))[kept],
        smiles=tuple(smiles[row] for row in kept),
        splits=renumber(splits, kept, len(smiles)),
        targets=tuple(targets),
        kind=kind,
        name=name,
        notes=(*notes, *skipped),
        bad_rows=tuple(
            BadRow(row + 1, reason, next((name for name, rows in splits.items() if row in rows), None))
            for row, reason in bad
        ),
    )


def read_molecules(
    path: Path,
    *,
    smiles_column: str = "smiles",
    targets: Sequence[str],
    split_column: str | None = "split",
    split: Literal["random", "scaffold"] = "random",
    kind: Kind = "regression",
    featurizer: str = "standard",
    bad_rows: BadRows = "fail",
    split_seed: int = 0,
    limit: int | None = None,
) -> Molecules:
    """Read molecules from a CSV, TSV (either may be gzipped) or Parquet table.

    Args:
        path: the table, with a header.
        smiles_column: the column of SMILES; upper and lower case are the same.
        targets: the columns to learn, none to predict only; empty cells are missing targets.
        split_column: a column with train, valid (or val) and test; blank = not used. Without a column "split"
            the rows are split 80/10/10.
        split: how, then: at random with ``split_seed``, or by scaffold.
        kind: "classification" if every target is 0 or 1.
        featurizer: "standard" or "zinc".
        bad_rows: "fail" on a SMILES that cannot be read, or "skip" it.
        split_seed: the seed of a random split, and of ``limit``.
        limit: use only so many rows, a random sample.
    """
    name = path.name.split(".")[0]
    table = read_table(path)
    smiles = _column(table, smiles_column, path).cast(pl.String).fill_null("").to_list()
    columns = [_column(table, target, path) for target in targets]
    twice = [column.name for column in columns if [other.name for other in columns].count(column.name) > 1]
    if twice:
        raise DetError(f"{path}: data.targets names the column {twice[0]!r} twice. Remove one.")
    y = np.empty((len(smiles), len(targets)))
    for number, column in enumerate(columns):
        y[:, number] = numbers_of(column, partial(where, path), kind)
    notes: tuple[str, ...] = ()
    named = {column.lower() for column in table.columns}
    if split_column is None or (split_column == "split" and "split" not in named):
        if split == "scaffold":
            splits = scaffold_splits(smiles, name)
            notes = ("80/10/10 split by Murcko scaffold",)
        else:
            splits = random_splits(len(smiles), seed=split_seed)
            notes = (f"no split column: random 80/10/10 split with seed {split_seed}",)
    elif split == "scaffold":
        raise DetError(
            f"{path}: has a column {split_column!r}, which data.split=scaffold would not read. "
            "Set data.split_column=null to split by scaffold."
        )
    else:
        splits = _read_splits(_column(table, split_column, path), path)
        unused = len(smiles) - sum(map(len, splits.values()))
        notes = (f"{unused} molecules without a split are not used",) if unused else ()
    for target, values in zip(targets, y.T, strict=True):
        known = values[~np.isnan(values)]
        if kind == "regression" and len(known) and np.isin(known, (0, 1)).all():
            notes += (f"target {target!r} holds only 0 and 1: for a class, set data.kind=classification",)
    return make_molecules(
        smiles,
        y,
        targets=targets,
        splits=splits,
        kind=kind,
        featurizer=featurizer,
        name=name,
        notes=notes,
        bad_rows=bad_rows,
        place=partial(where, path),
        limit=limit,
        seed=split_seed,
    )


def _column(table: pl.DataFrame, name: str, path: Path) -> pl.Series:
    exact = [column for column in table.columns if column == name]
    alike = [column for column in table.columns if column.lower() == name.lower()]
    if not exact and len(alike) != 1:
        raise DetError(f"{path}: no column {name!r}. {columns_there(table.columns)}")
    return table[(exact or alike)[0]]


def numbers_of(cells: pl.Series, place: Callable[[int], str], kind: Kind) -> NDArray[np.float64]:
    """One target as floats, empty cells as NaN; an error names the first cell that will not do.

    Args:
        cells: the column.
        place: names the place of a row.
        kind: of the target.
    """
    target = cells.name
    if cells.dtype.is_nested():
        raise DetError(f"{place(0)}: target {target!r} holds {cells.dtype}, expected one number a row.")
    if cells.dtype == pl.String:
        cells = cells.str.strip_chars().replace("", None)
    numbers = cells.cast(pl.Float64, strict=False)
    too_large = (numbers.abs() > float(np.finfo(np.float32).max)).fill_null(False) & numbers.is_not_nan()
    wrong = ((numbers.is_null() & cells.is_not_null()) | too_large.fill_null(False)).arg_true()
    if len(wrong):
        raise DetError(
            f"{place(wrong[0])}: target {target!r} is {cells[wrong[0]]!r}, "
            "expected a finite number, or an empty cell for a missing one."
        )
    values: NDArray[np.float64] = numbers.fill_null(float("nan")).to_numpy()
    if kind == "classification":
        strange = np.flatnonzero(~(np.isnan(values) | (values == 0) | (values == 1)))
        if len(strange):
            row = int(strange[0])
            raise DetError(
                f"{place(row)}: target {target!r} is {values[row]:g}, expected 0 or 1. "
                "Give one 0/1 column per class, or set kind to regression."
            )
    return values


def _read_splits(labels: pl.Series, path: Path) -> dict[str, NDArray[np.int64]]:
    rows: dict[str, list[int]] = {name: [] for name in SPLITS}
    for row, label in enumerate(labels.cast(pl.String).to_list()):
        word = (label or "").strip().lower()
        if not word:
            continue
        if word not in _SPLIT_NAMES:
            raise DetError(f"{where(path, row)}: split is {label!r}, expected train, valid, test or blank.")
        rows[_SPLIT_NAMES[word]].append(row)
    return {name: np.array(members, dtype=np.int64) for name, members in rows.items()}


def renumber(
    splits: Mapping[str, NDArray[np.int64]], kept: Sequence[int], count: int
) -> dict[str, NDArray[np.int64]]:
    """Splits over ``count`` rows, as splits over the rows that were kept."""
    new = np.full(count, -1, dtype=np.int64)
    new[kept] = np.arange(len(kept))
    return {name: new[rows][new[rows] >= 0] for name, rows in splits.items()}
