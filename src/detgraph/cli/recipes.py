"""`det recipes`: list, show and copy ready configurations."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from detgraph.errors import DetError
from detgraph.files import write_text
from detgraph.recipes import recipe_names, recipe_path, recipe_title

app = typer.Typer(
    help="List, show and copy ready configurations.", no_args_is_help=True, add_completion=False
)
Name = Annotated[str, typer.Argument(help="A recipe, e.g. node/cora.")]


@app.command("list")
def list_recipes() -> None:
    """All recipes, one line each."""
    table = Table("recipe", "what it is")
    for name in recipe_names():
        table.add_row(name, recipe_title(name))
    Console().print(table)
    Console().print("Next: det train NAME, or det recipes copy NAME to change it.", highlight=False)


@app.command()
def show(name: Name) -> None:
    """Print a recipe."""
    print(recipe_path(name).read_text(encoding="utf-8"), end="")


@app.command()
def copy(
    name: Name, target: Annotated[Path | None, typer.Argument(help="New file; default: here.")] = None
) -> None:
    """Copy a recipe to change it."""
    target = target or Path(f"{Path(name).name}.yaml")
    text = recipe_path(name).read_text(encoding="utf-8")
    if target.exists():
        raise DetError(f"{target} exists already; name another file.")
    write_text(target, text)
    print(f"Wrote {target}. Next: det train {target}")
