"""Votes of similar entities: a slow reference, and who must have no say."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from builders import entity_task, grouped_task, triples
from torch import Tensor

from detgraph.config import EntityConfig
from detgraph.tasks import EntityTask
from detgraph.tasks.contexts import queries
from detgraph.tasks.votes import SCALE

# e0 and e1 are alike: both have e5 and e6 under r0. Only e1 has e7.
TRAIN = [(0, 0, 5), (0, 0, 6), (1, 0, 5), (1, 0, 6), (1, 0, 7), (2, 1, 8), (3, 1, 9), (4, 0, 10), (4, 1, 11)]
BOTH = pytest.mark.parametrize("make", [entity_task, grouped_task])


def scores(task: EntityTask, source: int, relation: int) -> Tensor:
    with torch.no_grad():
        return next(task.eval().scored(np.array([[source, relation, 0]]), "test")).scores[0]


def gain(task: EntityTask, source: int, relation: int) -> Tensor:
    """What votes add."""
    voted = scores(task, source, relation)
    config = task.config
    task.config = without_votes(config)
    alone = scores(task, source, relation)
    task.config = config
    return voted - alone


def without_votes(config: EntityConfig) -> EntityConfig:
    return config.model_copy(update={"model": config.model.model_copy(update={"votes": 0.0})})


def expected_gain(task: EntityTask, source: int, relation: int) -> Tensor:
    """The formula, an entity at a time."""
    table, total = task.table.detach(), torch.zeros(len(task.data.entities))
    answers: dict[int, set[int]] = {}
    for head, asked, answer in queries(task.data.train, len(task.data.relations)).tolist():
        if asked == relation and head != source:
            answers.setdefault(head, set()).add(answer)
    if not answers:
        return total
    cosines = torch.stack([torch.cosine_similarity(table[source], table[other], dim=0) for other in answers])
    for given, weight in zip(
        answers.values(), (task.config.model.vote_sharpness * cosines).softmax(0).tolist(), strict=True
    ):
        for answer in given - {source}:
            total[answer] += weight / len(given)
    return task.config.model.votes * (1 + SCALE * total).log()


@BOTH
@pytest.mark.parametrize("relation", [0, 1, 2, 3])
def test_similar_entities_vote_for_their_own_answers(make: Callable[..., EntityTask], relation: int) -> None:
    task = make(
        triples(TRAIN, [(0, 0, 7)], [(2, 0, 9)]),
        model={"votes": 0.5, "vote_sharpness": 3.0},
        neighbors={"k": 2},
    )
    for source in (0, 3, 5):
        expected = expected_gain(task, source, relation)
        torch.testing.assert_close(gain(task, source, relation), expected, atol=1e-5, rtol=1e-5)
    assert expected.any()


@BOTH
def test_held_out_triples_have_no_vote(make: Callable[..., EntityTask]) -> None:
    one, other = (
        make(triples(TRAIN, held_out, held_out), model={"votes": 1.0}, neighbors={"k": 2})
        for held_out in ([(1, 1, 3)], [(1, 0, 9)])
    )
    torch.testing.assert_close(scores(one, 0, 0), scores(other, 0, 0))


@BOTH
def test_an_entity_that_training_does_not_know_neither_votes_nor_is_voted_for(
    make: Callable[..., EntityTask],
) -> None:
    task = make(triples(TRAIN, [(12, 0, 7)], entities=13), model={"votes": 1.0}, neighbors={"k": 2})
    assert not gain(task, 12, 0).any()
    before = gain(task, 0, 0)
    with torch.no_grad():
        task.table[12] = task.table[0]  # as like e0 as can be
    torch.testing.assert_close(gain(task, 0, 0), before)


def test_nobody_votes_for_the_source_itself() -> None:
    # e1 answers e0 under r0, and is like e0.
    task = grouped_task(triples([(1, 0, 0), (1, 0, 2), (0, 1, 3)], [(0, 0, 2)]), model={"votes": 1.0})
    with torch.no_grad():
        task.table[1] = task.table[0]
    added = gain(task, 0, 0)
    assert added[0] == 0
    assert added[2] > 0


def test_who_alone_was_asked_gets_no_votes() -> None:
    task = grouped_task(
        triples([(0, 0, 2), (1, 1, 3)], [(0, 0, 3)]), model={"votes": 1.0}, neighbors={"k": 1}
    )
    assert not gain(task, 0, 0).any()
    assert gain(task, 1, 0).any()


def test_a_block_of_questions_gets_the_votes_of_each() -> None:
    task = grouped_task(triples(TRAIN, [(0, 0, 7)]), model={"votes": 1.0}, neighbors={"k": 2})
    asked = queries(np.array([(0, 0, 7), (0, 0, 3), (3, 1, 8), (2, 0, 5)]), 2)
    with torch.no_grad():
        for block in task.eval().scored(asked, "valid"):
            for row, (source, relation, _) in zip(block.row, block.asked.tolist(), strict=True):
                torch.testing.assert_close(block.scores[row], scores(task, source, relation))


@pytest.mark.parametrize("changed", [{"model": {"tau": 1}}, {"neighbors": {"k": 0}}])
def test_without_the_semantic_half_nobody_is_asked(changed: dict[str, dict[str, float]]) -> None:
    model = {"votes": 1.0, **changed.get("model", {})}
    task = grouped_task(triples(TRAIN, [(0, 0, 7)]), model=model, neighbors=changed.get("neighbors"))
    assert not gain(task, 0, 0).any()
    assert "mrr without votes" not in task.evaluate("valid")


def test_votes_lift_what_a_similar_entity_answers() -> None:
    task = grouped_task(triples(TRAIN, [(0, 0, 7)]), model={"votes": 5.0}, neighbors={"k": 2})
    with torch.no_grad():
        task.table[1] = task.table[0]
    found = task.evaluate("valid")
    assert found["mrr"] > found["mrr without votes"]
    task.config = without_votes(task.config)
    assert task.evaluate("valid")["mrr"] == found["mrr without votes"]
