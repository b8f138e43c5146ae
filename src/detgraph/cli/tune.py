"""`det tune`: search for good settings on the validation split."""

import shlex
import time
from pathlib import Path
from typing import Annotated

import typer
from typing_extensions import override

from detgraph.cli.compare import refuse_seed
from detgraph.cli.display import console, duration
from detgraph.config.schema import model_name
from detgraph.errors import DetError
from detgraph.recipes import find_recipe
from detgraph.studies.models import OWN_MODELS
from detgraph.studies.space import Space, overrides
from detgraph.studies.tuning import Trial, Tuning, TuningObserver, load_optuna, search
from detgraph.training import Interrupted

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def tune(
    recipe: Annotated[str, typer.Argument(help="A YAML file, or a recipe of `det recipes list`.")],
    space: Annotated[Path, typer.Argument(metavar="SPACE.yaml", help="Settings to search, see above.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Settings of all trials, e.g. data.limit=100."),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials in all, with those already in the file.")] = 50,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Begin no trial after so many minutes.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each trial, with seeds 0, 1, …")] = 2,
    jobs: Annotated[
        int, typer.Option(min=1, help="Trials at a time; several are processes of one thread.")
    ] = 1,
    output: Annotated[
        Path | None, typer.Option(help="File of the search. Default: results/tuning/DATASET.json.")
    ] = None,
) -> None:
    """Try settings of a recipe and keep those with the best validation metric; the test split is never read.

    SPACE.yaml has a range or a list of choices for each setting, for example
    `model.tau: {low: 0.1, high: 0.95}`, `training.learning_rate: {low: 1e-3, high: 5e-2, log: true}`,
    `neighbors.k: [4, 8, 16]`.

    New settings are proposed by Optuna's tree-structured Parzen estimator. Every finished trial is kept in
    the file: after an interruption, or with more --trials, the search goes on from there. Settings that do
    not fit together, or with which training diverges, are failed trials.
    """
    load_optuna()
    refuse_seed(changes or ())
    tuning = Tuning(find_recipe(recipe), Space.read(space), seeds, output, changes or ())
    console.print(
        f"{tuning.dataset}: up to {trials} trials of {seeds} run{'s' * (seeds != 1)} each; the best mean "
        f"validation {tuning.metric} counts, the test split is not read."
    )
    try:
        search(tuning, trials, minutes, jobs, TrialLines(tuning, minutes))
    except Interrupted:
        console.print(f"Stopped; finished trials are kept in {tuning.file}. Run the same command to go on.")
        raise typer.Exit(130) from None
    show_best(tuning, recipe)


class TrialLines(TuningObserver):
    """A line for each trial."""

    def __init__(self, tuning: Tuning, minutes: float | None) -> None:
        self.tuning, self.minutes = tuning, minutes
        self.start = time.monotonic()
        self.total = self.found = 0

    @override
    def begin(self, total: int, done: int) -> None:
        self.total, self.found = total, done
        if done:
            console.print(f"{done} of {total} trials are there already")

    @override
    def finished(self, trial: Trial) -> None:
        done = len(self.tuning.trials)
        passed = time.monotonic() - self.start
        left = passed / (done - self.found) * (self.total - done)
        if self.minutes is not None:
            left = min(left, max(0.0, 60 * self.minutes - passed))
        outcome = f"failed: {trial.failed}" if trial.value is None else f"{trial.value:.4f}"
        best = self.tuning.best
        ahead = "" if best is None else f"best {best.value:.4f} in trial {best.number}, "
        console.print(f"trial {trial.number}: {outcome}  {' '.join(overrides(trial.settings))}")
        console.print(f"  {done} of {self.total} trials, {ahead}about {duration(left)} left", style="dim")


def show_best(tuning: Tuning, recipe: str) -> None:
    """The best settings to paste, where all trials are, and what to do next."""
    best = tuning.best
    failed = [trial for trial in tuning.trials if trial.failed is not None]
    if best is None:
        if failed:
            raise DetError(
                f"all {len(failed)} trials failed, the last one so: {failed[-1].failed} "
                "Change the search space."
            )
        raise DetError("no trial was begun: give more --minutes.")
    console.print(
        f"Best of {len(tuning.trials)} trials ({len(failed)} failed): validation {tuning.metric} "
        f"{best.value:.4f} over {tuning.seeds} seed{'s' * (tuning.seeds != 1)}, trial {best.number}"
    )
    pasted = shlex.join(overrides(best.settings))
    console.print(f"  {pasted}")
    console.print(f"All trials: {tuning.file}")
    own = model_name(tuning.config) in OWN_MODELS
    verb, options = ("compare", " --models det,structural --seeds 20") if own else ("train", "")
    console.print(f"Next: det {verb} {shlex.join([recipe, *tuning.changes])} {pasted}{options}")
