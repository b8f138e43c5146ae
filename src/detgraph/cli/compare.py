"""`det compare`: models on the same data, seeds and protocol, as one table."""

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from types import TracebackType
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from typing_extensions import override

from detgraph.cli.display import console, duration, show_notes
from detgraph.errors import DetError
from detgraph.recipes import find_recipe
from detgraph.studies import Study, StudyObserver, complete
from detgraph.studies.models import BASELINES, OWN_MODELS, model_config
from detgraph.studies.statistics import paired, spread
from detgraph.studies.study import Outcome
from detgraph.training import Interrupted

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

GRAPHS = {"graph": "molecules", "node": "networks", "entity": "knowledge graphs"}


@app.command()
def compare(
    config: Annotated[str, typer.Argument(help="A YAML file, or a recipe of `det recipes list`.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...",
            help="Settings of DET and its twin, e.g. model.tau=0.3; those of data, and training.minutes, are "
            "for all models.",
        ),
    ] = None,
    models: Annotated[
        str,
        typer.Option(
            help="Names with commas: det, structural (the same without the semantic encoder); "
            + "; ".join(f"on {graphs} {', '.join(BASELINES[task])}" for task, graphs in GRAPHS.items())
            + "."
        ),
    ] = "det,structural",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each model, with seeds 0, 1, …")] = 5,
    jobs: Annotated[
        int, typer.Option(min=1, help="Runs at a time; several are processes of one thread.")
    ] = 1,
    output: Annotated[Path, typer.Option(help="Folder of the studies, one JSON file a model.")] = Path(
        "results"
    ),
) -> None:
    """Train several models on the same data, splits and seeds, and compare them on the test split.

    For example `det compare node/cora --models det,structural,gcn,gat --seeds 20 --jobs 2`.

    Baselines are trained with their published settings (see `det recipes list`, */baselines/…). Every
    finished run is kept in OUTPUT/DATASET-MODEL.json: after an interruption, or with more --seeds, only what
    is missing is trained. The difference and its p value (two-sided paired t-test over seeds) are to
    structural, or to the first model if that is not among them.
    """
    changes = overrides or []
    refuse_seed(changes)
    recipe = find_recipe(config)
    names = list(dict.fromkeys(name.strip() for name in models.split(",")))
    studies = []
    for model in names:
        settings = model_config(recipe, model, changes)
        name = settings.data.label
        studies.append(Study(name, model, settings, output / f"{name}-{model}.json"))
    limit = "training.minutes="  # is for all models
    unused = ", ".join(
        change for change in changes if change.startswith("training.") and not change.startswith(limit)
    )
    for model in names:
        if unused and model not in OWN_MODELS:
            console.print(f"{model}: published settings; {unused} does not apply")
    try:
        with StudyBar() as bar:
            complete(studies, range(seeds), jobs, bar)
    except Interrupted:
        show_table([study for study in studies if study.runs()])
        console.print(f"Stopped; everything is kept in {output}. Run the same command again to go on.")
        raise typer.Exit(130) from None
    show_table(studies)
    console.print(f"Studies: {' '.join(str(study.file) for study in studies)}")
    console.print(f"Next: more certainty with --seeds {2 * seeds} (trains only new ones), or other --models.")


def refuse_seed(changes: Sequence[str]) -> None:
    """Several runs have seeds of their own."""
    if any(change.startswith("seed=") for change in changes):
        raise DetError("seed= has no effect here, runs have the seeds 0, 1, …: use --seeds for their number.")


class StudyBar(StudyObserver):
    """A progress bar of runs on a terminal; elsewhere a line for each run."""

    def __init__(self, screen: Console = console) -> None:
        self.screen = screen
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self.bar = Progress(
            *columns,
            console=screen,
            disable=not screen.is_terminal,
            transient=True,
            speed_estimate_period=24 * 3600,  # a single run may take hours
        )
        self.row = self.bar.add_task("runs", total=None)
        self.done = self.found = self.total = 0
        self.start = time.monotonic()

    def __enter__(self) -> "StudyBar":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    @override
    def begin(self, total: int, done: int) -> None:
        self.done = self.found = done
        self.total = total
        self.bar.update(self.row, total=total - done)
        if done:
            self.screen.print(f"{done} of {total} runs are there already")

    @override
    def started(self, study: Study, seed: int) -> None:
        self.bar.update(self.row, description=f"{study.name} seed {seed}")

    @override
    def finished(self, study: Study, outcome: Outcome) -> None:
        self.done += 1
        self.bar.advance(self.row)
        result = outcome.result
        score = (result.test or result.valid)[result.metric]
        left = (time.monotonic() - self.start) / (self.done - self.found) * (self.total - self.done)
        self.screen.print(
            f"{study.name} seed {outcome.seed}: {result.metric} {score:.4f} in {duration(result.seconds)}; "
            f"{self.done} of {self.total} runs, about {duration(left)} left"
        )


def show_table(studies: Sequence[Study]) -> None:
    """One row a model: its metric, and its difference to the reference on the same seeds."""
    if not studies:
        return
    reference = next((study for study in studies if study.model == "structural"), studies[0])
    first = reference.content()
    assert first is not None
    metric, higher = first["metric"], first["higher_is_better"]
    split = "test" if first["runs"][0]["test"] else "valid"
    table = Table(
        "model",
        f"{metric} {'↑' if higher else '↓'}",
        "runs",
        f"to {reference.model}",
        "p",
        "better in",
        "seconds",
        title=f"{reference.dataset}, {split} split; a prediction that looks at no input gets "
        f"{first['trivial']:.3f}",
    )
    for column in table.columns:
        column.no_wrap = True
    for study in studies:
        scores = study.scores()
        seconds = [run.seconds for run in study.runs().values()]
        gap = None if study is reference else paired(scores, reference.scores(), higher_is_better=higher)
        cells = ("", "", "")
        if gap is not None:
            cells = (f"{gap.difference:+.4f}", gap.p_text, f"{gap.wins} of {gap.seeds}")
        table.add_row(
            study.model,
            spread(list(scores.values()), digits=4),
            str(len(scores)),
            *cells,
            f"{mean(seconds):.1f}",
        )
    console.print(table)
    show_notes(first["notes"])
