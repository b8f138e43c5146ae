"""Tiny files and configurations for tests of whole runs, and what two equal runs have in common."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl
import pytest
import yaml
from builders import SMILES

from detgraph.cli.main import main
from detgraph.config import Config, parse_config
from detgraph.training import RunFolder

TaskName = Literal["graph", "node", "entity"]
TASKS: tuple[TaskName, ...] = ("graph", "node", "entity")
SPLITS = ("train", "train", "train", "valid", "test")


def molecules_csv(folder: Path, splits: Sequence[str] = SPLITS, targets: Sequence[float] = ()) -> Path:
    """20 molecules; by default the target is the number of characters."""
    path = folder / "molecules.csv"
    pl.DataFrame(
        {
            "smiles": SMILES,
            "y": targets or [float(len(text)) for text in SMILES],
            "split": [splits[row % len(splits)] for row in range(len(SMILES))],
        }
    ).write_csv(path)
    return path


def triples_tsv(folder: Path) -> dict[str, str]:
    """A ring of 11 entities; one relation leads to the next entity, the other to the one after it."""
    ring = [(f"e{i}", f"r{jump}", f"e{(i + jump) % 11}") for i in range(11) for jump in (1, 2)]
    parts = {"train": ring[:18], "valid": ring[18:20], "test": ring[20:]}
    for name, rows in parts.items():
        (folder / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    return {name: f"{name}.tsv" for name in parts}


def tiny_values(task: TaskName, folder: Path, **training: Any) -> dict[str, Any]:
    """A configuration with dropout, as plain values; its data files are written to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    small = {"channels": 8, "heads": 2, "ffn_channels": 8}
    if task == "graph":
        return {
            "task": "graph",
            "data": {"file": molecules_csv(folder).name, "targets": ["y"]},
            "model": {**small, "layers": 2},
            "training": {"epochs": 3, "batch_size": 4, **training},
        }
    if task == "node":
        return {
            "task": "node",
            "data": {"name": "papers", "num_nodes": 200},
            "model": {"heads": 2, "head_channels": 4},
            "neighbors": {"k": 2, "warmup": 2},
            "training": {"epochs": 5, **training},
        }
    return {
        "task": "entity",
        "data": triples_tsv(folder),
        "model": {**small, "max_neighbors": 3},
        "neighbors": {"k": 2, "warmup": 1, "every": 1},
        "training": {"epochs": 3, "batch_size": 16, **training},
    }


def tiny_config(
    task: TaskName,
    folder: Path,
    changes: Mapping[str, Mapping[str, Any] | int] | None = None,
    **training: Any,
) -> Config:
    """The same, parsed; ``changes`` maps sections to settings that are replaced."""
    values = tiny_values(task, folder, **training)
    for key, change in (changes or {}).items():
        values[key] = {**values.get(key, {}), **change} if isinstance(change, Mapping) else change
    return parse_config(values, folder=folder)


def tiny_yaml(task: TaskName, folder: Path, **training: Any) -> Path:
    """The same as a file."""
    path = folder / f"{task}.yaml"
    path.write_text(yaml.safe_dump(tiny_values(task, folder, **training)))
    return path


def outcome(path: Path) -> dict[str, Any]:
    """All that a finished run has found, down to the bits of its weights; only times are left out."""
    run = RunFolder.open(path)
    result = run.result()
    assert result is not None, "the run has finished"
    return {
        "weights": run.weights_file.read_bytes(),
        "neighbors": run.neighbors_file.read_bytes() if run.neighbors_file.exists() else None,
        "vocabulary": json.loads(run.vocabulary_file.read_text(encoding="utf-8")),
        "metrics": [{**record, "seconds": None} for record in run.metrics()],
        "result": {**result, "seconds": None},
    }


class Answer(NamedTuple):
    """What a command said."""

    code: int
    out: str
    err: str


def det(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Answer:
    """Run the command line in this process."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    code = caught.value.code or 0
    assert isinstance(code, int)
    return Answer(code, *capsys.readouterr())
