"""What the README shows works: its commands parse, its configurations are valid, its Python runs."""

import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from detgraph.cli.main import COMMANDS
from detgraph.config import load_config, parse_config
from detgraph.recipes import find_recipe

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def commands(program: str) -> list[list[str]]:
    """The arguments of every call of ``program`` in the bash blocks."""
    lines = [shlex.split(line, comments=True) for block in blocks("bash") for line in block.splitlines()]
    return [words[1:] for words in lines if words and words[0] == program]


def parse(command: Any, name: str, arguments: list[str]) -> None:
    """Read the arguments as the command would, without running it."""
    context = command.make_context(name, list(arguments))
    if hasattr(command, "resolve_command"):  # a group, such as `det data`
        sub_name, sub_command, rest = command.resolve_command(context, arguments)
        parse(sub_command, sub_name, rest)


def test_there_is_something_to_test() -> None:
    assert commands("det")
    assert commands("make")
    assert blocks("yaml")
    assert blocks("python")


@pytest.mark.parametrize("arguments", commands("det"), ids=" ".join)
def test_det_commands_parse(arguments: list[str]) -> None:
    name, *rest = arguments
    assert name in COMMANDS
    parse(typer.main.get_command(import_module(f"detgraph.cli.{name}").app), name, rest)
    if name == "train" and not rest[0].endswith(".yaml"):
        load_config(find_recipe(rest[0]), [word for word in rest[1:] if "=" in word])


@pytest.mark.parametrize("arguments", commands("make"), ids=" ".join)
def test_make_targets_exist(arguments: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in arguments:
        assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE)


@pytest.mark.parametrize("block", [block for block in blocks("yaml") if block.startswith("task:")])
def test_configurations_are_valid(block: str) -> None:
    parse_config(yaml.safe_load(block), where="README.md")


@pytest.mark.parametrize("block", blocks("python"))
def test_python_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {"__name__": "__main__"})


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert target.startswith("https://") or (ROOT / target).exists(), target
