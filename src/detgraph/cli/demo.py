"""`det demo`: DET against its structural-only twin on all three tasks."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from detgraph.cli.display import announce, console, duration, run_training
from detgraph.config import Config, dump_config, load_config
from detgraph.errors import DetError
from detgraph.recipes import recipe_path
from detgraph.report.html import write_report
from detgraph.training import RunFolder
from detgraph.training.session import resume, start

app = typer.Typer(pretty_exceptions_enable=False)
RECIPES = ("demo/molecules", "demo/network", "demo/knowledge-graph")
MODELS = {"structural": ["model.tau=1"], "det": []}


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Where the run folders and the report go.")] = Path(
        "demo-runs"
    ),
    seed: Annotated[int, typer.Option(help="Seed of all runs.")] = 0,
) -> None:
    """Train DET and the structural-only model on the same budget: molecules, a network, a knowledge graph.

    All data comes with the installed packages; the network is generated. Runs that are already there are
    not trained again, interrupted ones go on.
    """
    runs: list[RunFolder] = []
    for recipe in RECIPES:
        for model, overrides in MODELS.items():
            config = load_config(recipe_path(recipe), [*overrides, f"seed={seed}"])
            path = output / f"{Path(recipe).name}-{model}"
            console.rule(path.name)
            run = train_once(config, path)
            if run is None:
                console.print(f"Run `det demo --output {output}` again to go on.")
                raise typer.Exit(130)
            runs.append(run)
    report = output / "report.html"
    write_report(runs, report, title="detgraph demo: DET and its structural-only twin")
    show_comparison(runs)
    console.print(f"Run folders and report: {output}/, {report}")
    console.print(
        "One seed shows that everything learns, not which model is better: for that, compare seeds."
    )
    console.print("Next: det recipes list; det train node/papers; your own data: see README.md")


def train_once(config: Config, path: Path) -> RunFolder | None:
    """Train into ``path``, or take what is there; None if interrupted."""
    run = RunFolder(path)
    if run.config_file.exists():
        if dump_config(run.config()) != dump_config(config):
            raise DetError(f"{path} holds a run with other settings; choose another folder with --output.")
        if run.result() is not None:
            console.print("already trained")
            return run
        trainer = resume(path)
    else:
        trainer = start(config, path)
    announce(trainer.task, trainer)
    return None if run_training(trainer, path.name) is None else run


def show_comparison(runs: list[RunFolder]) -> None:
    """One table of all runs: test metric beside the trivial predictor's."""
    table = Table("run", "metric", "no input", "test", "time", title="DET and its structural-only twin")
    for run in runs:
        result = run.result()
        assert result is not None, "every run of the demo has finished"
        metric = result["metric"]
        arrow = "↑" if result["higher_is_better"] else "↓"
        table.add_row(
            run.path.name,
            f"{metric} {arrow}",
            f"{result['trivial']:.3f}",
            f"{result['test'][metric]:.3f}",
            duration(result["seconds"]),
        )
    console.print(table)
