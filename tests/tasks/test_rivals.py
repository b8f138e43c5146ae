"""Entities that compete with the answers of a batch."""

import numpy as np
import pytest

from detgraph.tasks.rivals import Rivals


def test_answers_come_first_and_no_candidate_twice() -> None:
    candidates, extra = Rivals(np.arange(10), 4).draw(np.array([7, 2, 7]), np.random.default_rng(0))
    assert candidates[:2].tolist() == [2, 7]
    assert len(set(candidates.tolist())) == len(candidates) == 6
    assert extra.tolist() == pytest.approx([0, 0] + 4 * [np.log(8 / 4)])


def test_entities_that_training_never_saw_do_not_compete() -> None:
    seen = np.array([1, 2, 5, 8])
    for seed in range(20):
        candidates, _ = Rivals(seen, 2).draw(np.array([5]), np.random.default_rng(seed))
        assert set(candidates.tolist()) <= set(seen.tolist())


def test_all_others_may_be_too_few() -> None:
    candidates, extra = Rivals(np.arange(3), 9).draw(np.arange(3), np.random.default_rng(0))
    assert candidates.tolist() == [0, 1, 2]
    assert not extra.any()
