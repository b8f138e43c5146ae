"""The contexts of queries: planted leaks must not get through."""

import numpy as np
import pytest
from numpy.typing import NDArray

from detgraph.tasks.contexts import Contexts, Mask, queries

ENTITIES, RELATIONS = 15, 3
# Planted: 0 and 1 are linked by r0, by r2, and by r0 the other way round; 3 has r1 to itself; 14 has no edge.
TRAIN = np.array(
    [
        [0, 0, 1],
        [0, 2, 1],
        [1, 0, 0],
        [3, 1, 3],
        [0, 1, 2],
        [2, 1, 3],
        *([0, 2, other] for other in range(4, 14)),
    ]
)
INVERSE = RELATIONS  # r + RELATIONS is the inverse of r


def contexts(mask: Mask = "triple", size: int = 30, train: NDArray[np.int64] = TRAIN) -> Contexts:
    return Contexts(train, ENTITIES, RELATIONS, size, mask)


def seen(found: Contexts, query: tuple[int, int, int], *, training: bool = True) -> list[tuple[int, int]]:
    """The (relation, neighbour) pairs of one query's context, sorted."""
    rng = np.random.default_rng(0) if training else None
    neighbors, relations = found.of(np.array([query]), rng)
    exists = neighbors[0] >= 0
    assert np.array_equal(exists, relations[0] >= 0)
    assert not exists[exists.sum() :].any()  # padding stands at the end
    return sorted(zip(relations[0][exists].tolist(), neighbors[0][exists].tolist(), strict=True))


def edges_of(entity: int) -> list[tuple[int, int]]:
    """Every (relation, neighbour) of an entity, counted one triple at a time."""
    forward = [(r, t) for h, r, t in TRAIN.tolist() if h == entity]
    return sorted(forward + [(r + INVERSE, h) for h, r, t in TRAIN.tolist() if t == entity])


def test_both_questions_of_every_triple() -> None:
    assert queries(np.array([[4, 1, 7], [7, 0, 7]]), RELATIONS).tolist() == [
        [4, 1, 7],
        [7, 0, 7],
        [7, 4, 4],
        [7, 3, 7],
    ]


@pytest.mark.parametrize("entity", range(ENTITIES))
def test_without_training_every_edge_of_the_source_is_seen(entity: int) -> None:
    assert seen(contexts(), (entity, 0, 5), training=False) == edges_of(entity)


@pytest.mark.parametrize("query", queries(TRAIN, RELATIONS).tolist())
def test_mask_triple_hides_the_query_and_nothing_else(query: list[int]) -> None:
    source, relation, answer = query
    hidden = {(relation, answer)}
    if source == answer:  # the same triple stands in its own context a second time, as the inverse
        hidden.add(((relation + RELATIONS) % (2 * RELATIONS), answer))
    expected = [edge for edge in edges_of(source) if edge not in hidden]
    assert seen(contexts("triple"), (source, relation, answer)) == expected
    assert len(expected) == len(edges_of(source)) - len(hidden)


@pytest.mark.parametrize("query", queries(TRAIN, RELATIONS).tolist())
def test_mask_pair_hides_every_edge_between_the_two(query: list[int]) -> None:
    source, relation, answer = query
    expected = [(r, other) for r, other in edges_of(source) if other != answer]
    assert seen(contexts("pair"), (source, relation, answer)) == expected


def test_what_the_masks_do_about_a_second_edge_between_the_pair() -> None:
    leak = [(0 + INVERSE, 1), (2, 1)]
    assert [edge for edge in seen(contexts("triple"), (0, 0, 1)) if edge[1] == 1] == sorted(leak)
    assert [edge for edge in seen(contexts("pair"), (0, 0, 1)) if edge[1] == 1] == []


def test_evaluation_hides_nothing_and_is_the_same_at_every_call() -> None:
    found, asked = contexts(size=5), queries(TRAIN, RELATIONS)
    first = found.of(asked, None)
    found.of(asked, np.random.default_rng(3))
    again, rebuilt = found.of(asked, None), contexts(size=5).of(asked, None)
    for one, other, third in zip(first, again, rebuilt, strict=True):
        assert np.array_equal(one, other)
        assert np.array_equal(one, third)
    # Nor does it depend on the question or on the company.
    alone = found.of(np.array([[0, 5, 14]]), None)
    assert np.array_equal(alone[0][0], first[0][0])
    assert np.array_equal(alone[1][0], first[1][0])


@pytest.mark.parametrize("size", [1, 4, 12])
@pytest.mark.parametrize("training", [True, False])
def test_size_is_respected_and_used(size: int, training: bool) -> None:
    asked = queries(TRAIN, RELATIONS)
    rng = np.random.default_rng(0) if training else None
    neighbors, relations = contexts(size=size).of(asked, rng)
    assert neighbors.shape == relations.shape == (len(asked), size)
    possible = [len(seen(contexts(), tuple(query), training=training)) for query in asked.tolist()]
    assert (neighbors >= 0).sum(axis=1).tolist() == [min(size, count) for count in possible]


def test_an_entity_without_edges_has_an_empty_context() -> None:
    for rng in (None, np.random.default_rng(0)):
        neighbors, relations = contexts(size=4).of(np.array([[14, 0, 1], [0, 0, 1]]), rng)
        assert (neighbors[0] == -1).all()
        assert (relations[0] == -1).all()
        assert (neighbors[1] >= 0).all()


def test_a_query_whose_only_edge_is_hidden() -> None:
    assert seen(contexts(), (4, 2 + INVERSE, 0)) == []


def test_samples_differ_and_reach_every_edge_alike() -> None:
    found, rng = contexts(size=4), np.random.default_rng(0)
    draws = 400
    neighbors, relations = found.of(np.tile([0, 0, 1], (draws, 1)), rng)
    drawn = list(zip(relations.ravel().tolist(), neighbors.ravel().tolist(), strict=True))
    possible = [edge for edge in edges_of(0) if edge != (0, 1)]
    counts = [drawn.count(edge) for edge in possible]
    assert sum(counts) == 4 * draws
    expected = 4 * draws / len(possible)
    assert all(0.6 * expected < count < 1.4 * expected for count in counts)
    assert all(len(set(row)) == 4 for row in (4 * neighbors + relations).tolist())  # without replacement


def test_the_same_generator_gives_the_same_sample() -> None:
    asked = queries(TRAIN, RELATIONS)
    one, same, other = (contexts(size=3).of(asked, np.random.default_rng(seed))[0] for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_queries_keep_their_rows() -> None:
    asked = queries(TRAIN, RELATIONS)[::-1]
    neighbors, relations = contexts().of(asked, np.random.default_rng(0))
    for query, near, by in zip(asked.tolist(), neighbors, relations, strict=True):
        got = sorted(zip(by[by >= 0].tolist(), near[near >= 0].tolist(), strict=True))
        assert got == seen(contexts(), tuple(query))
