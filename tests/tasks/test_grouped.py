"""The quick form of entity prediction: no leaks, all answers asked for, samples that stand for all."""

import numpy as np
import pytest
import torch
from builders import grouped_task, total, train, triples
from torch.nn import functional

from detgraph.nn import GroupBatch
from detgraph.tasks import GroupedTask
from detgraph.tasks.contexts import queries
from detgraph.training.optim import make_optimizer


def states(task: GroupedTask, batch: GroupBatch) -> torch.Tensor:
    sources = task.model(batch, task.model.entity(batch.entities))
    return task.model.ask(sources[batch.group], batch.relation)


def triples_of(batch: GroupBatch) -> torch.Tensor:
    """(answers, 3): source, relation, answer."""
    source = batch.source[batch.group][batch.question]
    relation = batch.relation[batch.question]
    return torch.stack([batch.entities[source], relation, batch.entities[batch.answer]], dim=1)


def test_an_epoch_asks_for_both_ends_of_every_triple_once() -> None:
    task = grouped_task()
    asked = []
    batches = list(task.batches(0))
    assert len(batches) == task.steps()
    for batch in batches:
        asked += triples_of(batch).tolist()
    assert sorted(asked) == sorted(queries(task.data.train, 2).tolist())


@pytest.mark.parametrize("mask", ["pair", "triple"])
def test_the_answer_is_nowhere_in_its_own_training_batch(mask: str) -> None:
    task = grouped_task(model={"mask": mask, "max_neighbors": 30}, neighbors={"k": 12})
    task.start_epoch(0)
    for batch in task.batches(0):
        group = batch.group[batch.question]  # of each answer
        assert not (batch.semantic[group] == batch.answer[:, None]).any()
        relation = batch.relation[batch.question]
        there = batch.neighbors[group] == batch.answer[:, None]
        assert not (there & (batch.neighbor_relations[group] == relation[:, None])).any()
        if mask == "pair":
            assert not there.any()


def test_held_out_triples_do_not_influence_training() -> None:
    one = grouped_task()
    other = grouped_task(triples(one.data.train, [(1, 0, 5)], [(7, 1, 2)]))
    for task in (one, other):
        torch.manual_seed(0)
        train(task, 3)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_main_loss_is_that_of_all_entities_that_training_has() -> None:
    task = grouped_task(training={"label_smoothing": 0.1, "sn_weight": 0})
    batch = next(task.batches(0))
    losses = task(batch)
    seen = torch.from_numpy(np.unique(task.data.train[:, [0, 2]]))
    scores = states(task, batch) @ task.table[seen].t()
    answer = torch.searchsorted(seen, batch.entities[batch.answer])
    expected = functional.cross_entropy(scores[batch.question], answer, label_smoothing=0.1)
    assert list(losses) == ["main"]
    torch.testing.assert_close(losses["main"], expected)


def test_a_sample_of_candidates_stands_for_all() -> None:
    task = grouped_task(neighbors={"k": 0}, training={"candidates": 4, "batch_size": 2, "sn_weight": 0})
    sums, whole, seen = [], [], np.unique(task.data.train[:, [0, 2]])
    with torch.no_grad():
        for epoch in range(400):
            batch = next(task.batches(epoch))
            assert len(batch.entities.unique()) == len(batch.entities)  # type: ignore[no-untyped-call]  # torch
            asked, candidates = states(task, batch), batch.entities[: len(batch.extra)]
            assert set(batch.entities[batch.answer].tolist()) <= set(candidates.tolist())
            weighted = asked @ task.model.entity(candidates).t() + batch.extra
            sums.append(weighted.exp().sum(dim=1).mean())
            whole.append((asked @ task.table[seen].t()).exp().sum(dim=1).mean())
    assert float(torch.stack(sums).mean()) == pytest.approx(float(torch.stack(whole).mean()), rel=2e-3)


@pytest.mark.parametrize("candidates", [4, None])
def test_nothing_is_learned_of_entities_that_no_training_triple_has(candidates: int | None) -> None:
    task = grouped_task(training={"candidates": candidates, "sn_weight": 0.1})
    unseen = np.setdiff1d(np.arange(len(task.data.entities)), task.data.train[:, [0, 2]])
    assert len(unseen)
    train(task, 3)
    assert not task.table[unseen].any()
    task.start_epoch(task.config.neighbors.warmup)
    assert (task.neighbors.found[unseen] == -1).all()
    assert not np.isin(task.neighbors.found.numpy(), unseen).any()
    # Nor are they fetched for a new entity, however many it may fetch.
    task.neighbors.k = 99
    with torch.no_grad():
        distant = task.nearest(torch.zeros(task.table.size(1)), exclude=torch.tensor([0, 4]))
    assert sorted(distant.tolist()) == sorted(set(task.neighbors.members.tolist()) - {0, 4})


def test_further_losses_and_their_weights() -> None:
    batch = next(grouped_task().batches(0))
    plain = grouped_task()(batch)
    task = grouped_task(training={"n3": 0.5, "relation_weight": 2.0, "sn_weight": 0.0})
    losses = task(batch)
    assert set(plain) == {"main", "sn"}
    assert set(losses) == {"main", "n3", "relation"}
    relation = batch.relation[batch.question]
    entities = task.model.entity(batch.entities)
    sources = task.model(batch, entities)[batch.group][batch.question]  # as they are encoded
    parts = [sources, task.model.relation(relation), entities[batch.answer]]
    head, by, tail = (torch.complex(*part.chunk(2, dim=-1)) for part in parts)
    sizes = sum(part.abs().pow(3).sum(dim=1) for part in (head, by, tail))
    assert isinstance(sizes, torch.Tensor)
    torch.testing.assert_close(losses["n3"], 0.5 * sizes.mean())
    every = torch.complex(*task.model.relation.weight[:-1].chunk(2, dim=-1))
    scores = torch.einsum("ad,rd,ad->ar", head, every, tail.conj()).real
    torch.testing.assert_close(losses["relation"], 2.0 * functional.cross_entropy(scores, relation))


def test_evaluation_depends_neither_on_batches_nor_on_groups() -> None:
    found = []
    for training in ({"group": 2}, {"group": 5}, {"group": 1, "batch_size": 3}):
        task = grouped_task(training=training)
        task.start_epoch(0)
        found.append(task.evaluate("test"))
    for other in found[1:]:
        assert other == pytest.approx(found[0])


def test_ranks_are_those_of_every_query_alone() -> None:
    task = grouped_task()
    task.start_epoch(0)
    task.eval()
    with torch.no_grad():
        ranking = task.ranking("test")
    assert sorted(map(tuple, ranking.asked.tolist())) == sorted(
        map(tuple, queries(task.data.test, 2).tolist())
    )
    assert set(ranking.by_direction()) == {"tail", "head"}
    assert sum(part["queries"] for part in ranking.by_relation().values()) == 4


def test_overfits_a_handful_of_triples() -> None:
    task = grouped_task(training={"batch_size": 64, "label_smoothing": 0, "sn_weight": 0.01})
    losses = train(task, 150)
    assert losses[-1] < 0.5 * losses[0]
    found = task.evaluate("train")  # each answer is hidden in its context
    assert found["mrr"] > 0.9
    assert found["mrr"] > task.trivial("train") + 0.3


def test_a_warm_start_trains_complex_and_leaves_the_encoder_as_it_is() -> None:
    task = grouped_task(training={"warm_start": 2, "n3": 0.1})
    start = {name: tensor.clone() for name, tensor in task.state_dict().items()}
    train(task, 2)
    changed = {name for name, tensor in task.state_dict().items() if not torch.equal(tensor, start[name])}
    assert changed == {"model.entity.weight", "model.relation.weight"}
    batch = next(task.batches(1))
    with torch.no_grad():
        warm = task(batch)
        next(task.batches(2))
        assert set(task(batch)) == {*warm, "sn"}
        torch.testing.assert_close(task(batch)["main"], warm["main"])  # the encoder still adds nothing
    train(task, 3)
    last = "model.det.layers.0.out.weight"
    assert not torch.equal(task.state_dict()[last], start[last])


def test_tables_encoder_and_paths_learn_at_rates_of_their_own() -> None:
    task = grouped_task(model={"path_hops": 2}, training={"encoder_rate": 0.25, "path_rate": 0.5})
    tables, others, paths = task.parameter_groups()
    assert [tuple(table.shape) for table in tables["params"]] == [(12, 16), (5, 16)]
    assert (others["scale"], paths["scale"]) == (0.25, 0.5)
    assert task.model.paths is not None
    assert set(map(id, paths["params"])) == set(map(id, task.model.paths.parameters()))
    count = sum(len(part["params"]) for part in (tables, others, paths))
    assert count == len(list(task.parameters()))


def test_leaving_out_unseen_entities_changes_nothing() -> None:
    # Adagrad moves no row without a gradient: updates of the seen rows alone are those of all.
    trained = []
    for rows in (True, False):
        task = grouped_task(training={"candidates": 3, "optimizer": "adagrad", "n3": 0.1, "sn_weight": 0.1})
        assert task.by_rows
        if not rows:
            task.by_rows, task.model.entity.sparse = False, False
        optimizer = make_optimizer(task.parameter_groups(), task.config.training)
        for epoch in range(3):
            torch.manual_seed(epoch)
            task.start_epoch(epoch)
            for batch in task.batches(epoch):
                torch.autograd.backward(total(task(batch)))
                gradient = task.model.entity.weight.grad
                assert gradient is not None
                assert gradient.is_sparse == rows
                optimizer.step()
                optimizer.zero_grad()
        trained.append(list(task.parameters()))
    for one, other in zip(*trained, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)  # Adagrad's first steps magnify rounding


@pytest.mark.parametrize(
    "training", [{"optimizer": "adam"}, {"candidates": None}, {"clip_norm": 1.0}, {"weight_decay": 0.1}]
)
def test_all_entities_are_updated_where_rows_alone_would_differ(training: dict[str, object]) -> None:
    task = grouped_task(training={"candidates": 3, "optimizer": "adagrad", **training})
    assert not task.model.entity.sparse
