"""Entity prediction: nothing of the held-out triples or of the answer reaches training, and it learns."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import entity_task, same_weights, total, train, triples, wheel
from torch.nn import functional

from detgraph.errors import DetError
from detgraph.nn import EgoDET
from detgraph.tasks import EntityTask
from detgraph.tasks.contexts import queries

HELD_OUT = [[7, 1, 11], [8, 0, 2], [3, 1, 9]]


def model_of(task: EntityTask) -> EgoDET:
    assert isinstance(task.model, EgoDET)
    return task.model


# --- nothing leaks ----------------------------------------------------------------------------------


def test_held_out_triples_do_not_influence_training() -> None:
    one = entity_task()
    other = entity_task(replace(wheel(), valid=np.array(HELD_OUT[:1]), test=np.array(HELD_OUT[1:])))
    for epoch in range(3):
        torch.manual_seed(epoch)
        for task in (one, other):
            task.start_epoch(epoch)
        for ours, theirs in zip(one.batches(epoch), other.batches(epoch), strict=True):
            for a, b in zip(ours, theirs, strict=True):
                torch.testing.assert_close(a, b, rtol=0, atol=0)
    torch.manual_seed(1)
    losses = train(one, 3)
    torch.manual_seed(1)
    assert train(other, 3) == losses
    assert same_weights(one, other)
    assert one.evaluate("test") != other.evaluate("test")  # but the ranking reads them


@pytest.mark.parametrize("split", ["valid", "test"])
def test_contexts_hold_training_triples_only(split: str) -> None:
    task = entity_task()
    trained = {tuple(row) for row in queries(task.data.train, 2).tolist()}
    asked = queries(getattr(task.data, split), 2)
    batch = task.ask(asked, task.contexts.of(asked, None))
    for source, near, by in zip(batch.source, batch.neighbors, batch.neighbor_relations, strict=True):
        edges = zip(by[by >= 0].tolist(), near[near >= 0].tolist(), strict=True)
        assert {(int(source), r, t) for r, t in edges} <= trained


def test_the_answer_is_nowhere_in_its_own_training_batch() -> None:
    task = entity_task(model={"mask": "pair"}, neighbors={"k": 12, "warmup": 0})  # all that may be fetched
    task.start_epoch(0)
    for batch in task.batches(0):
        assert (batch.semantic >= 0).any()
        assert not (batch.semantic == batch.answer[:, None]).any()
        assert not (batch.neighbors == batch.answer[:, None]).any()


def test_linked() -> None:
    task = entity_task()
    entities = range(len(task.data.entities))
    source, other = (torch.from_numpy(grid.ravel()) for grid in np.meshgrid(entities, entities))
    pairs = {(h, t) for h, _, t in task.data.train.tolist()}
    pairs |= {(t, h) for h, t in pairs}
    expected = [(a, b) in pairs or a == b for a, b in zip(source.tolist(), other.tolist(), strict=True)]
    assert task.linked(source, other).tolist() == expected


def test_fetched_entities_are_distant() -> None:
    task = entity_task()
    task.start_epoch(0)
    found = task.neighbors.found[:11]
    source = torch.arange(11)[:, None].expand_as(found)
    assert (found >= 0).all()
    assert (found < 11).all(), "no training triple has entity 11"
    assert not task.linked(source, found).any()


# --- batches ----------------------------------------------------------------------------------------


def test_an_epoch_asks_for_both_ends_of_every_triple_once() -> None:
    task = entity_task()
    batches = list(task.batches(0))
    assert len(batches) == task.steps() == 3  # 44 queries, 16 a batch
    asked = torch.cat([torch.stack([b.source, b.relation, b.answer], dim=1) for b in batches])
    assert sorted(asked.tolist()) == sorted(queries(task.data.train, 2).tolist())


def test_contexts_are_sampled_anew_in_every_epoch() -> None:
    task = entity_task(model={"max_neighbors": 2}, training={"batch_size": 64})

    def contexts(epoch: int) -> dict[tuple[int, ...], list[int]]:
        (batch,) = task.batches(epoch)
        keys = torch.stack([batch.source, batch.relation, batch.answer], dim=1).tolist()
        return {tuple(key): sorted(row) for key, row in zip(keys, batch.neighbors.tolist(), strict=True)}

    assert contexts(0) == contexts(0)
    assert contexts(0) != contexts(1)


def test_an_epoch_of_questions_with_all_answers() -> None:
    task = entity_task(model={"mask": "pair"}, training={"answers": "all"})
    asked, expected = [], queries(task.data.train, 2)
    batches = list(task.batches(0))
    assert len(batches) == task.steps()
    for batch in batches:
        keys = torch.stack([batch.source, batch.relation], dim=1)
        assert len({tuple(key) for key in keys.tolist()}) == len(keys)
        asked.append(torch.cat([keys[batch.question], batch.answer[:, None]], dim=1))
        for query, answer in zip(batch.question.tolist(), batch.answer.tolist(), strict=True):
            assert answer not in batch.neighbors[query]  # hidden, as are all other answers
    assert sorted(torch.cat(asked).tolist()) == sorted(expected.tolist())


def test_sources_are_hidden_and_replaced_at_the_rates_asked_for() -> None:
    task = entity_task(training={"source": {"share": 0.8, "masked": 0.6, "replaced": 0.3}})
    source = np.full(20_000, 3)
    shown, guess = task.hide(source, np.random.default_rng(0))
    assert len(guess) / len(source) == pytest.approx(0.8, abs=0.02)
    assert (shown == -1).mean() == pytest.approx(0.48, abs=0.02)
    replaced = (shown >= 0) & (shown != 3)
    assert replaced.mean() == pytest.approx(0.8 * 0.4 * 0.3 * 11 / 12, abs=0.02)
    assert set(np.flatnonzero(shown != 3)) <= set(guess)


def test_sources_and_neighbors_are_hidden_in_training_only() -> None:
    options = {"source": {"share": 0.9}, "context_dropout": 0.9}, {"source": {"share": 1e-9}}
    task, plain = (entity_task(training=training, neighbors={"warmup": 0}) for training in options)
    assert same_weights(task, plain)
    task.start_epoch(0)
    plain.start_epoch(0)
    batch, other = next(task.batches(0)), next(plain.batches(0))
    assert (batch.shown == -1).any()
    for name in ("neighbors", "semantic"):
        assert (getattr(batch, name) >= 0).sum() < (getattr(other, name) >= 0).sum()
    for split in ("train", "valid", "test"):
        assert task.evaluate(split) == plain.evaluate(split)


# --- losses -----------------------------------------------------------------------------------------


def test_main_loss_is_smoothed_cross_entropy_over_all_entities() -> None:
    task = entity_task(training={"label_smoothing": 0.3})
    batch = next(task.batches(0))
    log_p = task.model(batch).log_softmax(dim=1)
    assert log_p.shape == (16, 12)
    own = log_p[torch.arange(16), batch.answer]
    expected = -(0.7 * own + 0.3 * log_p.mean(dim=1)).mean()
    torch.testing.assert_close(task(batch)["main"], expected)


def test_the_loss_of_guessed_sources() -> None:
    task = entity_task(training={"source": {"share": 0.5, "weight": 0.4}})
    batch = next(task.batches(0))
    assert 0 < len(batch.guess) < 16
    model = model_of(task)
    log_p = (model.encode(batch)[:, 1] @ model.entity.weight.t()).log_softmax(dim=1)
    own = log_p[batch.guess, batch.source[batch.guess]]
    torch.testing.assert_close(task(batch)["source"], -0.4 * own.mean())


@torch.no_grad()
def test_losses_among_a_sample_of_entities() -> None:
    source = {"share": 0.5, "weight": 0.4}
    task = entity_task(training={"batch_size": 2, "candidates": 3, "label_smoothing": 0.0, "source": source})
    model = model_of(task)
    found = 0
    for batch in task.batches(0):
        assert batch.candidates is not None
        assert batch.extra is not None
        among = batch.candidates.tolist()
        needed = {*batch.answer.tolist(), *batch.source[batch.guess].tolist()}
        assert needed <= set(among)
        assert len(among) == len(set(among)) == len(needed) + 3
        assert float(batch.extra.exp().sum()) == pytest.approx(12)  # they stand for all entities
        scores = model.encode(batch) @ model.entity.weight[among].t() + batch.extra
        log_p, losses = scores.log_softmax(dim=2), task(batch)
        own = [float(log_p[row, 0, among.index(int(answer))]) for row, answer in enumerate(batch.answer)]
        assert float(losses["main"]) == pytest.approx(-np.mean(own), rel=1e-5)
        if len(batch.guess):
            found += 1
            own = [float(log_p[row, 1, among.index(int(batch.source[row]))]) for row in batch.guess]
            assert float(losses["source"]) == pytest.approx(-0.4 * np.mean(own), rel=1e-5)
    assert found


def test_neighbor_loss_by_hand() -> None:
    # e0 and e1 are linked to all others: there is no distant entity to draw for them.
    star = triples([[0, 0, 1], [0, 0, 2], [1, 0, 2]], entities=3, relations=1)
    task = entity_task(star, training={"sn_weight": 0.5, "batch_size": 6})
    (batch,) = task.batches(0)
    operator, table = model_of(task).det.operator, model_of(task).entity.weight
    assert operator is not None
    weight = functional.softplus(operator.weight[0])
    sources: dict[int, list[torch.Tensor]] = {}
    for source, near in zip(batch.source.tolist(), batch.neighbors, strict=True):
        for other in near[near >= 0].tolist():
            z = operator.bias[0] - (weight * (table[source] - table[other]).abs()).sum()
            sources.setdefault(source, []).append(-functional.logsigmoid(z))
    # A mean over each source's neighbours, then over sources.
    expected = torch.stack([torch.stack(terms).mean() for terms in sources.values()]).mean()
    torch.testing.assert_close(task(batch)["sn"], 0.5 * expected)


@pytest.mark.parametrize(
    ("model", "training"), [({"tau": 1}, {}), ({}, {"sn_weight": 0}), ({"tau": 0.5}, {"sn_weight": 0})]
)
def test_no_neighbor_loss_without_need(model: dict[str, float], training: dict[str, float]) -> None:
    task = entity_task(model=model, training=training)
    assert set(task(next(task.batches(0)))) == {"main"}


def test_a_batch_without_any_neighbor_has_a_loss() -> None:
    task = entity_task(triples([[0, 0, 1]], entities=12), training={"batch_size": 2})
    (batch,) = task.batches(0)
    assert (batch.neighbors == -1).all()  # its only edge is the query itself
    loss = total(task(batch))
    torch.autograd.backward(loss)
    assert all(p.grad.isfinite().all() for p in task.parameters() if p.grad is not None)


# --- structural only --------------------------------------------------------------------------------


def test_tau_one_has_no_semantic_part() -> None:
    task = entity_task(model={"tau": 1})
    assert model_of(task).det.operator is None
    assert not any("operator" in name for name, _ in task.named_parameters())
    both = sum(p.numel() for p in entity_task().parameters())
    assert sum(p.numel() for p in task.parameters()) == both - 17  # one weight a channel, and a bias
    task.start_epoch(0)
    assert task.neighbors.k == 0
    assert task.neighbor_state()["entities"].shape == (12, 0)
    assert next(task.batches(0)).semantic.shape == (16, 0)


# --- when to search ---------------------------------------------------------------------------------


def test_entities_are_fetched_at_the_epochs_of_the_schedule() -> None:
    task = entity_task(neighbors={"warmup": 2, "every": 3})
    searched = []
    for epoch in range(9):
        task.neighbors.found = torch.full((12, 3), -1)
        task.start_epoch(epoch)
        if (task.neighbors.found >= 0).any():
            searched.append(epoch)
    assert searched == [2, 5, 8]


def test_the_nearest_in_the_table_are_fetched() -> None:
    task = entity_task(neighbors={"k": 2})
    with torch.no_grad():
        model_of(task).entity.weight.copy_(torch.arange(12.0)[:, None].expand(-1, 16))
    task.start_epoch(0)
    # Entity 5 is linked to 3, 4, 6 and 7: the next ones are 2 and 8.
    assert set(task.neighbors.found[5].tolist()) == {2, 8}


# --- evaluation -------------------------------------------------------------------------------------


def test_evaluation_depends_neither_on_batches_nor_on_chance() -> None:
    dropout = {"dropout": 0.5, "attention_dropout": 0.5, "score_dropout": 0.5, "max_neighbors": 2}
    tasks = [entity_task(model=dropout, training={"batch_size": size}) for size in (3, 64)]
    for task in tasks:
        task.start_epoch(0)
    first = tasks[0].evaluate("train")
    assert tasks[0].evaluate("train") == first
    assert tasks[1].evaluate("train") == pytest.approx(first)


def test_unseen_entities_are_ranked_among_all_others() -> None:
    task = entity_task()
    assert 11 not in task.data.train[:, [0, 2]]
    with torch.no_grad():
        model_of(task).entity.weight.zero_()  # all scores are 0: ranks are those of pure chance
    found = []
    for source, relation, answer in queries(task.data.test, 2).tolist():
        everything = queries(np.concatenate([task.data.train, task.data.valid, task.data.test]), 2).tolist()
        other = [t for s, r, t in everything if (s, r) == (source, relation) and t != answer]
        found.append((12 - len(set(other)) + 1) / 2)
    assert task.evaluate("test")["mr"] == pytest.approx(np.mean(found))


def test_trivial_ranks_by_frequency() -> None:
    data = triples([[1, 0, 0], [2, 0, 0], [3, 0, 0], [1, 1, 2]], test=[[4, 0, 0]], entities=6)
    # For (4, r0, ?) entity 0 answers most often: rank 1. For (0, r0 inverse, ?) e4 never answered; 1, 2 and
    # 3 are true as well and do not count, 0 answers more often, 5 never: rank 2 + 1/2.
    assert entity_task(data).trivial("test") == pytest.approx((1 + 1 / 2.5) / 2)


def test_diverged_weights_are_an_error_and_no_record() -> None:
    task = entity_task()
    with torch.no_grad():
        model_of(task).entity.weight.fill_(torch.nan)
    with pytest.raises(DetError, match="training has diverged"):
        task.evaluate("valid")


def test_overfits_a_handful_of_triples() -> None:
    task = entity_task(training={"batch_size": 64, "label_smoothing": 0})
    losses = train(task, 120)
    assert losses[-1] < 0.3 * losses[0]
    found = task.evaluate("train")  # in contexts as in training, where the answer is hidden
    assert found["mrr"] > 0.95
    assert found["mrr"] > task.trivial("train") + 0.3


def test_vocabulary_and_description() -> None:
    task = entity_task()
    assert task.vocabulary()["entities"][3] == "e3"
    assert task.vocabulary()["entity_names"][3] == "entity 3"
    assert task.vocabulary()["relation_names"] == ["relation 0", "relation 1"]
    assert task.describe() == "tiny: 22 / 2 / 2 triples to train / validate / test, 12 entities, 2 relations"
