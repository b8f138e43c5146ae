"""Questions in groups: all asked once, samples of edges that hide what is asked."""

import numpy as np
import pytest

from detgraph.tasks.contexts import Mask, queries
from detgraph.tasks.groups import Questions, Surroundings, group

ENTITIES, RELATIONS = 9, 3


def random_triples(seed: int = 0) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    rng = np.random.default_rng(seed)
    drawn = np.stack([rng.integers(high, size=70) for high in (ENTITIES, RELATIONS, ENTITIES)], axis=1)
    return np.unique(drawn, axis=0)


TRAIN = random_triples()
QUESTIONS = Questions.of(TRAIN, RELATIONS)
EDGES = {tuple(row) for row in queries(TRAIN, RELATIONS).tolist()}


def around(
    mask: Mask, size: int, source: list[int], hidden: list[list[int]] | None, seed: int = 0
) -> list[set[tuple[int, int]]]:
    """Relations and neighbours that each group sees."""
    surroundings = Surroundings(QUESTIONS, ENTITIES, size, mask)
    near, by = surroundings.of(np.array(source), None if hidden is None else np.array(hidden), seed)
    assert ((near < 0) == (by < 0)).all()
    rows = [
        list(zip(b[b >= 0].tolist(), n[n >= 0].tolist(), strict=True)) for b, n in zip(by, near, strict=True)
    ]
    assert all(len(set(row)) == len(row) for row in rows), "no edge is drawn twice"
    return [set(row) for row in rows]


def test_questions_have_all_answers() -> None:
    place, answer = QUESTIONS.answers(np.arange(len(QUESTIONS.source)))
    found = {
        (int(QUESTIONS.source[q]), int(QUESTIONS.relation[q]), int(a))
        for q, a in zip(place, answer, strict=True)
    }
    assert found == EDGES
    assert len(answer) == len(EDGES)
    pairs = list(zip(QUESTIONS.source.tolist(), QUESTIONS.relation.tolist(), strict=True))
    assert pairs == sorted(set(pairs))


def test_answers_of_some_questions() -> None:
    place, answer = QUESTIONS.answers(np.array([7, 2]))
    for at, question in enumerate((7, 2)):
        own = QUESTIONS.answer[QUESTIONS.start[question] : QUESTIONS.start[question + 1]]
        assert answer[place == at].tolist() == own.tolist()


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_groups_hold_every_question_once_and_one_source_each(size: int, seed: int | None) -> None:
    rng = None if seed is None else np.random.default_rng(seed)
    groups = group(QUESTIONS.source, size, rng)
    asked = groups[groups >= 0]
    assert sorted(asked.tolist()) == list(range(len(QUESTIONS.source)))
    for row in groups:
        assert row[0] >= 0
        assert len(set(QUESTIONS.source[row[row >= 0]].tolist())) == 1
        assert (row[np.argmax(row < 0) :] < 0).all() or (row >= 0).all()
    if rng is None:
        assert asked.tolist() == sorted(asked.tolist())
    counts = np.bincount(QUESTIONS.source)
    assert len(groups) == sum(-(-count // size) for count in counts)


def test_groups_are_drawn_anew() -> None:
    one, other = (group(QUESTIONS.source, 2, np.random.default_rng(seed)) for seed in (0, 1))
    assert {frozenset(row) for row in one.tolist()} != {frozenset(row) for row in other.tolist()}


def test_without_hiding_all_edges_are_seen() -> None:
    for entity, seen in enumerate(around("pair", 99, list(range(ENTITIES)), None)):
        assert seen == {(r, t) for h, r, t in EDGES if h == entity}


@pytest.mark.parametrize("mask", ["triple", "pair"])
def test_what_is_asked_is_hidden_and_nothing_else(mask: Mask) -> None:
    groups = group(QUESTIONS.source, 3, np.random.default_rng(0))
    source = QUESTIONS.source[groups[:, 0]].tolist()
    for entity, row, seen in zip(source, groups, around(mask, 99, source, groups.tolist()), strict=True):
        asked = {int(QUESTIONS.relation[q]) for q in row if q >= 0}
        answers = {t for h, r, t in EDGES if h == entity and r in asked}
        own = {(r, t) for h, r, t in EDGES if h == entity}
        hidden = {(r, t) for r, t in own if r in asked or (t in answers and mask == "pair")}
        if entity in answers:  # a triple to itself is also its own inverse
            hidden |= {(r, t) for r, t in own if t == entity}
        assert seen == own - hidden


def test_samples_have_their_size_and_reach_every_edge_alike() -> None:
    entity = int(np.argmax(np.bincount(TRAIN[:, 0], minlength=ENTITIES)))
    own = [(r, t) for h, r, t in EDGES if h == entity]
    count = dict.fromkeys(own, 0)
    nothing = [[-1]]
    for seed in range(2000):
        (seen,) = around("triple", 4, [entity], nothing, seed)
        assert len(seen) == 4
        for edge in seen:
            count[edge] += 1
    expected = 2000 * 4 / len(own)
    assert all(abs(found - expected) < 5 * expected**0.5 for found in count.values())


def test_a_sample_without_hiding_is_the_same_in_any_batch() -> None:
    alone = [around("triple", 2, [entity], None)[0] for entity in range(ENTITIES)]
    assert around("triple", 2, list(range(ENTITIES))[::-1], None)[::-1] == alone
