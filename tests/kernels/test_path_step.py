"""What questions reach, and one hop's messages, against an edge at a time."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from detgraph.kernels.path_step import path_step, plain_path_step
from detgraph.kernels.reach import Graph, Reached, Rule, reach

ENTITIES, RELATIONS = 15, 3
TRIPLES = np.unique(np.random.default_rng(0).integers([15, 3, 15], size=(40, 3)), axis=0)
HIDDEN = [[int(TRIPLES[0, 2])], [], [4, 7]]
SOURCE, RELATION = np.array([int(TRIPLES[0, 0]), 3, 3]), np.array([int(TRIPLES[0, 1]), 0, 4])


def both_ways() -> NDArray[np.int64]:
    head, relation, tail = TRIPLES.T
    back = np.stack([tail, relation + RELATIONS, head], axis=1)
    return np.concatenate([TRIPLES, back])


def graph() -> Graph:
    source, relation, target = both_ways().T
    return Graph.of(source, relation, target, ENTITIES, RELATIONS)


def rule(mask: str) -> Rule:
    turned = (RELATION + RELATIONS) % (2 * RELATIONS)
    any_relation = np.full(3, -1)
    start = np.cumsum([0, *map(len, HIDDEN)])
    answers = np.array([answer for part in HIDDEN for answer in part])
    both = (any_relation, any_relation) if mask == "pair" else (RELATION, turned)
    return Rule(SOURCE, *both, start, answers)


def seen_edges(q: int, mask: str) -> Iterator[tuple[int, int, int]]:
    """Edges that question q may see, one by one."""
    turned = (RELATION[q] + RELATIONS) % (2 * RELATIONS)
    for u, r, v in both_ways().tolist():
        forth = u == SOURCE[q] and v in HIDDEN[q] and (mask == "pair" or r == RELATION[q])
        back = v == SOURCE[q] and u in HIDDEN[q] and (mask == "pair" or r == turned)
        if not (forth or back):
            yield u, r, v


def named_edges(found: Reached, number: int, q: int) -> list[tuple[int, int, int]]:
    """Edges of a hop by sender's and receiver's place and relation."""
    hop = found.hops[number]
    part = slice(hop.begin[q], hop.end[q])
    rows = zip(
        hop.sender[part].tolist(), hop.relation[part].tolist(), hop.receiver[part].tolist(), strict=True
    )
    return list(rows)


@pytest.mark.parametrize("mask", ["pair", "triple"])
@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("goals", [range(ENTITIES), (1, 4, 6)], ids=["all", "some"])
def test_reaches_what_a_walk_over_all_edges_reaches(mask: str, hops: int, goals: tuple[int, ...]) -> None:
    wanted = np.isin(np.arange(ENTITIES), goals)
    found = reach(graph(), rule(mask), hops, wanted)
    for q in range(3):
        edges = list(seen_edges(q, mask))
        nodes = [int(SOURCE[q])]  # in the order of their numbers
        for number in range(hops - 1):
            senders = list(nodes)
            leaving = [edge for edge in edges if edge[0] in senders]
            nodes += sorted({v for _, _, v in leaving} - set(nodes))
            named = named_edges(found, number, q)
            sizes = found.hops[number].receivers
            assert sizes[q + 1] - sizes[q] == len(nodes)
            assert len(named) == len(leaving)
        goal = set(goals) | set(HIDDEN[q])
        arriving = [(u, r, v) for u, r, v in edges if u in nodes and v in goal]
        here = found.question == q
        ended = found.entity[here].tolist()
        assert ended == sorted({v for _, _, v in arriving} | (goal & set(nodes)))
        assert [node >= 0 for node in found.node[here]] == [v in nodes for v in ended]
        # Senders are told apart by their relations and goals alone: their numbers follow from the walk.
        last = [(r, ended[place]) for _, r, place in named_edges(found, hops - 1, q)]
        assert sorted(last) == sorted((r, v) for _, r, v in arriving)


@pytest.mark.parametrize("channels", [8, 32])
def test_messages_and_gradients_equal_plain_torch(channels: int) -> None:
    torch.manual_seed(0)
    hop = reach(graph(), rule("triple"), 3, np.arange(ENTITIES) % 2 == 0).hops
    for one in hop:
        states = torch.randn(int(one.senders[-1]), channels, requires_grad=True)
        relation = torch.randn(3, 2 * RELATIONS, channels, requires_grad=True)
        quick, plain = path_step(states, relation, one), plain_path_step(states, relation, one)
        torch.testing.assert_close(quick, plain)
        upstream = torch.randn_like(plain)
        torch.testing.assert_close(
            torch.autograd.grad((quick * upstream).sum(), (states, relation)),
            torch.autograd.grad((plain * upstream).sum(), (states, relation)),
        )
