"""`det predict`: what a finished run says of new molecules, or of questions about entities."""

from pathlib import Path
from typing import Annotated

import typer

from detgraph.cli.entity_predictions import answer_question, answer_table
from detgraph.cli.molecule_predictions import BadRows, predict_table
from detgraph.config import EntityConfig, GraphConfig
from detgraph.errors import DetError
from detgraph.tasks.entity_prediction import Question
from detgraph.training import RunFolder

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

MOLECULES, ENTITIES = "Molecules", "Knowledge graphs"


@app.command()
def predict(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    table: Annotated[
        Path | None,
        typer.Argument(
            help="CSV, TSV (both may be .gz) or Parquet: a molecule a row; or a question a row, with the "
            "columns head, relation and tail, of which head or tail is empty."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV or TSV. Default: TABLE with -predicted.")
    ] = None,
    smiles_column: Annotated[
        str, typer.Option(help="The column of SMILES.", rich_help_panel=MOLECULES)
    ] = "smiles",
    bad_rows: Annotated[
        BadRows,
        typer.Option(
            help="Rows that cannot be predicted: kept without a number and with the reason (nan), left out "
            "(skip), or an error (fail).",
            rich_help_panel=MOLECULES,
        ),
    ] = BadRows.nan,
    prefix: Annotated[
        str, typer.Option(help="Goes before the names of the new columns.", rich_help_panel=MOLECULES)
    ] = "predicted_",
    head: Annotated[
        str | None, typer.Option(help="Ask for the tail: name or id.", rich_help_panel=ENTITIES)
    ] = None,
    relation: Annotated[str | None, typer.Option(help="Name or id.", rich_help_panel=ENTITIES)] = None,
    tail: Annotated[
        str | None, typer.Option(help="Ask for the head: name or id.", rich_help_panel=ENTITIES)
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many answers.", rich_help_panel=ENTITIES)] = 10,
    known: Annotated[
        bool, typer.Option("--known", help="Also answers that training had.", rich_help_panel=ENTITIES)
    ] = False,
    facts: Annotated[
        Path | None,
        typer.Option(
            help="Lines head<TAB>relation<TAB>tail about entities that training did not have.",
            rich_help_panel=ENTITIES,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object an answer.", rich_help_panel=ENTITIES)
    ] = False,
) -> None:
    """Predict the properties of molecules, or the missing end of triples.

    Molecules: rows and columns of TABLE stay as they are; a column is added for each target of the run (a
    probability for 0/1 targets), and `problem` with the reason where there is no prediction. The data the run
    was trained on is not needed. For example `det predict runs/zinc molecules.csv -o predicted.csv`.

    Knowledge graphs: `det predict runs/fb15k-237 --head Nintendo --relation "..." --top 5`, or a TABLE of
    questions.
    """
    config = RunFolder.open(folder).config()
    if isinstance(config, GraphConfig):
        if table is None or head or relation or tail or facts:
            raise DetError(f"{folder} is a run on molecules: give it a table of SMILES, and no names.")
        predict_table(folder, table, output, smiles_column, bad_rows, prefix)
    elif isinstance(config, EntityConfig):
        if table is not None:
            answer_table(folder, table, output, facts, top, known=known)
        elif relation is None:
            raise DetError("name what is asked for: --relation with --head or --tail, or give a table.")
        else:
            answer_question(folder, Question(head, relation, tail), facts, top, known=known, as_json=as_json)
    else:
        raise DetError(f"{folder} is a run on a network; `det evaluate {folder}` measures it.")
