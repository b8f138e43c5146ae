"""Measures what docs/why-the-defaults.md shows: ``python benchmarks/why_the_defaults.py``.

A row is one configuration, trained with one or more seeds. Rows go to results/why-the-defaults.json one by
one, so an interrupted run goes on where it was; rows of another commit are measured anew.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from detgraph.config import NodeConfig, parse_config
from detgraph.data.fetch import data_folders
from detgraph.files import write_text
from detgraph.neighbors import SemanticNeighbors
from detgraph.neighbors.exact import ScoreBlock, search_space
from detgraph.nn import NetworkDET
from detgraph.nn.semantic import SEMANTIC_FORMS, SearchSpace
from detgraph.tasks import Task
from detgraph.tasks.node import NodeTask
from detgraph.training import Observer, Result
from detgraph.training.launch import prepare, start
from detgraph.training.run import versions

RESULTS = Path(__file__).parents[1] / "results" / "why-the-defaults.json"
Values = dict[str, Any]

# --- what is measured -------------------------------------------------------------------------------

K = 8
BASE: Values = {
    "data.name": "papers",
    "data.num_nodes": 2000,
    "model.tau": 0.15,
    "neighbors.k": K,
    "neighbors.warmup": 20,
    "neighbors.every": 10,
    "training.epochs": 80,
    "training.evaluate_every": 5,
    "training.device": "cpu",
}
CORA: Values = {"data.name": "cora", "data.num_nodes": None}


class Watch(Observer):
    """Notes at each evaluation what cannot be seen after training."""

    def __init__(self, task: NodeTask) -> None:
        self.task = task
        self.notes: list[Values] = []

    def epoch(self, record: Values) -> None:
        if "valid" not in record:
            return
        note = {"epoch": record["epoch"] + 1, "valid": record["valid"]["accuracy"], "main": record["main"]}
        if "sn" in record:
            note["sn"] = record["sn"] / self.task.config.training.sn_weight
            note |= self.last_layer(record["epoch"])
        [part] = self.task.parts
        if part.neighbors.k:
            note |= fetched(part.neighbors, part.y)
        self.notes.append(note)

    @torch.no_grad()
    def last_layer(self, epoch: int) -> Values:
        """The least z of the epoch's random pairs, and the mean absolute entry of the compared states."""
        [batch] = self.task.batches(epoch)
        model = network(self.task)
        depth, operator = model.operators[-1]
        states = model(batch.x, batch.neighborhood).layers[depth].states  # (nodes, heads, channels)
        return {
            "least_z": operator(states, batch.negative).min().item(),
            "states": states.abs().mean().item(),
        }


def train(config: NodeConfig) -> Values:
    """The outcome with the weights that validation chose, and how things stood at the last epoch."""
    _, result, notes = run(config)
    assert result.test is not None
    return {
        "valid": result.valid["accuracy"],
        "test": result.test["accuracy"],
        "best_epoch": result.best_epoch + 1,
        "last": notes[-1],
    }


def follow(config: NodeConfig) -> Values:
    """The course of training."""
    return {"course": run(config)[2]}


def select(config: NodeConfig) -> Values:
    """Share of the same topic among nodes that features select, and states before and after training."""
    task = node_task(prepare(config))
    [part] = task.parts
    return {
        "features": same_topic(task, task.space(part, "features")),
        "propagated": same_topic(task, task.space(part, "propagated")),
        "untrained": by_layer(task),
        "trained": by_layer(run(config)[0]),
    }


def random_states(config: NodeConfig) -> Values:
    """How many different nodes are fetched where states are noise and nothing is connected."""
    model, nodes = config.model, config.data.num_nodes
    assert nodes is not None
    torch.manual_seed(config.seed)
    operator = SEMANTIC_FORMS[model.semantic](model.heads, model.head_channels)
    neighbors = SemanticNeighbors(K, torch.empty(2, 0, dtype=torch.long), nodes)
    with torch.no_grad():
        neighbors.search(search_space(operator, torch.randn(nodes, model.heads, model.head_channels)))
    return {"distinct": distinct(neighbors)}


def run(config: NodeConfig) -> tuple[NodeTask, Result, list[Values]]:
    """Train in a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = start(config, Path(folder) / "run")
        task = node_task(trainer.task)
        watch = Watch(task)
        return task, trainer.train(watch), watch.notes


def distinct(neighbors: SemanticNeighbors) -> int:
    """How many different nodes all nodes together fetch."""
    return len(torch.unique(neighbors.edges()[0]))


def fetched(neighbors: SemanticNeighbors, labels: Tensor) -> Values:
    """What the search has found: how many different nodes, and the share of them that fit."""
    return {"distinct": distinct(neighbors), "same_topic": neighbors.purity(labels)}


def same_topic(task: NodeTask, space: SearchSpace | ScoreBlock) -> float:
    """Share of the same topic among the K nearest."""
    [part] = task.parts
    neighbors = SemanticNeighbors(K, part.edge_index, len(part.y))
    neighbors.search(space)
    return neighbors.purity(part.y)


@torch.no_grad()
def by_layer(task: NodeTask) -> list[float]:
    """Share of the same topic among the K nearest in the states of each layer."""
    task.eval()
    [part] = task.parts
    model = network(task)
    layers = model(part.x, part.neighborhood).layers
    return [
        same_topic(task, search_space(operator, layers[depth].states)) for depth, operator in model.operators
    ]


def node_task(task: Task) -> NodeTask:
    """Only networks are measured here."""
    assert isinstance(task, NodeTask)
    return task


def network(task: NodeTask) -> NetworkDET:
    """The model as what it is."""
    assert isinstance(task.model, NetworkDET)
    return task.model


@dataclass(frozen=True)
class Row:
    """What to measure, and where the configuration differs from BASE."""

    measure: Callable[[NodeConfig], Values]
    changes: Values = field(default_factory=dict)
    seeds: int = 3

    @property
    def overrides(self) -> Values:
        """Where the configuration differs from the defaults."""
        return BASE | self.changes

    def config(self, seed: int) -> NodeConfig:
        values: Values = {"task": "node", "seed": seed}
        for key, value in self.overrides.items():
            section, option = key.split(".")
            values.setdefault(section, {})[option] = value
        config = parse_config(values)
        assert isinstance(config, NodeConfig)
        return config


FETCHED: Values = {"model.semantic_set": "fetched"}
BY_FEATURES: Values = {"neighbors.source": "features"}
DEFAULT_TAU: Values = {"model.tau": 0.7}
LONG: Values = {"training.sn_weight": 1.0, "training.epochs": 150, "training.evaluate_every": 25}

ROWS = {
    "random l1": Row(random_states, seeds=1),
    "random difference": Row(random_states, {"model.semantic": "difference"}, seeds=1),
    "union": Row(train),
    "difference": Row(train, {"model.semantic": "difference"}),
    "bce": Row(follow, LONG, seeds=1),
    "paper": Row(follow, LONG | {"training.sn_loss": "paper"}, seeds=1),
    "structural": Row(train, {"model.tau": 1}),
    "fetched": Row(train, FETCHED),
    "union by features": Row(train, BY_FEATURES),
    "fetched by features": Row(train, FETCHED | BY_FEATURES),
    "union, k = 0": Row(train, {"neighbors.k": 0}),
    "fetched, k = 0": Row(train, FETCHED | {"neighbors.k": 0}),
    "select": Row(select, {"neighbors.k": 0}),
    "union, τ = 0.7": Row(train, DEFAULT_TAU),
    "fetched, τ = 0.7": Row(train, DEFAULT_TAU | FETCHED),
    "union by features, τ = 0.7": Row(train, DEFAULT_TAU | BY_FEATURES),
    "fetched by features, τ = 0.7": Row(train, DEFAULT_TAU | FETCHED | BY_FEATURES),
    "cora union": Row(train, CORA, seeds=2),
    "cora fetched": Row(train, CORA | FETCHED, seeds=2),
}


def measure_all() -> Values:
    """Measure the rows that the results lack, and keep each as soon as it is there."""
    results: Values = {"versions": versions(), "rows": {}}
    if RESULTS.is_file():
        kept = json.loads(RESULTS.read_text(encoding="utf-8"))
        if kept["versions"] == results["versions"]:
            results = kept
    for name, row in ROWS.items():
        old = results["rows"].get(name)
        if old is not None and old["overrides"] == row.overrides:
            continue
        if row.overrides["data.name"] == "cora" and not has_cora():
            print("cora is left out: no folder named by DET_DATA has it")
            continue
        began = time.monotonic()
        values = [rounded(row.measure(row.config(seed))) for seed in range(row.seeds)]
        seconds = round(time.monotonic() - began, 1)
        results["rows"][name] = {"overrides": row.overrides, "seeds": values, "seconds": seconds}
        write_text(RESULTS, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        print(f"{seconds:6.1f} s  {name}", flush=True)
    return results


def has_cora() -> bool:
    """Whether Cora can be read without fetching it."""
    return any((folder / "planetoid" / "ind.cora.x").is_file() for folder in data_folders().values())


def rounded(value: Any) -> Any:
    """Four digits after the point are more than a measurement is worth."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return round(value, 4) if isinstance(value, float) else value


# --- how it is shown --------------------------------------------------------------------------------


def tables(results: Values) -> dict[str, str]:
    """The page's tables in Markdown, by name."""
    rows = {name: row["seeds"] for name, row in results["rows"].items()}
    shown = {
        "operator": operator_table(rows),
        "loss": loss_table(rows),
        "set": set_table(rows, SETS),
        "states": states_table(rows["select"]),
    }
    if "cora fetched" in rows:
        shown["cora"] = set_table(rows, CORA_SETS)
    return shown


def operator_table(rows: Values) -> str:
    """Point 1."""
    lines = [
        ["random states, `l1`", str(rows["random l1"][0]["distinct"]), "", "", ""],
        ["random states, `difference`", str(rows["random difference"][0]["distinct"]), "", "", ""],
    ]
    for label, name in (("trained, `l1`", "union"), ("trained, `difference`", "difference")):
        seeds = rows[name]
        last = [seed["last"] for seed in seeds]
        lines.append(
            [
                label,
                " / ".join(str(note["distinct"]) for note in last),
                percents(note["same_topic"] for note in last),
                percents(note["valid"] for note in last),
                percents(seed["test"] for seed in seeds),
            ]
        )
    head = ["8 fetched of 2000", "distinct nodes fetched by all", "same topic", "last validation", "test"]
    return markdown(head, lines)


def loss_table(rows: Values) -> str:
    """Point 2."""
    lines = []
    for bce, paper in zip(rows["bce"][0]["course"], rows["paper"][0]["course"], strict=True):
        cells = [
            cell
            for note in (bce, paper)
            for cell in (
                number(note["sn"], 2),
                number(note["least_z"], 2),
                number(note["states"], 2),
                number(note["main"], 2),
                percents([note["valid"]]),
            )
        ]
        lines.append([str(bce["epoch"]), *cells])
    columns = ["L_sn", "least z", "states", "task loss", "validation"]
    return markdown(
        ["epoch", f"`bce`: {columns[0]}", *columns[1:], f"`paper`: {columns[0]}", *columns[1:]], lines
    )


SETS = {
    "structural encoder alone (τ = 1)": "structural",
    "`union`": "union",
    "`fetched`": "fetched",
    "`union` by raw features": "union by features",
    "`fetched` by raw features": "fetched by features",
    "`union`, k = 0 (minus attention)": "union, k = 0",
    "`fetched`, k = 0 (each node by itself)": "fetched, k = 0",
    "`union`, τ = 0.7": "union, τ = 0.7",
    "`fetched`, τ = 0.7": "fetched, τ = 0.7",
    "`union` by raw features, τ = 0.7": "union by features, τ = 0.7",
    "`fetched` by raw features, τ = 0.7": "fetched by features, τ = 0.7",
}
CORA_SETS = {"Cora, `union`": "cora union", "Cora, `fetched`": "cora fetched"}


def set_table(rows: Values, names: dict[str, str]) -> str:
    """Point 3."""
    lines = []
    for label, name in names.items():
        seeds = rows[name]
        fits = [seed["last"]["same_topic"] for seed in seeds if "same_topic" in seed["last"]]
        test, valid = [seed["test"] for seed in seeds], [seed["valid"] for seed in seeds]
        lines.append(
            [
                label,
                percents([mean(fits)]) if fits else "",
                percents(test),
                percents([mean(test)]),
                percents([mean(valid)]),
            ]
        )
    return markdown(["semantic set", "same topic", "test", "mean test", "mean validation"], lines)


def states_table(seeds: list[Values]) -> str:
    """Point 4."""
    lines = [
        ["cosine of the raw features", percents([seeds[0]["features"]])],
        ["cosine of features propagated twice", percents([seeds[0]["propagated"]])],
    ]
    for when in ("untrained", "trained"):
        for layer, label in enumerate(("layer 1, `W·x`", "layer 2, contextual")):
            lines.append([f"{label}, {when}", percents(seed[when][layer] for seed in seeds)])
    return markdown(["8 fetched by", "same topic"], lines)


def percents(shares: Iterable[float]) -> str:
    """Shares in percent, seed by seed."""
    return " / ".join(f"{100 * share:.1f}" for share in shares)


def number(value: float, digits: int) -> str:
    """A number with a real minus sign."""
    return f"{value:.{digits}f}".replace("-", "−")


def markdown(head: list[str], lines: list[list[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines))


if __name__ == "__main__":
    os.nice(10)
    torch.set_num_threads(1)
    for name, table in tables(measure_all()).items():
        print(f"\n{name}\n\n{table}")
