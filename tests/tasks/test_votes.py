"""Votes of semantic neighbours: a slow reference, and what must have no say."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from builders import entity_task, grouped_task, triples
from torch import Tensor

from detgraph.tasks import EntityTask
from detgraph.tasks.contexts import queries

# e0 and e1 are alike: both have e5 and e6 under r0. Only e1 has e7.
TRAIN = [(0, 0, 5), (0, 0, 6), (1, 0, 5), (1, 0, 6), (1, 0, 7), (2, 1, 8), (3, 1, 9), (4, 0, 10), (4, 1, 11)]
BOTH = pytest.mark.parametrize("make", [entity_task, grouped_task])


def neighbors_are(task: EntityTask, found: dict[int, list[int]]) -> None:
    rows = torch.full((len(task.data.entities), task.neighbors.k), -1)
    for entity, others in found.items():
        rows[entity, : len(others)] = torch.tensor(others)
    task.neighbors.found = rows


def scores(task: EntityTask, source: int, relation: int) -> Tensor:
    with torch.no_grad():
        return next(task.eval().scored(np.array([[source, relation, 0]]), "test")).scores[0]


@BOTH
def test_neighbors_vote_for_their_own_answers(make: Callable[..., EntityTask]) -> None:
    data = triples(TRAIN, [(0, 0, 7)], [(2, 0, 9)])
    plain, voting = (make(data, model={"votes": votes}, neighbors={"k": 2}) for votes in (0.0, 0.5))
    for task in (plain, voting):
        neighbors_are(task, {0: [1, 4], 3: [2]})
    weights = voting.vote_weights(np.array([0]), voting.neighbors.found[:1])[0].tolist()
    assert sum(weights) == pytest.approx(1)
    expected = torch.zeros(12)
    for entity, share in ((5, weights[0] / 3), (6, weights[0] / 3), (7, weights[0] / 3), (10, weights[1])):
        expected[entity] = 0.5 * math.log(1 + 32 * share)
    torch.testing.assert_close(scores(voting, 0, 0) - scores(plain, 0, 0), expected, atol=1e-5, rtol=1e-5)
    # Nobody was asked the same: no votes. One neighbour alone has a whole vote.
    torch.testing.assert_close(scores(voting, 0, 2), scores(plain, 0, 2))
    one = scores(voting, 3, 1) - scores(plain, 3, 1)
    torch.testing.assert_close(one[8], torch.tensor(0.5 * math.log(33)), atol=1e-5, rtol=1e-5)
    assert int((one.abs() > 1e-4).sum()) == 1


@BOTH
def test_held_out_triples_have_no_vote(make: Callable[..., EntityTask]) -> None:
    one, other = (
        make(triples(TRAIN, held_out, held_out), model={"votes": 1.0}, neighbors={"k": 2})
        for held_out in ([(1, 1, 3)], [(1, 0, 9)])
    )
    for task in (one, other):
        neighbors_are(task, {0: [1, 4]})
    torch.testing.assert_close(scores(one, 0, 0), scores(other, 0, 0))


def test_a_block_of_questions_gets_the_votes_of_each() -> None:
    task = grouped_task(triples(TRAIN, [(0, 0, 7)]), model={"votes": 1.0}, neighbors={"k": 2})
    neighbors_are(task, {0: [1, 4], 5: [6, 7], 3: [2]})
    asked = queries(np.array([(0, 0, 7), (0, 0, 3), (3, 1, 8), (2, 0, 5)]), 2)
    with torch.no_grad():
        for block in task.eval().scored(asked, "valid"):
            for row, (source, relation, _) in zip(block.row, block.asked.tolist(), strict=True):
                torch.testing.assert_close(block.scores[row], scores(task, source, relation))


def test_the_structural_encoder_alone_asks_nobody() -> None:
    plain, voting = (
        grouped_task(triples(TRAIN, [(0, 0, 7)]), model={"votes": votes, "tau": 1}) for votes in (0.0, 1.0)
    )
    assert voting.neighbors.k == 0
    torch.testing.assert_close(scores(voting, 0, 0), scores(plain, 0, 0))


def test_votes_lift_what_a_similar_entity_answers() -> None:
    task = grouped_task(triples(TRAIN, [(0, 0, 7)]), model={"votes": 0.0}, neighbors={"k": 2})
    neighbors_are(task, {0: [1]})
    before = task.evaluate("valid")["mrr"]
    task.votes.strength = 5.0
    assert task.evaluate("valid")["mrr"] > before
