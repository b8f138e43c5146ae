"""`det neighbors`: whom an entity of a knowledge graph, or a node of a network, attends to."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from detgraph.cli.display import console
from detgraph.errors import DetError
from detgraph.files import atomic_path
from detgraph.report.neighbors import draw, neighborhood, tables
from detgraph.report.node_neighbors import node_neighborhood
from detgraph.report.node_neighbors import tables as node_tables
from detgraph.tasks import EntityTask, NodeTask
from detgraph.training.launch import load_run

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
PICTURES = (".svg", ".png", ".pdf")


@app.command()
def neighbors(
    folder: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    name: Annotated[
        str, typer.Argument(metavar="ENTITY|NODE", help="An entity's name or id, or a node's id.")
    ],
    top: Annotated[
        int, typer.Option(min=1, help="Most neighbours of each kind to print; --json has all.")
    ] = 20,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Also draw those of an entity: .svg, .png or .pdf."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Show the connected and distant neighbours that a run's model reads for an entity or a node.

    Networks: neighbours by id and label, for example `det neighbors runs/cora-det-seed0 17`.

    Knowledge graphs: f_s is the semantic encoder's score of a pair, from 0 to 1; beside it stand the
    attention weights of both encoders in the last layer, the mean over heads. For example
    `det neighbors runs/fb15k-237 Nintendo -o nintendo.svg`.
    """
    if output is not None and output.suffix not in PICTURES:
        raise DetError(f"--output {output}: a picture ends in {', '.join(PICTURES)}.")
    task = load_run(folder)
    if isinstance(task, NodeTask):
        if output is not None:
            raise DetError(f"{folder} is a run on a network: only neighbours of entities are drawn.")
        nodes = node_neighborhood(task, name)
        show(nodes.record() if as_json else node_tables(nodes, top))
        return
    if not isinstance(task, EntityTask):
        raise DetError(f"{folder} is a run on molecules, whose atoms have no names.")
    found = neighborhood(task, name)
    show(found.record() if as_json else tables(found, top))
    if output is not None:
        with atomic_path(output) as temporary:
            draw([found]).savefig(temporary, format=output.suffix[1:], dpi=160)
        if not as_json:
            console.print(f"Written: {output}")


def show(found: dict[str, Any] | list[Table]) -> None:
    """Print JSON, or tables."""
    if isinstance(found, dict):
        print(json.dumps(found, ensure_ascii=False))
    else:
        console.print(*found, sep="\n")
