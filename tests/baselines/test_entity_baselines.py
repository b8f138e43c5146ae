"""Baselines on triples: PyKEEN's models behind our questions and ranking."""

import numpy as np
import pytest
import torch
from builders import train, wheel
from torch.nn import functional

from detgraph.config import EntityConfig, parse_config
from detgraph.config.baselines import ENTITY_BASELINES
from detgraph.errors import DetError
from detgraph.tasks import EntityBaselineTask

pytest.importorskip("pykeen", reason="pykeen is not installed: it is an extra")


def baseline_task(name: str, **training: object) -> EntityBaselineTask:
    config = parse_config(
        {
            "task": "entity",
            "data": {"name": "tiny"},
            "baseline": {"name": name, "channels": 16},
            "training": {"batch_size": 16, "label_smoothing": 0.0, **training},
        }
    )
    assert isinstance(config, EntityConfig)
    torch.manual_seed(0)
    return EntityBaselineTask(wheel(), config)


@pytest.mark.parametrize("name", ENTITY_BASELINES)
def test_it_learns_a_handful_of_triples(name: str) -> None:
    task = baseline_task(name)
    before = task.evaluate("train")["mrr"]
    losses = train(task, 200)
    assert losses[-1] < 0.8 * losses[0]
    after = task.evaluate("train")["mrr"]
    assert after > before + (0.1 if name == "transe" else 0.2)  # a translation cannot go round a ring
    assert after > task.trivial("train")


@pytest.mark.parametrize("name", ENTITY_BASELINES)
def test_both_directions_are_asked_with_relations_of_their_own(name: str) -> None:
    task = baseline_task(name).eval()
    source = torch.tensor([3, 3])
    with torch.no_grad():
        scores = task.model(source, torch.tensor([1, 1 + 2]))
    assert scores.shape == (2, 12)
    assert not torch.allclose(scores[0], scores[1])


def test_the_loss_is_that_of_every_answer_among_all() -> None:
    task = baseline_task("complex")
    batch = next(task.batches(0))
    # All that a training triple names: nothing is learned of others.
    assert batch.candidates is not None
    assert batch.candidates.sort().values.tolist() == np.unique(task.data.train[:, [0, 2]]).tolist()
    scores = task.model(batch.source, batch.relation, batch.candidates)
    expected = functional.cross_entropy(scores[batch.question], batch.answer)
    torch.testing.assert_close(task(batch)["main"], expected)
    smooth = baseline_task("complex", label_smoothing=0.2)
    expected = functional.cross_entropy(scores[batch.question], batch.answer, label_smoothing=0.2)
    torch.testing.assert_close(smooth(batch)["main"], expected)


@pytest.mark.parametrize("candidates", [None, 4])
def test_n3_of_complex(candidates: int | None) -> None:
    task = baseline_task("complex", n3=0.5, candidates=candidates)
    batch = next(task.batches(0))
    weight = task.model.inner.entity_representations[0](torch.arange(12))  # complex numbers
    relation = task.model.inner.relation_representations[0](torch.arange(4))
    entities = torch.arange(12) if batch.candidates is None else batch.candidates
    expected = []
    for question, answer in zip(batch.question.tolist(), batch.answer.tolist(), strict=True):
        asked = int(batch.relation[question])
        number = 2 * asked if asked < 2 else 2 * (asked - 2) + 1
        parts = [weight[batch.source[question]], relation[number], weight[entities[answer]]]
        expected.append(torch.stack([part.abs().pow(3).sum() for part in parts]).sum())
    torch.testing.assert_close(task(batch)["n3"], 0.5 * torch.stack(expected).mean())
    with pytest.raises(DetError, match=r"training\.n3 has no effect with baseline\.name=transe"):
        baseline_task("transe", n3=0.5)


def test_candidates_hold_the_answers() -> None:
    task = baseline_task("transe", candidates=3, batch_size=2)
    for batch in task.batches(0):
        assert batch.candidates is not None
        assert len(batch.candidates) == len(set(batch.candidates.tolist()))
        asked = zip(
            batch.source[batch.question].tolist(), batch.relation[batch.question].tolist(), strict=True
        )
        for (source, relation), answer in zip(asked, batch.candidates[batch.answer].tolist(), strict=True):
            step = relation % 2 + 1
            expected = source + step if relation < 2 else source - step
            assert answer == expected % 11
        assert task(batch)["main"].isfinite()


def test_evaluation_does_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    task = baseline_task("rotate")
    whole = task.evaluate("test")
    monkeypatch.setattr("detgraph.tasks.entity_baseline.NUMBERS", 1)
    assert task.evaluate("test") == pytest.approx(whole)


@pytest.mark.parametrize("name", ENTITY_BASELINES)
@pytest.mark.parametrize("candidates", [None, torch.tensor([4, 0, 9])])
def test_scores_are_those_of_pykeen(name: str, candidates: torch.Tensor | None) -> None:
    task = baseline_task(name).eval()
    source, relation = torch.tensor([3, 5, 0]), torch.tensor([1, 2, 3])
    asked = torch.stack([source, torch.tensor([2, 1, 3])], dim=1)  # PyKEEN has an inverse beside its relation
    expected = task.model.inner.score_t(asked, tails=candidates)
    torch.testing.assert_close(task.model(source, relation, candidates), expected)


def test_compgcn_may_add_before_it_multiplies() -> None:
    task = baseline_task("compgcn").eval()
    layer = task.model.inner.entity_representations[0].combined.layers[0]
    edges, kinds = (
        torch.from_numpy(task.data.train[:, [0, 2]].T.copy()),
        torch.from_numpy(task.data.train[:, 1]),
    )
    given = torch.randn(12, 16), torch.randn(4, 16), edges, kinds
    quick = layer(*given)
    del layer.message  # that of the class is left
    for one, other in zip(quick, layer(*given), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["complex", "tucker"])
def test_an_entity_that_training_never_saw_scores_nil(name: str) -> None:
    task = baseline_task(name).eval()
    unseen = sorted(set(range(12)) - set(task.data.train[:, [0, 2]].ravel().tolist()))
    assert unseen
    scores = task.model(torch.tensor([0, 1]), torch.tensor([0, 3]))
    assert (scores[:, unseen] == 0).all()


def test_options_of_other_models() -> None:
    for wrong in ({"name": "transe", "dropout": 0.2}, {"name": "complex", "relation_channels": 3}):
        with pytest.raises(DetError, match="has no effect"):
            parse_config({"task": "entity", "data": {"name": "tiny"}, "baseline": wrong})
