"""Recipes: all are valid and titled, and are found by path and by name."""

import os
from pathlib import Path

import pytest

from detgraph.config import load_config
from detgraph.errors import DetError
from detgraph.recipes import find_recipe, recipe_names, recipe_path, recipe_title, recipes_folder
from detgraph.training.launch import prepare


def test_every_file_of_the_folder_is_a_recipe() -> None:
    files = {path for path in recipes_folder().rglob("*") if path.suffix in (".yaml", ".yml")}
    assert {recipe_path(name) for name in recipe_names()} == files
    assert {"demo/molecules", "demo/network", "demo/knowledge-graph"} <= set(recipe_names())


@pytest.mark.parametrize("name", recipe_names())
def test_recipe_is_valid_and_titled(name: str) -> None:
    config = load_config(recipe_path(name))
    assert config.task in ("graph", "node", "entity")
    text = recipe_path(name).read_text(encoding="utf-8")
    title = recipe_title(name)
    assert text.replace("\n# ", " ").startswith(f"# {title}"), "the first sentence, over lines"
    assert title.endswith(".")
    assert ". " not in title
    assert 10 < len(title) < 240


@pytest.mark.parametrize(
    "text", ["demo/network", "demo/network.yaml", "recipes/demo/network", "recipes/demo/network.yaml"]
)
def test_found_by_name_from_any_folder(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_recipe(text) == recipes_folder() / "demo" / "network.yaml"


def test_a_file_of_the_user_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "demo" / "network"
    own.parent.mkdir()
    own.write_text("task: node\n", encoding="utf-8")
    assert find_recipe(str(own)) == own
    monkeypatch.chdir(tmp_path)
    assert find_recipe("demo/network") == Path("demo/network")


@pytest.mark.parametrize("find", [find_recipe, recipe_path])
def test_unknown_name_tells_the_nearest_and_all(find: object) -> None:
    assert callable(find)
    with pytest.raises(
        DetError, match=r"unknown recipe 'demo/netwrk'\. Did you mean 'demo/network'\? Known: "
    ) as caught:
        find("demo/netwrk")
    assert all(name in str(caught.value) for name in recipe_names())


def test_unknown_file() -> None:
    with pytest.raises(DetError, match=r"no such configuration file: mine\.yaml\. `det recipes list`"):
        find_recipe("mine.yaml")


def test_zinc_has_the_published_number_of_parameters() -> None:
    if not (Path(os.environ.get("DET_DATA", "")) / "zinc12k").is_dir():
        pytest.skip("needs DET_DATA with zinc12k/")
    task = prepare(load_config(recipe_path("graph/zinc-paper"), ["data.limit=50"]))
    assert sum(parameter.numel() for parameter in task.parameters()) == 489_562
