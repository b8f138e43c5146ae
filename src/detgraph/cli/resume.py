"""`det resume`: go on with an interrupted run."""

from pathlib import Path
from typing import Annotated

import typer

from detgraph.cli.display import announce, console, run_training, show_result
from detgraph.report.html import write_report
from detgraph.training.launch import resume as resume_run

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def resume(folder: Annotated[Path, typer.Argument(help="The run folder.")]) -> None:
    """Go on from the last checkpoint; on a CPU the outcome is the same, bit for bit, as if never stopped."""
    trainer = resume_run(folder)
    announce(trainer.task, trainer)
    progress = trainer.progress
    if progress.step or not trainer.at_end():
        console.print(f"Going on in epoch {progress.epoch + 1}, step {progress.step + 1}")
    else:
        console.print("All epochs are done; the last evaluation is left")
    result = run_training(trainer, folder.name)
    if result is None:
        raise typer.Exit(130)
    write_report([trainer.run], trainer.run.report_file)
    show_result(result, trainer)
