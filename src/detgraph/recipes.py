"""Recipes: ready configurations that come with detgraph, named like ``node/cora``."""

import re
from itertools import takewhile
from pathlib import Path

from detgraph.errors import DetError, unknown_name


def recipes_folder() -> Path:
    """Beside the package in an installed wheel, at the top of a source tree."""
    package = Path(__file__).parent
    installed = package / "recipes"
    return installed if installed.is_dir() else package.parents[1] / "recipes"


def recipe_names() -> list[str]:
    """All names, such as ``node/cora``."""
    folder = recipes_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def recipe_path(name: str) -> Path:
    """The file of a recipe."""
    if name not in recipe_names():
        raise unknown_name("recipe", name, recipe_names())
    return recipes_folder() / f"{name}.yaml"


def find_recipe(text: str) -> Path:
    """A configuration file by its path, or a recipe by its name or its path in the source tree."""
    path = Path(text)
    if path.is_file():
        return path
    name = text.removeprefix("recipes/").removesuffix(".yaml")
    if name in recipe_names():
        return recipe_path(name)
    if path.suffix in (".yaml", ".yml"):
        raise DetError(f"no such configuration file: {path}. `det recipes list` shows the ready ones.")
    raise unknown_name("recipe", text, recipe_names())


def recipe_title(name: str) -> str:
    """The first sentence of a recipe's comment."""
    lines = recipe_path(name).read_text(encoding="utf-8").splitlines()
    comment = " ".join(
        line.removeprefix("#").strip() for line in takewhile(lambda line: line[:1] == "#", lines)
    )
    return re.split(r"(?<=\.) (?=[A-Z\d])", comment)[0]
