"""Configurations: every option survives YAML, overrides reach it, paths are resolved, all is frozen."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from detgraph.config import (
    Config,
    EntityConfig,
    GraphConfig,
    NodeConfig,
    Section,
    dump_config,
    load_config,
    parse_config,
)

TASKS: dict[str, type[Section]] = {"graph": GraphConfig, "node": NodeConfig, "entity": EntityConfig}

ENCODERS = {
    "tau": 0.25,
    "structural": "linear",
    "semantic": "l2",
    "semantic_bias": "ln_f_s",
    "mutual_bias": "none",
    "semantic_heads": 1,
    "heads": 2,
    "layers": 3,
    "dropout": 0.35,
    "attention_dropout": 0.45,
}
NEIGHBORS = {"k": 5, "every": 7, "warmup": 3, "backend": "forest"}
TRAINING = {
    "epochs": 17,
    "minutes": 2.5,
    "optimizer": "adamax",
    "learning_rate": 0.5,
    "weight_decay": 0.25,
    "schedule": "cosine",
    "warmup": 0.125,
    "clip_norm": 2.5,
    "average": 0.875,
    "patience": 9,
    "evaluate_every": 4,
    "checkpoint_seconds": 1.5,
    "device": "cpu",
}
BATCHES = {"batch_size": 13, "precision": "bf16-mixed"}
FETCHING = {**TRAINING, "sn_weight": 0.75, "sn_loss": "paper"}
MOLECULE_MODEL = {
    **ENCODERS,
    "channels": 6,
    "ffn_channels": 10,
    "share_layers": False,
    "readout": "mean",
    "hops": 4,
    "max_degree": 11,
    "max_distance": 12,
    "walk_steps": 3,
    "walk_bias": True,
    "rings": True,
    "messages": True,
    "column_codes": 512,
}
MOLECULE_TABLE = {
    "file": "molecules.csv",
    "smiles_column": "structure",
    "targets": ["gap", "dipole"],
    "split_column": "fold",
    "split": "scaffold",
    "kind": "classification",
    "bad_rows": "skip",
    "split_seed": 8,
    "limit": 99,
}
NETWORK_TABLE = {
    "nodes": "nodes.csv",
    "edges": "edges.csv",
    "id_column": "key",
    "label_column": "topic",
    "split_column": "fold",
    "features": "x.npy",
    "multi_label": True,
    "normalize": False,
    "split_seed": 8,
}
NETWORK_MODEL = {
    **ENCODERS,
    "head_channels": 5,
    "semantic_set": "fetched",
    "table_channels": 21,
    "node_dropout": 0.35,
    "hops": 3,
    "residual": True,
}
VIEWS = {
    "batch_size": 13,
    "fan_out": 6,
    "views": 3,
    "consistency_weight": 1.75,
    "consistency_ramp": 17,
    "temperature": 0.25,
}
EGO_MODEL = {
    **{key: value for key, value in ENCODERS.items() if key != "semantic_heads"},
    "channels": 6,
    "ffn_channels": 10,
    "triple_layers": 2,
    "max_neighbors": 3,
    "score_dropout": 0.55,
    "mask": "pair",
    "votes": 0.5,
    "vote_sharpness": 3.0,
}
TRIPLE_FILES = {
    "train": "train.tsv",
    "valid": "valid.tsv",
    "test": "test.tsv",
    "entity_names": "entities.tsv",
    "relation_names": "relations.tsv",
    "split_seed": 8,
}
# Together these set every option to something else than its default.
FULL: list[dict[str, Any]] = [
    {
        "task": "graph",
        "data": MOLECULE_TABLE,
        "model": MOLECULE_MODEL,
        "training": {**TRAINING, **BATCHES},
        "seed": 3,
    },
    {"task": "graph", "data": {"name": "zinc"}},
    {
        "task": "node",
        "data": NETWORK_TABLE,
        "model": NETWORK_MODEL,
        "neighbors": {**NEIGHBORS, "source": "features"},
        "training": {**FETCHING, **VIEWS, "epochs": 18},
        "seed": 3,
    },
    {"task": "node", "data": {"npz": "network.npz"}},
    {"task": "node", "data": {"name": "papers", "num_nodes": 50}},
    {
        "task": "entity",
        "data": TRIPLE_FILES,
        "model": EGO_MODEL,
        "neighbors": NEIGHBORS,
        "training": {
            **FETCHING,
            **BATCHES,
            "label_smoothing": 0.3,
            "answers": "all",
            "context_dropout": 0.2,
            "source": {"share": 0.8, "masked": 0.6, "replaced": 0.3, "weight": 0.4},
        },
        "seed": 3,
    },
    {
        "task": "entity",
        "data": {"name": "umls"},
        "model": {"composition": "complex", "path_hops": 3, "path_channels": 16},
        "training": {
            "path_batch": 8,
            "path_rate": 0.5,
            "group": 3,
            "candidates": 77,
            "n3": 0.125,
            "relation_weight": 0.5,
            "encoder_rate": 0.25,
            "warm_start": 2,
        },
    },
]
ONE_CHOICE = {
    "entity.neighbors.source",
    "entity.model.semantic_heads",
    "node.training.precision",
    "entity.baseline",
    "graph.baseline",
    "node.baseline",
}  # an option with a single value has no other; baselines have tests of their own
FILES = {
    "file",
    "nodes",
    "edges",
    "npz",
    "features",
    "train",
    "valid",
    "test",
    "entity_names",
    "relation_names",
}


def write(folder: Path, values: Any) -> Path:
    path = folder / "config.yaml"
    path.write_text(values if isinstance(values, str) else yaml.safe_dump(values), encoding="utf-8")
    return path


def options(task: str) -> dict[str, Any]:
    """Dotted key → default of every option of a task; required ones are None."""
    found: dict[str, Any] = {}
    for name, field in TASKS[task].model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            section = field.annotation.model_fields
            found |= {f"{task}.{name}.{key}": option.default for key, option in section.items()}
        else:
            found[f"{task}.{name}"] = field.default
    return found


def flat(values: dict[str, Any]) -> dict[str, Any]:
    """Nested values by dotted keys, after their task."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        entries = (
            {f".{key}": entry for key, entry in value.items()} if isinstance(value, dict) else {"": value}
        )
        found |= {f"{values['task']}.{name}{key}": entry for key, entry in entries.items()}
    return found


NODE: dict[str, Any] = {"task": "node", "data": {"name": "cora"}}


# --- round trip -------------------------------------------------------------------------------------


def test_the_cases_below_change_every_option() -> None:
    given = [entry for values in FULL for entry in flat(values).items()]
    for task in TASKS:
        for key, default in options(task).items():
            values = [value for name, value in given if name == key]
            if not key.endswith(".task") and key not in ONE_CHOICE:
                assert any(value != default for value in values), f"{key} is never changed"


@pytest.mark.parametrize("values", FULL, ids=lambda values: f"{values['task']}-{next(iter(values['data']))}")
def test_every_option_survives_yaml(values: dict[str, Any], tmp_path: Path) -> None:
    config = load_config(write(tmp_path, values))
    text = dump_config(config)
    dumped = flat(yaml.safe_load(text))
    assert set(dumped) == set(options(values["task"]))  # every key is written out
    for key, value in flat(values).items():
        is_file = key.split(".")[-1] in FILES
        assert dumped[key] == (str((tmp_path / value).resolve()) if is_file else value), key
    (tmp_path / "elsewhere").mkdir()
    again = load_config(write(tmp_path / "elsewhere", text))
    assert again == config
    assert dump_config(again) == text


@pytest.mark.parametrize("task", TASKS)
def test_only_the_data_has_to_be_named(task: str) -> None:
    config = parse_config({"task": task, "data": {"name": "some"}})
    assert config.task == task
    # Defaults are not validated by themselves: written out they have to pass.
    assert parse_config(yaml.safe_load(dump_config(config))) == config


@pytest.mark.parametrize("task", TASKS)
def test_a_dump_starts_with_task_and_data(task: str) -> None:
    text = dump_config(parse_config({"task": task, "data": {"name": "some"}}))
    assert text.startswith(f"task: {task}\ndata:\n  name: some\n")


def test_names_beyond_ascii_survive(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, "task: node\ndata: {name: größe}\n"))
    assert "größe" in dump_config(config)


# --- overrides --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "section", "key", "expected"),
    [
        ("model.tau=0.3", "model", "tau", 0.3),
        ("model.tau=learnable", "model", "tau", "learnable"),
        ("model.heads=4", "model", "heads", 4),
        ("model.semantic_heads=null", "model", "semantic_heads", None),
        ("training.learning_rate=1e-3", "training", "learning_rate", 0.001),
        ("training.patience=null", "training", "patience", None),
        ("training.patience=", "training", "patience", None),
        ("neighbors.source=propagated", "neighbors", "source", "propagated"),
        ("data.name=citeseer", "data", "name", "citeseer"),
        ("data.normalize=false", "data", "normalize", False),
        ("data.name=a=b", "data", "name", "a=b"),
    ],
)
def test_override(override: str, section: str, key: str, expected: Any, tmp_path: Path) -> None:
    values = {**NODE, "model": {"semantic_heads": 1}, "training": {"patience": 3}}
    config = load_config(write(tmp_path, values), [override])
    assert getattr(getattr(config, section), key) == expected


def test_override_with_a_list(tmp_path: Path) -> None:
    path = write(tmp_path, {"task": "graph", "data": {"file": "a.csv", "targets": ["y"]}})
    config = load_config(path, ["data.targets=[gap, dipole]"])
    assert isinstance(config, GraphConfig)
    assert config.data.targets == ("gap", "dipole")


def test_later_overrides_win_and_top_level_keys_can_be_set(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, NODE), ["seed=1", "seed=2", "neighbors.k=0"])
    assert isinstance(config, NodeConfig)
    assert (config.seed, config.neighbors.k) == (2, 0)


# --- paths and freezing -----------------------------------------------------------------------------


def test_relative_paths_are_read_from_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    values = {
        "task": "entity",
        "data": {"train": "facts/train.tsv", "entity_names": str(tmp_path / "names.tsv")},
    }
    path = write(tmp_path / "project", values)
    expected = (tmp_path.resolve() / "project" / "facts" / "train.tsv", tmp_path.resolve() / "names.tsv")
    for folder, name in ((tmp_path, path), (tmp_path / "project", Path("config.yaml"))):
        monkeypatch.chdir(folder)
        config = load_config(name)
        assert isinstance(config, EntityConfig)
        assert (config.data.train, config.data.entity_names) == expected
        assert config.data.valid is None
        assert config.data.label == "facts"


@pytest.mark.parametrize(
    ("values", "label"),
    [
        ({"task": "graph", "data": {"file": "a/gaps.csv", "targets": ["y"]}}, "gaps"),
        ({"task": "node", "data": {"npz": "a/web.npz"}}, "web"),
        ({"task": "node", "data": {"nodes": "a/people.csv", "edges": "b.csv"}}, "people"),
        ({"task": "entity", "data": {"train": "family/train.tsv"}}, "family"),
        ({"task": "entity", "data": {"name": "umls"}}, "umls"),
    ],
)
def test_label(values: dict[str, Any], label: str) -> None:
    assert parse_config(values).data.label == label


def test_configurations_are_frozen() -> None:
    config: Config = parse_config(NODE)
    for section, key in (
        (config, "seed"),
        (config.model, "heads"),
        (config.data, "name"),
        (config.training, "epochs"),
    ):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(section, key, getattr(section, key))


def test_parsing_leaves_the_given_values_alone(tmp_path: Path) -> None:
    values = {"task": "node", "data": {"npz": "a.npz"}}
    parse_config(values, folder=tmp_path)
    assert values == {"task": "node", "data": {"npz": "a.npz"}}


def test_choices_reach_the_architecture() -> None:
    values = {"task": "node", "data": {"name": "cora"}, "model": ENCODERS}
    encoding = parse_config(values).model.encoding(share_layers=True)
    of_layers = ("heads", "layers")
    assert {key: getattr(encoding, key) for key in ENCODERS if key not in of_layers} == {
        key: value for key, value in ENCODERS.items() if key not in of_layers
    }
    assert encoding.share_layers
