"""`det neighbors`: whom an entity of a knowledge graph attends to."""

import json
from pathlib import Path
from typing import Annotated

import typer

from detgraph.cli.display import console
from detgraph.errors import DetError
from detgraph.files import atomic_path
from detgraph.report.neighbors import draw, neighborhood, tables
from detgraph.tasks import EntityTask
from detgraph.training.launch import load_run

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
PICTURES = (".svg", ".png", ".pdf")


@app.command()
def neighbors(
    folder: Annotated[Path, typer.Argument(help="The folder of a finished run on a knowledge graph.")],
    entity: Annotated[str, typer.Argument(help="Its name or id.")],
    top: Annotated[int, typer.Option(min=1, help="Most neighbours of each kind to print.")] = 20,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Also draw them: a file ending in .svg, .png or .pdf."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Show the connected and distant neighbours that a run's model reads for an entity.

    f_s is the semantic encoder's score of a pair, from 0 to 1; beside it stand the attention weights of both
    encoders in the last layer, the mean over heads. For example `det neighbors runs/fb15k-237 Nintendo -o
    nintendo.svg`.
    """
    if output is not None and output.suffix not in PICTURES:
        raise DetError(f"--output {output}: a picture ends in {', '.join(PICTURES)}.")
    task = load_run(folder)
    if not isinstance(task, EntityTask):
        raise DetError(f"{folder} is not of a knowledge graph: only entities have neighbours by name.")
    found = neighborhood(task, entity)
    if as_json:
        print(json.dumps(found.record(), ensure_ascii=False))
    else:
        for table in tables(found, top):
            console.print(table)
    if output is not None:
        with atomic_path(output) as temporary:
            draw([found]).savefig(temporary, format=output.suffix[1:], dpi=160)
        if not as_json:
            console.print(f"Written: {output}")
