"""Whom an entity attends to: connected and distant neighbours with the weights of both encoders."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from detgraph.errors import DetError
from detgraph.nn.model import Encoded
from detgraph.nn.neighborhood import Sparse
from detgraph.tasks.ego import EgoTask
from detgraph.tasks.entity import EntityTask
from detgraph.tasks.grouped import GroupedTask


class Attended(NamedTuple):
    """A neighbour; an encoder that is not used has no weight."""

    entity: int
    relation: int | None  # from the source, r + R for the inverse of r; None: a semantic neighbour
    structural: float | None
    semantic: float | None
    score: float | None  # f_s in (0, 1)


@torch.no_grad()
def attended(task: EntityTask, entity: int) -> list[Attended]:
    """The neighbours that a run's model reads for an entity, with the last layer's mean weights over heads.

    With HittER's form the weights are also means over the entity's own training questions.
    """
    if not isinstance(task, EgoTask | GroupedTask):
        raise DetError("this run's model has no neighbours: only DET and its structural-only twin do.")
    if entity not in task.neighbors.members:
        name = task.data.entity_names[entity]
        raise DetError(f"no training triple has {name!r}, so the run knows nothing of it.")
    seen: list[Encoded] = []
    handle = task.eval().model.det.register_forward_hook(lambda *call: seen.append(call[-1]))
    try:
        read = _encode(task, entity)
    finally:
        handle.remove()
    layer = seen[0].layers[-1]
    maps = [
        None if part is None else _weights(part, read.before) for part in (layer.structural, layer.semantic)
    ]
    others = torch.cat([read.near, read.far])
    scores = None if task.model.det.operator is None else _scores(task, entity, others)
    found = []
    for place, other in enumerate(others.tolist()):
        structural, semantic = (None if part is None else float(part[place]) for part in maps)
        connected = place < len(read.near)
        found.append(
            Attended(
                other,
                int(read.relations[place]) if connected else None,
                structural if connected else None,
                semantic,
                None if scores is None else float(scores[place]),
            )
        )
    return found


class _Read(NamedTuple):
    """What the model was given."""

    near: Tensor  # (connected,) entities
    relations: Tensor  # (connected,)
    far: Tensor  # (distant,) entities
    before: int  # tokens before these


def _encode(task: EgoTask | GroupedTask, entity: int) -> _Read:
    """Let the model read an entity's neighbours."""
    source, nothing = np.array([entity]), np.empty(0, np.int64)
    if isinstance(task, GroupedTask):
        neighbors, by = task.surroundings.of(source, None, seed=0)
        exists = neighbors[0] >= 0
        around = neighbors[:, exists], by[:, exists]
        batch = task.collate(source, around, (nothing, nothing), (nothing, nothing))
        task.model(batch, task.model.entity(batch.entities))
        near, far = (batch.entities[part[0][part[0] >= 0]] for part in (batch.neighbors, batch.semantic))
        return _Read(near, batch.neighbor_relations[0], far, before=1)
    relations = task.questions.relation[task.questions.source == entity]
    relations = relations if len(relations) else np.array([0])  # any question
    asked = np.stack([np.full_like(relations, entity), relations, np.zeros_like(relations)], axis=1)
    neighbors, by = task.contexts.of(asked, None)
    exists = neighbors[0] >= 0  # the same sample for all questions
    queries = task.ask(asked, (neighbors[:, exists], by[:, exists]))
    task.model(queries)
    far = queries.semantic[0]
    return _Read(queries.neighbors[0], queries.neighbor_relations[0], far[far >= 0], before=2)


def _weights(attention: Tensor, before: int) -> Tensor:
    """(neighbours,) of (rows, heads, queries, tokens), of the first query token."""
    return attention[:, :, 0, before:].mean(dim=(0, 1))


def _scores(task: EntityTask, entity: int, others: Tensor) -> Tensor:
    """``f_s`` of an entity and others, (others,)."""
    pairs = Sparse.from_pairs(torch.full_like(others, entity), others, len(task.table))
    z: Tensor = task.operator(task.table[:, None], pairs)[:, 0]
    return z.sigmoid()
