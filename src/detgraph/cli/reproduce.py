"""`det reproduce`: the paper's tables and figures, from the studies at hand or trained again."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from detgraph.cli.compare import StudyBar
from detgraph.cli.display import announce, beside, console, run_training
from detgraph.errors import DetError
from detgraph.report.neighbors import tables
from detgraph.reproduce import TARGETS, figure_neighbors, find_target
from detgraph.reproduce.entries import read_entries
from detgraph.reproduce.facts import count_facts
from detgraph.reproduce.rendering import notes, terminal_tables, write_files
from detgraph.reproduce.results import Results, committed_results, named_results, new_results
from detgraph.reproduce.target import Target
from detgraph.reproduce.training import trainable
from detgraph.studies import complete
from detgraph.training import Interrupted
from detgraph.training.loop import Diverged, using_threads

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def reproduce(
    name: Annotated[
        str, typer.Argument(metavar="TARGET", help=f"One of {', '.join((*TARGETS, figure_neighbors.NAME))}.")
    ],
    recompute: Annotated[bool, typer.Option("--recompute", help="Train the runs that are missing.")] = False,
    runs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With --recompute, a quick look: so many runs of everything, in a folder of its own below "
            "--output.",
        ),
    ] = None,
    only: Annotated[str | None, typer.Option(help="Data sets with commas, e.g. cora,citeseer.")] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Runs at a time; several are processes of one thread.")
    ] = 1,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the studies. Default: those that come with detgraph; with --recompute, "
            "results/ of the source tree, or of the present folder."
        ),
    ] = None,
    output: Annotated[Path, typer.Option(help="Where the rendered files go.")] = Path("reproduced"),
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object a line instead, and write no rendered files."),
    ] = False,
) -> None:
    """Print a table or figure of the paper beside the numbers measured here.

    Numbers come from study files, which hold every run with its configuration; the table is written to
    OUTPUT as Markdown and JSON, a figure as SVG and PNG, too. A cell without a study says "not run". For
    example `det reproduce table-nodes`.

    With --recompute what is missing is trained first, after an interruption only the rest. Tables of 100
    runs take hours: begin with a quick look at one data set,
    `det reproduce table-ablation --recompute --only cora --runs 1`.
    """
    named = named_results(results, new=recompute) if results else None
    if name == figure_neighbors.NAME:
        if only is not None or runs is not None or jobs > 1:
            raise DetError(
                f"{name} is of one run on each data set: --only, --runs and --jobs are for other targets."
            )
        reproduce_neighbors(named, output, recompute=recompute, as_json=as_json)
        return
    if jobs > 1 and not recompute:
        raise DetError("--jobs is for training: it goes with --recompute.")
    target = find_target(name)
    if only is not None:
        target = target.only([dataset.strip() for dataset in only.split(",")])
    if runs is not None:
        if not recompute or results is not None:
            raise DetError(
                "--runs is a quick look with studies of its own: it goes with --recompute, without --results."
            )
        output = output / f"{runs}-runs"
        named = Results(output / "studies")
    source = named or (new_results() if recompute else committed_results())
    finished = True
    if recompute:
        finished = train(target, source, runs, jobs, beside if as_json else console)
    entries = read_entries(target, source, runs)
    if as_json:
        for entry in entries:
            print(json.dumps(entry.record(), ensure_ascii=False))
    else:
        console.print(*terminal_tables(target, entries, console.width), sep="\n")
        for line in notes(target, entries):
            console.print(f"- {line}")
        files = write_files(target, entries, output)
        console.print(f"Studies: {source.path}; written: {' '.join(str(file) for file in files)}")
    if not finished:
        raise typer.Exit(130)


def reproduce_neighbors(results: Results | None, output: Path, *, recompute: bool, as_json: bool) -> None:
    """The figure of two entities, from one trained run each."""
    source = results or (new_results() if recompute else committed_results())
    screen = beside if as_json else console
    if recompute:
        for dataset, entity, folder, trainer in figure_neighbors.missing(source, output / "runs"):
            if trainer is not None:
                announce(trainer.task, trainer, screen)
                if run_training(trainer, folder.name, screen) is None:
                    raise typer.Exit(130)
            figure_neighbors.keep_example(source, dataset, entity, folder)
    examples = figure_neighbors.read_examples(source)
    if as_json:
        for dataset, found in examples.items():
            print(json.dumps({"dataset": dataset, **found.record()}, ensure_ascii=False))
        return
    for dataset, _ in figure_neighbors.EXAMPLES:
        if dataset in examples:
            for table in tables(examples[dataset]):
                console.print(table)
        else:
            console.print(f"{dataset}: not run")
    if examples:
        files = figure_neighbors.write_files(examples, output)
        console.print(f"Studies: {source.path}; written: {' '.join(str(file) for file in files)}")


def train(target: Target, source: Results, runs: int | None, jobs: int, screen: Console) -> bool:
    """Train, or count, what is missing; whether it came to its end."""
    if target.facts is not None:
        if runs is not None or jobs > 1:
            raise DetError(f"{target.name} is counted, not trained: --runs and --jobs are for other targets.")
        for reason in count_facts(target, source.facts(target.name)):
            screen.print(f"note: {reason}")
        return True
    studies, reasons = trainable(target, source, runs)
    for reason in reasons:
        screen.print(f"note: {reason}")
    try:
        for wanted, group in studies.items():
            timed = any(study.config.training.minutes is not None for study in group)
            # Limits of time are those of one core.
            with StudyBar(screen) as bar, using_threads(1) if timed else nullcontext():
                try:
                    complete(group, range(wanted), jobs, bar)
                except Diverged as error:
                    screen.print(f"note: {error}")
    except Interrupted:
        screen.print("Stopped; everything is kept. Run the same command again to go on.")
        return False
    return True
