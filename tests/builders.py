"""Tiny data and small models for the tests of the three tasks."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from detgraph.config import EntityConfig, GraphConfig, NodeConfig, parse_config
from detgraph.data.molecules import Molecules, make_molecules
from detgraph.data.networks import Network
from detgraph.data.triples import Triples
from detgraph.tasks import EgoTask, GraphTask, GroupedTask, NodeTask, Task

Section = Mapping[str, Any]

SMILES = (
    *("CCO", "CC(=O)O", "c1ccccc1", "CCN", "C1CCCCC1", "CC#N", "OCC(O)CO", "c1ccncc1"),
    *("CC(C)C", "C=CC=C", "CS(C)=O", "O=C=O", "CCCl", "CNC", "c1ccsc1", "C[N+](C)(C)C"),
    *("[Na+].[Cl-]", "C", "CCOC", "CC(N)C(=O)O"),
)


# --- molecules --------------------------------------------------------------------------------------


def molecules(
    y: NDArray[np.floating[Any]] | None = None, *, smiles: Sequence[str] = SMILES, kind: Any = "regression"
) -> Molecules:
    """Small molecules, the first 4/5 to train; by default the target is the number of characters."""
    values = np.array([[len(text)] for text in smiles], dtype=float) if y is None else y
    train, valid = 4 * len(smiles) // 5, 9 * len(smiles) // 10
    rows = np.arange(len(smiles))
    return make_molecules(
        smiles,
        values,
        targets=[f"t{column}" for column in range(values.shape[1])],
        splits={"train": rows[:train], "valid": rows[train:valid], "test": rows[valid:]},
        kind=kind,
    )


def graph_task(
    data: Molecules | None = None,
    *,
    model: Section | None = None,
    training: Section | None = None,
    seed: int = 0,
) -> GraphTask:
    small = {
        "layers": 2,
        "heads": 2,
        "channels": 16,
        "ffn_channels": 16,
        "dropout": 0,
        "attention_dropout": 0,
    }
    config = parse_config(
        {
            "task": "graph",
            "data": {"name": "tiny"},
            "model": {**small, **(model or {})},
            "training": {"batch_size": 4, **(training or {})},
            "seed": seed,
        }
    )
    assert isinstance(config, GraphConfig)
    torch.manual_seed(seed)
    return GraphTask(data or molecules(), config)


# --- networks ---------------------------------------------------------------------------------------


def edges(count: int, seed: int = 0, share: float = 0.1) -> Tensor:
    """Random undirected edges among ``count`` nodes, of which the last is isolated; (2, edges)."""
    generator = torch.Generator().manual_seed(seed)
    linked = torch.rand(count - 1, count - 1, generator=generator) < share
    return torch.triu(linked, diagonal=1).nonzero().t()


def network(**changes: Any) -> Network:
    """30 nodes, 5 features, 3 classes: 15 / 9 / 6 nodes to train / validate / test, interleaved."""
    generator = torch.Generator().manual_seed(0)
    place = torch.arange(30) % 10
    parts: dict[str, Any] = {
        "x": torch.rand(30, 5, generator=generator),
        "edge_index": edges(30),
        "y": torch.randint(3, (30,), generator=generator),
        "train_mask": place < 5,
        "val_mask": (place >= 5) & (place < 8),
        "test_mask": place >= 8,
    }
    return Network.from_data(Data(**{**parts, **changes}), name="tiny")


def node_task(
    data: Network | None = None,
    *,
    model: Section | None = None,
    neighbors: Section | None = None,
    training: Section | None = None,
    normalize: bool | None = True,
    seed: int = 0,
) -> NodeTask:
    small = {"heads": 2, "head_channels": 4, "dropout": 0, "attention_dropout": 0, "table_channels": 6}
    config = parse_config(
        {
            "task": "node",
            "data": {"name": "tiny", "normalize": normalize},
            "model": {**small, **(model or {})},
            "neighbors": {"k": 3, "warmup": 1, **(neighbors or {})},
            "training": training or {},
            "seed": seed,
        }
    )
    assert isinstance(config, NodeConfig)
    torch.manual_seed(seed)
    return NodeTask(data or network(), config)


# --- knowledge graphs -------------------------------------------------------------------------------


def triples(
    train: Sequence[Sequence[int]] | NDArray[np.int64],
    valid: Sequence[Sequence[int]] = (),
    test: Sequence[Sequence[int]] = (),
    *,
    entities: int = 12,
    relations: int = 2,
) -> Triples:
    """A knowledge graph of numbered entities ``e0, e1, …`` and relations ``r0, r1, …``."""
    arrays = [np.array(part, dtype=np.int64).reshape(-1, 3) for part in (train, valid, test)]
    ids = tuple(f"e{i}" for i in range(entities)), tuple(f"r{i}" for i in range(relations))
    names = tuple(f"entity {i}" for i in range(entities)), tuple(f"relation {i}" for i in range(relations))
    return Triples(
        train=arrays[0],
        valid=arrays[1],
        test=arrays[2],
        entities=ids[0],
        relations=ids[1],
        entity_names=names[0],
        relation_names=names[1],
        name="tiny",
    )


def wheel() -> Triples:
    """A ring of 11 entities: r0 leads to the next, r1 to the one after; e11 is met in valid and test only."""
    ring = [(i, 0, (i + 1) % 11) for i in range(11)] + [(i, 1, (i + 2) % 11) for i in range(11)]
    return triples(ring, [(11, 0, 3), (0, 1, 5)], [(4, 1, 11), (2, 0, 8)])


def entity_config(
    model: Section | None, neighbors: Section | None, training: Section | None, seed: int
) -> EntityConfig:
    """Small, and without dropout."""
    small = {"layers": 2, "heads": 2, "channels": 16, "ffn_channels": 16, "max_neighbors": 4}
    config = parse_config(
        {
            "task": "entity",
            "data": {"name": "tiny"},
            "model": {**small, "dropout": 0, "attention_dropout": 0, **(model or {})},
            "neighbors": {"k": 3, "warmup": 0, "every": 1, **(neighbors or {})},
            "training": {"batch_size": 16, **(training or {})},
            "seed": seed,
        }
    )
    assert isinstance(config, EntityConfig)
    return config


def entity_task(
    data: Triples | None = None,
    *,
    model: Section | None = None,
    neighbors: Section | None = None,
    training: Section | None = None,
    seed: int = 0,
) -> EgoTask:
    """Queries one by one."""
    config = entity_config({"score_dropout": 0, **(model or {})}, neighbors, training, seed)
    torch.manual_seed(seed)
    return EgoTask(data or wheel(), config)


def grouped_task(
    data: Triples | None = None,
    *,
    model: Section | None = None,
    neighbors: Section | None = None,
    training: Section | None = None,
    seed: int = 0,
) -> GroupedTask:
    """Questions in groups of two."""
    config = entity_config(
        {"composition": "complex", **(model or {})}, neighbors, {"group": 2, **(training or {})}, seed
    )
    torch.manual_seed(seed)
    return GroupedTask(data or wheel(), config)


# --- training ---------------------------------------------------------------------------------------


def train(task: Task, epochs: int, learning_rate: float = 0.01) -> list[float]:
    """The loop in its plainest form; the loss of every step."""
    optimizer = torch.optim.Adam(task.parameters(), lr=learning_rate)
    found = []
    for epoch in range(epochs):
        task.start_epoch(epoch)
        task.train()
        for batch in task.batches(epoch):
            loss = total(task(batch))
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            found.append(loss.item())
    return found


def total(losses: Mapping[str, Tensor]) -> Tensor:
    """What is minimised."""
    return torch.stack(list(losses.values())).sum()


def same_weights(one: Task, other: Task) -> bool:
    """Whether two tasks have exactly the same weights."""
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(name == other_name and torch.equal(a, b) for (name, a), (other_name, b) in pairs)
