"""`det train`: train a model from a configuration file or recipe."""

from pathlib import Path
from typing import Annotated

import typer

from detgraph.cli.display import announce, run_training, show_result
from detgraph.config import load_config
from detgraph.recipes import find_recipe
from detgraph.report.html import write_report
from detgraph.training.launch import free_folder, start

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def train(
    config: Annotated[str, typer.Argument(help="A YAML file, or a recipe of `det recipes list`.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Settings to change, e.g. model.tau=0.3 seed=1."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Run folder; default: a new one under runs/.")] = None,
) -> None:
    """Train a model; its weights, metrics and report go into a run folder.

    For example `det train node/cora`, or `det train my.yaml model.tau=1 seed=3 --output runs/twin-3`.
    """
    settings = load_config(find_recipe(config), overrides or ())
    trainer = start(settings, output or free_folder(settings))
    announce(trainer.task, trainer)
    result = run_training(trainer, trainer.run.path.name)
    if result is None:
        raise typer.Exit(130)
    write_report([trainer.run], trainer.run.report_file)
    show_result(result, trainer)
