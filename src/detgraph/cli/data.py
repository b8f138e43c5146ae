"""`det data`: what benchmarks there are, where they are, and whether a file can be used."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table

from detgraph.config import load_config
from detgraph.data.benchmarks import (
    BENCHMARKS,
    Benchmark,
    Dataset,
    benchmark_options,
    get_benchmark,
    load_benchmark,
    whereabouts,
)
from detgraph.data.fetch import locate, package_folder
from detgraph.data.molecules import Molecules, read_molecules
from detgraph.data.networks import Network
from detgraph.data.tables import columns_there, read_lines, read_table, where
from detgraph.data.triples import read_triples
from detgraph.errors import DetError, unknown_name

app = typer.Typer(help="List, fetch and check data sets.", no_args_is_help=True, add_completion=False)
SHOWN_PROBLEMS = 10
TABLES = (".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz")
TRIPLES = (".tsv", ".txt", ".tsv.gz", ".txt.gz")


@app.command("list")
def list_benchmarks() -> None:
    """All benchmarks, and where each is on this machine."""
    table = Table("name", "task", "what", "metric", "where it is")
    table.columns[0].no_wrap = True
    for benchmark in BENCHMARKS.values():
        place = whereabouts(benchmark)
        table.add_row(benchmark.name, benchmark.task, benchmark.title, benchmark.metric, place)
    Console(markup=False).print(table)
    _say("Next: det data info NAME, or det data fetch NAME for one that is not here.")


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Benchmarks to fetch.")],
) -> None:
    """Bring benchmarks to this machine and check them."""
    for benchmark in [get_benchmark(name) for name in names]:  # all names, before the first download
        if benchmark.files:
            folder = locate(benchmark.name, benchmark.files)
            _say(f"{benchmark.name}: {len(benchmark.files)} files, whole, below {folder}")
        else:
            if benchmark.package is not None:
                package_folder(benchmark.package)
            _say(f"{benchmark.name}: nothing to fetch ({whereabouts(benchmark)})")
        _next(benchmark)


@app.command()
def info(name: Annotated[str, typer.Argument(help="A benchmark.")]) -> None:
    """Everything known about a benchmark, with its counts if it is here."""
    benchmark = get_benchmark(name)
    place = whereabouts(benchmark)
    _pairs(
        [
            ("name", benchmark.name),
            ("what", benchmark.title),
            ("task", benchmark.task),
            ("metric", benchmark.metric),
            ("split", benchmark.split),
            ("source", benchmark.source),
            ("licence", benchmark.licence),
            ("note", benchmark.note or "none"),
            (
                "options",
                ", ".join(f"{key}={value}" for key, value in benchmark_options(name).items()) or "none",
            ),
            ("where it is", place),
            *((("files", ", ".join(file.path for file in benchmark.files)),) if benchmark.files else ()),
        ]
    )
    if place == "not here":
        _say(f"Next: det data fetch {name}")
    else:
        _describe(_load_some(name))
        _next(benchmark)


@app.command()
def check(
    what: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE", help="A benchmark, a configuration (.yaml), or your own table or triples."
        ),
    ],
    smiles: Annotated[str, typer.Option(help="The column of SMILES of your table.")] = "smiles",
    targets: Annotated[list[str] | None, typer.Option(help="A column to learn; may be repeated.")] = None,
) -> None:
    """Check a benchmark's files and load it once, or look through a file of your own.

    For example `det data check my.yaml`, which reads all data that the configuration names.
    """
    if what in BENCHMARKS:
        _check_benchmark(BENCHMARKS[what])
        return
    path = Path(what)
    if path.suffix in (".yaml", ".yml"):
        from detgraph.training.launch import prepare  # takes seconds to import, which lists need not wait for
        from detgraph.training.loop import require_validation

        task = prepare(load_config(path))
        _describe(task.data)
        require_validation(task)
        _say(f"No problems. Next: det train {path}")
        return
    if not path.exists() and not path.suffix:
        raise unknown_name("benchmark or file", what, BENCHMARKS)
    name = path.name.lower()
    if name.endswith(TABLES) and (name.endswith(".parquet") or targets or _has_column(path, smiles)):
        _check_molecules(path, smiles, targets or [])
    elif name.endswith(TRIPLES):
        _describe(read_triples(path, None, None, name=path.name))
        _say("No problems. Next: name this file in a config with task entity, then det train CONFIG.yaml")
    else:
        columns = f"{columns_there(read_table(path).columns)} " if name.endswith(TABLES) else ""
        raise DetError(
            f"{path}: neither a table of molecules (no column {smiles!r}) nor triples. {columns}"
            "Expected .csv, .tsv or .parquet with a column of SMILES (name it with --smiles), "
            "or .tsv or .txt with three columns. A network has two tables: name them in a configuration, and "
            "check that."
        )


def _check_benchmark(benchmark: Benchmark) -> None:
    if benchmark.files:
        folder = locate(benchmark.name, benchmark.files)
        for file in benchmark.files:
            verdict = "checksum right" if file.sha256 else "there; its checksum is not known"
            _say(f"{file.find(folder)}: {verdict}")
    else:
        _say(f"{benchmark.name}: {whereabouts(benchmark)}, no files to check")
    _describe(load_benchmark(benchmark.name))
    _next(benchmark)


def _check_molecules(path: Path, smiles: str, targets: list[str]) -> None:
    preview = read_table(path).head(3)
    table = Table(*preview.columns, title="the first rows")
    for cells in preview.iter_rows():
        table.add_row(*("" if cell is None else str(cell) for cell in cells))
    Console(markup=False).print(table)
    molecules = read_molecules(path, smiles_column=smiles, targets=targets, bad_rows="skip")
    _describe(molecules)
    for bad in molecules.bad_rows[:SHOWN_PROBLEMS]:
        _say(f"{where(path, bad.row - 1)}: {bad.reason}")
    if len(molecules.bad_rows) > SHOWN_PROBLEMS:
        _say(f"and {len(molecules.bad_rows) - SHOWN_PROBLEMS} more")
    if molecules.bad_rows:
        _say("Next: mend these rows, or set data.bad_rows=skip to leave them out.")
        raise typer.Exit(2)
    _say("No problems. Next: name this file in a config with task graph, then det train CONFIG.yaml")


def _has_column(path: Path, name: str) -> bool:
    if path.name.lower().endswith(TRIPLES):  # quotes mean nothing there
        columns = "".join(read_lines(path)["text"].head(1)).split("\t")
    else:
        columns = read_table(path).columns
    return name.lower() in (column.strip().lower() for column in columns)


def _load_some(name: str) -> Dataset:
    """The benchmark as it is; of a large molecule set a sample, which is enough for its counts."""
    return load_benchmark(name, **({"limit": 1000} if "limit" in benchmark_options(name) else {}))


def _describe(data: Dataset) -> None:
    """The counts of a data set, and what was done to it on the way in."""
    if isinstance(data, Network):
        graph = data.graph
        masks = {"train": graph.train_mask, "valid": graph.val_mask, "test": graph.test_mask}
        rows = [
            ("nodes", f"{len(data.nodes):,}"),
            ("undirected edges", f"{graph.edge_index.size(1) // 2:,}"),
            ("features", "none" if graph.x is None else f"{graph.x.size(1):,}"),
            ("labels" if data.multi_label else "classes", f"{len(data.classes):,}"),
            *((split, f"{int(mask.sum()):,} nodes") for split, mask in masks.items()),
        ]
    elif isinstance(data, Molecules):
        y = torch.from_numpy(data.y)  # (molecules, targets)
        rows = [
            ("molecules", f"{len(data.graphs):,}"),
            ("atoms", f"{int(data.graphs.sizes.sum()):,}"),
            *((split, f"{len(rows):,} molecules") for split, rows in data.splits.items()),
        ]
        for column, target in enumerate(data.targets):
            known = y[~y[:, column].isnan(), column]
            spread = f"mean {known.mean():.4f}, std {known.std():.4f}" if len(known) > 1 else ""
            rows.append((f"target {target}", f"{len(known):,} values {spread}"))
    else:
        rows = [
            ("entities", f"{len(data.entities):,}"),
            ("relations", f"{len(data.relations):,}"),
            *((split, f"{len(getattr(data, split)):,} triples") for split in ("train", "valid", "test")),
        ]
    _pairs([*rows, *(("note", note) for note in data.notes)])


def _pairs(rows: Iterable[tuple[str, str]]) -> None:
    table = Table(show_header=False, box=None)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for key, value in rows:
        table.add_row(key, value)
    Console(markup=False).print(table)


def _next(benchmark: Benchmark) -> None:
    recipe = benchmark.name.removesuffix("-official")  # which has settings of its substitute
    changes = "" if recipe == benchmark.name else f" data.name={benchmark.name}"
    _say(f"Next: det train {benchmark.task}/{recipe}{changes}")


def _say(text: str) -> None:
    Console().print(text, markup=False, highlight=False, soft_wrap=True)
