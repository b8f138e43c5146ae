from pathlib import Path

import pytest
from tiny_runs import det

from detgraph.config import load_config
from detgraph.recipes import find_recipe, recipe_names, recipe_path, recipe_title


def test_list_names_every_recipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    answer = det(capsys, "recipes", "list")
    assert answer.code == 0
    assert len(recipe_names()) > 3
    for name in recipe_names():
        assert name in answer.out
        assert recipe_title(name) in answer.out
    assert "Next: det train NAME" in answer.out


@pytest.mark.parametrize("name", recipe_names())
def test_show_prints_a_recipe_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = det(capsys, "recipes", "show", name)
    assert (answer.code, answer.out) == (0, recipe_path(name).read_text(encoding="utf-8"))


def test_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "det train papers.yaml" in det(capsys, "recipes", "copy", "node/papers").out
    assert det(capsys, "recipes", "copy", "node/papers", "new/mine.yaml").code == 0
    for copied in ("papers.yaml", "new/mine.yaml"):
        assert load_config(Path(copied)) == load_config(recipe_path("node/papers"))


def test_copy_leaves_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_text("mine")
    answer = det(capsys, "recipes", "copy", "node/papers", tmp_path / "mine.yaml")
    assert answer.code == 2
    assert "mine.yaml exists already; name another file." in answer.err
    assert (tmp_path / "mine.yaml").read_text() == "mine"


@pytest.mark.parametrize("command", ["show", "copy"])
def test_unknown_recipe(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = det(capsys, "recipes", command, "node/paper")
    assert (answer.code, answer.out) == (2, "")
    assert "Did you mean 'node/papers'?" in answer.err


@pytest.mark.parametrize("text", ["node/papers", "node/papers.yaml", "recipes/node/papers.yaml"])
def test_a_recipe_by_name_or_path(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_recipe(text) == recipe_path("node/papers")
