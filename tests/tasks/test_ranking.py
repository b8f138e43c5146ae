"""Filtered ranks against PyKEEN's evaluator, and what a ranking must never do."""

import warnings

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from detgraph.errors import DetError
from detgraph.tasks.contexts import queries
from detgraph.tasks.ranking import KnownAnswers, ranks, summarize

ENTITIES, RELATIONS = 25, 3


def random_triples(seed: int, count: int = 120) -> NDArray[np.int64]:
    """Distinct triples, so many that every question has several true answers."""
    rng = np.random.default_rng(seed)
    drawn = np.stack([rng.integers(high, size=count) for high in (ENTITIES, RELATIONS, ENTITIES)], axis=1)
    return np.unique(drawn, axis=0)


def tied_scores(seed: int, rows: int, levels: int) -> Tensor:
    """Scores with few different values, (rows, entities)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(levels, (rows, ENTITIES), generator=generator) / 7


def pykeen_metrics(
    scores: Tensor, evaluated: NDArray[np.int64], known: NDArray[np.int64]
) -> dict[str, float]:
    """What PyKEEN's evaluator says; ``scores`` are those of all tail questions, then of all for heads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pykeen.evaluation import RankBasedEvaluator
        from pykeen.evaluation.evaluator import create_sparse_positive_filter_, filter_scores_

        batch, rows = torch.from_numpy(evaluated), torch.arange(len(evaluated))
        evaluator = RankBasedEvaluator()
        for target, column, part in zip(("tail", "head"), (2, 0), scores.chunk(2), strict=True):
            positives, _ = create_sparse_positive_filter_(batch, torch.from_numpy(known), None, column)
            own = part[rows, batch[:, column]]
            filtered = filter_scores_(part.clone(), positives)
            filtered[rows, batch[:, column]] = own
            evaluator.process_scores_(batch, target, filtered, own[:, None])
        result = evaluator.finalize()
    names = {"mrr": "inverse_harmonic_mean_rank", "mr": "arithmetic_mean_rank"}
    names |= {f"hits@{k}": f"hits_at_{k}" for k in (1, 3, 10)}
    return {ours: float(result.get_metric(f"both.realistic.{name}")) for ours, name in names.items()}


@pytest.mark.parametrize("levels", [1, 2, 5, 10_000])
@pytest.mark.parametrize("seed", [0, 1])
def test_metrics_equal_those_of_pykeen(levels: int, seed: int) -> None:
    pytest.importorskip("pykeen", reason="pykeen is not installed: it is an extra")
    known = random_triples(seed)
    evaluated = known[::3]
    asked = queries(evaluated, RELATIONS)
    scores = tied_scores(seed, len(asked), levels)
    found = summarize(ranks(scores, asked, KnownAnswers(known, RELATIONS)))
    assert found == pytest.approx(pykeen_metrics(scores, evaluated, known), abs=1e-6)


def test_ranks_equal_a_count_by_hand() -> None:
    known = random_triples(2)
    asked = queries(known[::4], RELATIONS)
    scores = tied_scores(3, len(asked), 4)
    everything = {tuple(row) for row in queries(known, RELATIONS).tolist()}
    expected = []
    for row, (source, relation, answer) in zip(scores.tolist(), asked.tolist(), strict=True):
        others = [e for e in range(ENTITIES) if e != answer and (source, relation, e) not in everything]
        better = sum(row[e] > row[answer] for e in others)
        equal = sum(row[e] == row[answer] for e in others)
        expected.append(1 + better + equal / 2)
    assert ranks(scores, asked, KnownAnswers(known, RELATIONS)).tolist() == expected


def test_a_constant_scorer_is_no_better_than_chance() -> None:
    asked = np.array([[0, 0, 5], [1, 0, 6]])
    found = ranks(torch.zeros(2, ENTITIES), asked, KnownAnswers(asked, RELATIONS))
    assert found.tolist() == [(ENTITIES + 1) / 2] * 2
    assert summarize(found)["mrr"] == pytest.approx(2 / (ENTITIES + 1))
    assert summarize(found)["hits@10"] == 0


def test_other_true_answers_never_count() -> None:
    known = np.array([[0, 0, 5], [0, 0, 6], [0, 0, 7], [0, 1, 8], [9, 0, 5]])
    asked = np.array([[0, 0, 5]])
    scores = torch.zeros(1, ENTITIES)
    scores[0, 5] = 1.0
    scores[0, [6, 7]] = 2.0  # true for the same question
    assert ranks(scores, asked, KnownAnswers(known, RELATIONS)).tolist() == [1]
    scores[0, [6, 7]] = 1.0  # nor do they tie
    assert ranks(scores, asked, KnownAnswers(known, RELATIONS)).tolist() == [1]
    scores[0, [8, 9]] = 2.0  # true for other questions only
    assert ranks(scores, asked, KnownAnswers(known, RELATIONS)).tolist() == [3]


def test_heads_are_filtered_by_the_inverse_question() -> None:
    known = np.array([[1, 2, 0], [3, 2, 0], [0, 2, 4]])
    asked = queries(known[:1], RELATIONS)[1:]  # (0, 2 + 3, ? = 1)
    scores = torch.zeros(1, ENTITIES)
    scores[0, 1] = 1.0
    scores[0, [3, 4]] = 2.0  # 3 is another true head, 4 is a tail
    assert ranks(scores, asked, KnownAnswers(known, RELATIONS)).tolist() == [2]


def test_the_answer_itself_is_never_filtered() -> None:
    known = random_triples(4)
    asked = queries(known, RELATIONS)
    worst = torch.ones(len(asked), ENTITIES)
    worst[torch.arange(len(asked)), torch.from_numpy(asked[:, 2])] = 0.0
    answers = KnownAnswers(known, RELATIONS)
    true_answers = np.diff(answers.of(asked)[0])
    assert ranks(worst, asked, answers).tolist() == (ENTITIES - true_answers + 1).tolist()


def test_a_question_never_asked_before_is_ranked_among_all() -> None:
    known = KnownAnswers(np.array([[0, 0, 1]]), RELATIONS)
    asked = np.array([[20, 2, 21]])
    scores = torch.arange(ENTITIES, dtype=torch.float)[None]
    assert ranks(scores, asked, known).tolist() == [ENTITIES - 21]


def test_batches_and_single_queries_agree() -> None:
    known = random_triples(5)
    asked, answers = queries(known, RELATIONS), KnownAnswers(known, RELATIONS)
    scores = tied_scores(5, len(asked), 3)
    together = ranks(scores, asked, answers)
    assert len(set(together.tolist())) > 5
    alone = [ranks(scores[i : i + 1], asked[i : i + 1], answers) for i in range(len(asked))]
    assert torch.equal(torch.cat(alone), together)


def test_scores_are_left_alone() -> None:
    known = random_triples(6)
    asked = queries(known, RELATIONS)
    scores = tied_scores(6, len(asked), 3)
    before = scores.clone()
    ranks(scores, asked, KnownAnswers(known, RELATIONS))
    assert torch.equal(scores, before)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_scores_that_are_no_numbers_are_no_victory(value: float) -> None:
    asked = np.array([[0, 0, 1]])
    scores = torch.zeros(1, ENTITIES)
    scores[0, 1] = value
    with pytest.raises(DetError, match=r"not finite: training has diverged\. .*learning_rate"):
        ranks(scores, asked, KnownAnswers(asked, RELATIONS))


def test_summary() -> None:
    found = summarize(torch.tensor([1.0, 1.5, 3.0, 10.0, 10.5], dtype=torch.double))
    assert found["mrr"] == pytest.approx((1 + 1 / 1.5 + 1 / 3 + 1 / 10 + 1 / 10.5) / 5)
    assert found["mr"] == pytest.approx(5.2)
    assert [found[f"hits@{k}"] for k in (1, 3, 10)] == pytest.approx([0.2, 0.6, 0.8])
