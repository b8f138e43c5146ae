"""`det submit`: a run's predictions for a hidden test split, as OGB's leaderboard takes them."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from detgraph.cli.display import console
from detgraph.errors import DetError
from detgraph.files import atomic_path
from detgraph.tasks import GraphTask
from detgraph.training.launch import load_run

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

# Names that OGB asks for.
FILES = {"pcqm4m": "y_pred_pcqm4m.npz", "pcqm4m-v2": "y_pred_pcqm4m-v2_test-dev.npz"}


@app.command()
def submit(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run on pcqm4m or pcqm4m-v2.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the file.")] = Path("submission"),
) -> None:
    """Write the predictions for the hidden test split of PCQM4M in the form of OGB's leaderboard.

    For example `det submit runs/pcqm4m-v2-det-seed0`, which writes submission/y_pred_pcqm4m-v2_test-dev.npz.
    """
    task = load_run(folder)
    if not isinstance(task, GraphTask) or task.data.name not in FILES:
        raise DetError(f"{folder} is not a run on {' or '.join(FILES)}, which alone have a leaderboard.")
    if task.config.data.limit is not None:
        raise DetError(
            f"{folder} has data.limit={task.config.data.limit}, so molecules of the test split are left out, "
            "but a submission needs every molecule. Train without data.limit."
        )
    missing = [bad for bad in task.data.bad_rows if bad.split == "test"]
    if missing:
        raise DetError(
            f"{len(missing)} molecules of the test split could not be read (the first: row {missing[0].row}, "
            f"{missing[0].reason}), but a submission needs every molecule. Mend these rows."
        )
    console.print(f"Predicting {len(task.data.splits['test']):,} molecules ...")
    path = output / FILES[task.data.name]
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, y_pred=task.predict("test")[:, 0].numpy())
    console.print(f"Written: {path}")
    console.print("Next: upload it at https://ogb.stanford.edu/docs/lsc")
