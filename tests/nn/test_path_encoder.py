"""The path encoder: its equations a node at a time, and what must not change its scores."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from detgraph.kernels.reach import Graph, Reached, Rule, reach
from detgraph.nn.paths import PathEncoder, PathLayer

ENTITIES, RELATIONS, CHANNELS, HOPS = 12, 2, 8, 3
TRIPLES = np.unique(np.random.default_rng(1).integers([12, 2, 12], size=(20, 3)), axis=0)
SOURCE, RELATION = np.array([0, 5, 5, 9]), np.array([0, 1, 3, 2])


def edges(triples: NDArray[np.int64]) -> NDArray[np.int64]:
    """Both ways: source, relation, target."""
    return np.concatenate([triples, triples[:, ::-1] + [0, RELATIONS, 0]])


def walked(triples: NDArray[np.int64], rule: Rule) -> Reached:
    start, along, end = edges(triples).T
    graph = Graph.of(start, along, end, ENTITIES, RELATIONS)
    return reach(graph, rule, HOPS, np.ones(ENTITIES, np.bool_))


def reached(triples: NDArray[np.int64], source: NDArray[np.int64], relation: NDArray[np.int64]) -> Reached:
    nothing = np.zeros(len(source) + 1, np.int64), np.empty(0, np.int64)
    return walked(triples, Rule(source, relation, relation, *nothing))


@pytest.fixture
def model() -> PathEncoder:
    torch.manual_seed(0)
    return PathEncoder(2 * RELATIONS, CHANNELS, HOPS)


def scores(model: PathEncoder, triples: NDArray[np.int64], source: NDArray[np.int64]) -> Tensor:
    """(questions, entities); 0 where nothing is reached."""
    found = reached(triples, source, RELATION)
    table = torch.zeros(len(source), ENTITIES)
    with torch.no_grad():
        table[found.question, found.entity] = model(found, torch.from_numpy(RELATION))
    return table


def slow_scores(model: PathEncoder, source: int, relation: int) -> Tensor:
    """The equations, an edge at a time."""
    asked = model.question[relation]
    states = {source: asked}
    for layer in model.layers:
        assert isinstance(layer, PathLayer)
        weight = layer.by_relation.weight.view(2 * RELATIONS, CHANNELS, CHANNELS)
        bias = layer.by_relation.bias.view(2 * RELATIONS, CHANNELS)
        sums: dict[int, Tensor] = {}
        for u, r, v in edges(TRIPLES).tolist():
            if u in states:
                message = states[u] * (weight[r] @ asked + bias[r])
                sums[v] = sums.get(v, torch.zeros(CHANNELS)) + message
        new = {}
        for v in states.keys() | sums.keys():
            before = states.get(v, torch.zeros(CHANNELS))
            total = layer.message(sums.get(v, torch.zeros(CHANNELS))) + layer.state(before)
            new[v] = before + layer.norm(total).relu()
        states = new
    found = torch.zeros(ENTITIES)
    for v, state in states.items():
        found[v] = model.out((model.state(state) + model.asked(asked)).relu())[0]
    return found


def test_equals_its_equations_an_edge_at_a_time(model: PathEncoder) -> None:
    with torch.no_grad():
        slow = torch.stack([slow_scores(model, *asked) for asked in zip(SOURCE, RELATION, strict=True)])
    torch.testing.assert_close(scores(model, TRIPLES, SOURCE), slow)


def test_one_by_one_is_the_same(model: PathEncoder) -> None:
    together = scores(model, TRIPLES, SOURCE)
    for q in range(len(SOURCE)):
        found = reached(TRIPLES, SOURCE[q : q + 1], RELATION[q : q + 1])
        alone = model(found, torch.from_numpy(RELATION[q : q + 1]))
        torch.testing.assert_close(together[q, found.entity], alone)


@pytest.mark.parametrize("mask", ["pair", "triple"])
def test_hidden_edges_are_as_good_as_gone(model: PathEncoder, mask: str) -> None:
    """Several questions, each with one or two answers hidden: scores as if they were not there."""
    number = np.array([0, 5, 11])
    asked = TRIPLES[number]  # the first triple of a few heads, and whatever else the head leads to
    answers = [np.unique(TRIPLES[(TRIPLES[:, :2] == row[:2]).all(axis=1), 2])[:2] for row in asked]
    source, relation = asked.T[:2].copy()
    start = np.cumsum([0, *map(len, answers)])
    forward, backward = (relation, relation + RELATIONS) if mask == "triple" else np.full((2, 3), -1)
    found = walked(TRIPLES, Rule(source, forward, backward, start, np.concatenate(answers)))
    with torch.no_grad():
        together = model(found, torch.from_numpy(relation))
        for q in range(3):
            head, along, tail = TRIPLES.T
            any_edge = mask == "pair"
            out = (head == source[q]) & np.isin(tail, answers[q]) & ((along == relation[q]) | any_edge)
            back = (tail == source[q]) & np.isin(head, answers[q]) & any_edge
            assert out.any()
            alone = reached(TRIPLES[~(out | back)], source[[q]], relation[[q]])
            here = found.question == q
            assert found.entity[here].tolist() == alone.entity.tolist()
            expected = model(alone, torch.from_numpy(relation[[q]]))
            torch.testing.assert_close(together[torch.from_numpy(here)], expected)


def test_names_of_entities_do_not_matter(model: PathEncoder) -> None:
    """Entities in another order: the same scores in that order."""
    order = np.random.default_rng(2).permutation(ENTITIES)
    renamed = np.stack([order[TRIPLES[:, 0]], TRIPLES[:, 1], order[TRIPLES[:, 2]]], axis=1)
    torch.testing.assert_close(
        scores(model, renamed, order[SOURCE])[:, order], scores(model, TRIPLES, SOURCE)
    )
