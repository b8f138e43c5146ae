"""Mistakes in configurations: what was got, what was expected, where, and the nearest right word."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from detgraph.config import load_config, parse_config
from detgraph.errors import DetError

NODE: dict[str, Any] = {"task": "node", "data": {"name": "cora"}}


def write(folder: Path, values: Any) -> Path:
    path = folder / "config.yaml"
    path.write_text(values if isinstance(values, str) else yaml.safe_dump(values), encoding="utf-8")
    return path


def message(values: dict[str, Any]) -> str:
    with pytest.raises(DetError) as caught:
        parse_config(values)
    return str(caught.value)


# --- mistakes in files ------------------------------------------------------------------------------


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DetError, match=r"no such configuration file: .*nothing\.yaml.*det recipes list"):
        load_config(tmp_path / "nothing.yaml")
    with pytest.raises(DetError, match="no such configuration file"):
        load_config(tmp_path)


def test_bad_yaml_names_the_place(tmp_path: Path) -> None:
    path = write(tmp_path, "task: node\ndata: {name: cora\nseed: 1\n")
    with pytest.raises(DetError, match=r"config\.yaml is not valid YAML(.|\n)*line 3, column 5"):
        load_config(path)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"task: \xff\xfe\n")
    with pytest.raises(DetError, match=r"config\.yaml is not valid YAML"):
        load_config(path)


@pytest.mark.parametrize(("text", "kind"), [("- a\n- b\n", "list"), ("", "NoneType"), ("cora", "str")])
def test_not_a_mapping(text: str, kind: str, tmp_path: Path) -> None:
    with pytest.raises(DetError, match=f"expected keys and values at the top level, got {kind}"):
        load_config(write(tmp_path, text))


def test_objects_are_not_built_from_yaml(tmp_path: Path) -> None:
    path = write(tmp_path, "task: !!python/object/apply:os.getcwd []\n")
    with pytest.raises(DetError, match="is not valid YAML"):
        load_config(path)


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, {**NODE, "seed": "x"})
    with pytest.raises(DetError, match=re.escape(f"{path}: seed: ")):
        load_config(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": "nodes"}, ["`task` must be graph, node or entity", "got 'nodes'"]),
        ({"task": None}, ["`task` must be graph, node or entity", "got None"]),
        ({"task": ["node"]}, ["`task` must be graph, node or entity", "['node']"]),
        ({"modle": {}}, ["unknown key 'modle'", "Did you mean 'model'?", "Known here: task, data, model"]),
        ({"model": {"haeds": 2}}, ["unknown key 'model.haeds'", "Did you mean 'heads'?", "head_channels"]),
        ({"model": {"zzz": 2}}, ["unknown key 'model.zzz'.", "Known here: tau"]),
        ({"model": {1: 2}}, ["the key 'model.1' is not text", "Known here: tau"]),
        ({True: 2}, ["configuration: the key 'True' is not text", "Known here: task"]),
        ({"data": {"nmae": "cora"}}, ["unknown key 'data.nmae'", "Did you mean 'name'?"]),
        ({"neighbors": {"evry": 2}}, ["unknown key 'neighbors.evry'", "Did you mean 'every'?"]),
        ({"training": {"epoch": 2}}, ["unknown key 'training.epoch'", "Did you mean 'epochs'?"]),
        ({"training": {"label_smoothing": 0.1}}, ["unknown key 'training.label_smoothing'"]),  # entities only
        ({"seed": "x"}, ["seed", "valid integer", "got 'x'"]),
        ({"seed": -1}, ["seed", "greater than or equal to 0", "got -1"]),
        ({"model": 3}, ["model", "expected a section of keys and values", "got 3"]),
        ({"model": {"heads": 2.5}}, ["model.heads", "valid integer", "got 2.5"]),
        ({"model": {"heads": 0}}, ["model.heads", "greater than or equal to 1", "got 0"]),
        ({"model": {"tau": 1.5}}, ["model.tau", "less than or equal to 1", "'learnable'", "got 1.5"]),
        ({"model": {"tau": "half"}}, ["model.tau", "'learnable' or 'alternate'", "got 'half'"]),
        ({"model": {"dropout": 1}}, ["model.dropout", "less than 1", "got 1"]),
        ({"model": {"semantic": "l3"}}, ["model.semantic", "'l1'", "'difference'", "got 'l3'"]),
        ({"neighbors": {"k": -1}}, ["neighbors.k", "greater than or equal to 0", "got -1"]),
        ({"neighbors": {"source": "x"}}, ["neighbors.source", "'propagated'", "got 'x'"]),
        ({"training": {"learning_rate": 0}}, ["training.learning_rate", "greater than 0", "got 0"]),
        ({"training": {"clip_norm": -1}}, ["training.clip_norm", "greater than 0", "got -1"]),
        ({"training": {"optimizer": "sgd"}}, ["training.optimizer", "'adamw'", "got 'sgd'"]),
        ({"data": {}}, ["exactly one of data.name, data.nodes, data.npz", "got none"]),
        ({"data": {"name": "a", "npz": "b"}}, ["exactly one of data.name", "got data.name and data.npz"]),
        ({"data": {"nodes": "a.csv"}}, ["data.nodes and data.edges go together"]),
        ({"data": {"name": "a", "edges": "b"}}, ["data.edges has no effect with data.name"]),
        ({"data": {"npz": "a", "multi_label": True}}, ["data.multi_label has no effect with data.npz"]),
        ({"data": None}, ["data", "expected a section of keys and values", "got None"]),
        ({"model": {"semantic_heads": 3}}, ["model.semantic_heads must be 1 or model.heads = 8", "got 3"]),
        (
            {"model": {"tau": "alternate", "layers": 1}},
            ["model.tau=alternate needs model.layers of 2", "got 1"],
        ),
        (
            {"model": {"semantic": "difference"}, "neighbors": {"backend": "forest"}},
            ["model.semantic=difference needs neighbors.backend auto or exact", "got forest"],
        ),
    ],
)
def test_mistake_is_explained(changes: dict[str, Any], words: list[str]) -> None:
    text = message({**NODE, **changes})
    assert [word for word in words if word not in text] == [], text
    assert all(line.startswith("configuration: ") for line in text.splitlines())


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"task": "graph"}, ["'data' is missing"]),
        ({"data": {"name": "cora"}}, ["`task` must be graph, node or entity", "got None"]),
        (
            {"task": "graph", "data": {"name": "a", "file": "b"}},
            ["one of data.name, data.file", "got data.name and"],
        ),
        ({"task": "graph", "data": {"file": "b"}}, ["data.targets must name the columns"]),
        ({"task": "graph", "data": {"file": "b", "targets": ["y", "y"]}}, ["data.targets names 'y' twice"]),
        ({"task": "graph", "data": {"file": "b", "targets": [1]}}, ["data.targets", "valid string", "got 1"]),
        ({"task": "graph", "data": {"name": "a"}, "neighbors": {}}, ["unknown key 'neighbors'"]),
        (
            {"task": "graph", "data": {"name": "a"}, "model": {"channels": 10, "heads": 4}},
            ["model.channels (10) must be a multiple of model.heads (4)"],
        ),
        ({"task": "entity", "data": {"valid": "b"}}, ["one of data.name, data.train", "got none"]),
        (
            {"task": "entity", "data": {"name": "a"}, "model": {"channels": 10}},
            ["model.channels (10) must be a multiple of model.heads (4)"],
        ),
        (
            {"task": "entity", "data": {"name": "a"}, "model": {"path_hops": 2}},
            ["model.path_hops has no effect with model.composition=transformer"],
        ),
        (
            {
                "task": "entity",
                "data": {"name": "a"},
                "model": {"composition": "complex", "path_hops": 2, "tau": 0},
            },
            ["model.path_hops has no effect with model.tau=0"],
        ),
        (
            {"task": "entity", "data": {"name": "a"}, "model": {"path_channels": 12}},
            ["model.path_channels", "multiple of 8", "got 12"],
        ),
        (
            {"task": "entity", "data": {"name": "a"}, "training": {"path_batch": 8}},
            ["training.path_batch has no effect with model.path_hops=0"],
        ),
        (
            {"task": "entity", "data": {"name": "a"}, "neighbors": {"source": "features"}},
            ["neighbors.source", "'learned'", "got 'features'"],
        ),
        (
            {
                "task": "entity",
                "data": {"name": "a"},
                "model": {"semantic": "l1_free"},
                "neighbors": {"backend": "scan"},
            },
            ["model.semantic=l1_free", "got scan"],
        ),
    ],
)
def test_mistake_in_another_task_is_explained(values: dict[str, Any], words: list[str]) -> None:
    text = message(values)
    assert [word for word in words if word not in text] == [], text


def test_all_mistakes_are_told_at_once() -> None:
    text = message({**NODE, "seed": "x", "model": {"heads": 0, "layer": 2}})
    assert len(text.splitlines()) == 3


# --- mistakes in overrides --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("model.tua=0.3", ["unknown key 'model.tua'", "Did you mean 'tau'?", "semantic_bias"]),
        ("sede=1", ["unknown key 'sede'", "Did you mean 'seed'?"]),
        ("modle.tau=0.3", ["unknown key 'modle'", "Did you mean 'model'?"]),
        ("tau", ["'tau'", "key=value", "model.tau=0.3"]),
        ("=3", ["'=3'", "key=value"]),
        ("seed.x=3", ["'seed.x=3'", "'seed' is a value, not a section"]),
        ("model.tau=[1", ["'model.tau=[1'", "'[1' is not a valid YAML value"]),
        ("data.label_column=2020-99-99", ["'2020-99-99' is not a valid YAML value"]),
        ("training.learning_rate=.inf", ["training.learning_rate: Input should be a finite number"]),
        ("model.tau=2", ["model.tau", "less than or equal to 1", "got 2"]),
    ],
)
def test_bad_override(override: str, words: list[str], tmp_path: Path) -> None:
    with pytest.raises(DetError) as caught:
        load_config(write(tmp_path, {**NODE, "seed": 1}), [override])
    assert [word for word in words if word not in str(caught.value)] == []


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "task: node\ndata: {name: cora}\nmodel: {heads: 2}\nmodel: {layers: 3}\n")
    with pytest.raises(DetError, match=r"the key 'model' is given twice(.|\n)*line 4"):
        load_config(path)


def test_a_warm_start_that_never_ends() -> None:
    values = {
        "task": "entity",
        "data": {"name": "umls"},
        "model": {"composition": "complex"},
        "training": {"epochs": 2, "warm_start": 2},
    }
    with pytest.raises(DetError, match=r"training\.warm_start=2 leaves no epoch for the encoder"):
        parse_config(values)
