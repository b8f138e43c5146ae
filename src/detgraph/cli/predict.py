"""`det predict`: what a finished run says of new molecules, of nodes, or of questions about entities."""

from pathlib import Path
from typing import Annotated

import typer

from detgraph.cli.entity_predictions import answer_question, answer_table
from detgraph.cli.molecule_predictions import BadRows, predict_table
from detgraph.cli.node_predictions import predict_nodes
from detgraph.config import GraphConfig, NodeConfig
from detgraph.errors import DetError
from detgraph.tasks.entity_prediction import Question
from detgraph.training import RunFolder

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

MOLECULES, ENTITIES = "Molecules", "Knowledge graphs"


@app.command()
def predict(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    table: Annotated[
        Path | None,
        typer.Argument(
            help="CSV, TSV (both may be .gz) or Parquet: a molecule a row; or a question a row, with the "
            "columns head, relation and tail, of which head or tail is empty."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="CSV or TSV. Default: TABLE with -predicted; for networks RUN/predictions.csv.",
        ),
    ] = None,
    bad_rows: Annotated[
        BadRows,
        typer.Option(
            help="Rows of TABLE that cannot be predicted: kept without an answer and with the reason (nan), "
            "left out (skip), or an error (fail)."
        ),
    ] = BadRows.nan,
    smiles_column: Annotated[
        str, typer.Option(help="The column of SMILES.", rich_help_panel=MOLECULES)
    ] = "smiles",
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
    """Predict the properties of molecules, the classes of nodes, or the missing end of triples.

    Molecules: rows and columns of TABLE stay as they are; a column is added for each target of the run (a
    probability for 0/1 targets), and `problem` with the reason where there is no prediction. The data the run
    was trained on is not needed. For example `det predict runs/zinc molecules.csv -o predicted.csv`.

    Networks: `det predict runs/cora` writes a row for every node of the run's network: its id, its split and
    label where it has them, the label or labels predicted, and their probabilities.

    Knowledge graphs: `det predict runs/fb15k-237 --head Nintendo --relation
    /business/business_operation/industry --top 5`, or a TABLE of questions.
    """
    for given in (table, facts):
        if output is not None and given is not None and output.resolve() == given.resolve():
            raise DetError(f"--output {output} is the file to read. Name another one.")
    config = RunFolder.open(folder).config()
    if isinstance(config, GraphConfig):
        case = f"{folder} is a run on molecules"
        refuse_others(context, case, "table output bad_rows smiles_column prefix")
        if table is None:
            raise DetError(f"{case}: give it a table of SMILES.")
        predict_table(folder, table, output, smiles_column, bad_rows, prefix)
    elif isinstance(config, NodeConfig):
        refuse_others(context, f"{folder} is a run on a network, whose own nodes it predicts", "output")
        predict_nodes(folder, output)
    elif table is not None:
        refuse_others(context, "for a table of questions", "table output bad_rows top known facts")
        answer_table(folder, table, output, facts, bad_rows, top, known=known)
    elif relation is None:
        raise DetError("name what is asked for: --relation with --head or --tail, or give a table.")
    else:
        way = "as_json" if as_json else "output"
        refuse_others(context, "for one question", f"head relation tail top known facts {way}")
        answer_question(
            folder, Question(head, relation, tail), output, facts, top, known=known, as_json=as_json
        )


def refuse_others(context: typer.Context, case: str, taken: str) -> None:
    """Refuse what was given on the command line but has no effect, named as it is in the help."""
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if source and source.name == "COMMANDLINE" and name not in ("folder", *taken.split()):
            shown = next((text for text in parameter.opts if text.startswith("--")), name.upper())
            raise DetError(f"{case}: {shown} has no effect there. Leave it out.")
