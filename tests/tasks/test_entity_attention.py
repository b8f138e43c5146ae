"""Whom an entity attends to: weights that add up, of the neighbours that the model was given."""

import pytest
import torch
from builders import entity_task, grouped_task, triples

from detgraph.errors import DetError
from detgraph.tasks import EgoTask, GroupedTask
from detgraph.tasks.entity_attention import Attended, attended


def ready(task: EgoTask | GroupedTask) -> EgoTask | GroupedTask:
    """With neighbours fetched, and weights that tell them apart."""
    with torch.no_grad():
        for parameter in task.parameters():
            parameter.normal_(std=0.5)
    task.start_epoch(0)
    return task


def parts(found: list[Attended]) -> tuple[list[Attended], list[Attended]]:
    return [one for one in found if one.relation is not None], [one for one in found if one.relation is None]


@pytest.mark.parametrize("build", [entity_task, grouped_task])
def test_all_neighbors_are_there_with_their_relations(build: type) -> None:
    task = ready(build(model={"max_neighbors": 30}, neighbors={"warmup": 0, "k": 3}))
    relations = len(task.data.relations)
    for entity in task.neighbors.members.tolist():
        near, far = parts(attended(task, entity))
        edges = [(r, t) for h, r, t in task.data.train.tolist() if h == entity]
        edges += [(r + relations, h) for h, r, t in task.data.train.tolist() if t == entity]
        assert sorted((one.relation, one.entity) for one in near) == sorted(edges)
        found = task.neighbors.found[entity].tolist()
        assert [one.entity for one in far] == [other for other in found if other >= 0]


@pytest.mark.parametrize("build", [entity_task, grouped_task])
def test_weights_are_shares_and_scores_are_those_of_the_operator(build: type) -> None:
    task = ready(build(neighbors={"warmup": 0, "k": 3}))
    near, far = parts(attended(task, 4))
    assert all(one.structural is not None and 0 < one.structural < 1 for one in near)
    assert all(one.structural is None for one in far)
    assert sum(one.structural or 0.0 for one in near) < 1  # the rest is of the entity itself
    assert 0 < sum(one.semantic or 0.0 for one in near + far) < 1
    operator, table = task.operator, task.table
    weight = torch.nn.functional.softplus(operator.weight[0])
    for one in near + far:
        with torch.no_grad():
            z = operator.bias[0] - (weight * (table[4] - table[one.entity]).abs()).sum()
        assert one.score == pytest.approx(float(z.sigmoid()), rel=1e-4)


def test_the_structural_twin_has_no_semantic_weights() -> None:
    near, far = parts(attended(ready(grouped_task(model={"tau": 1})), 4))
    assert near
    assert not far
    assert all(one.semantic is None and one.score is None for one in near)


@pytest.mark.parametrize("build", [entity_task, grouped_task])
def test_an_entity_without_triples(build: type) -> None:
    lonely = triples([[0, 0, 1], [1, 0, 2], [2, 0, 0]], entities=4, relations=1)
    task = build(lonely, neighbors={"warmup": 99})
    with pytest.raises(DetError, match="no training triple has 'entity 3', so the run knows nothing of it"):
        attended(task, 3)


def test_other_models_have_no_neighbors() -> None:
    with pytest.raises(DetError, match="only DET and its structural-only twin"):
        attended(torch.nn.Linear(1, 1), 0)  # type: ignore[arg-type]  # any other task
