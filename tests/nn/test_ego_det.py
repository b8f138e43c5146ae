"""EgoDET: scores of all entities from a source, its relation and its neighbours."""

import torch
from torch.nn import functional

from detgraph.nn import DualEncoding, EgoBatch, EgoDET

ENTITIES, RELATIONS = 20, 3


def model_of(encoding: DualEncoding | None = None, *, hides_sources: bool = False) -> EgoDET:
    """A small model in double precision with embeddings large enough to tell entities apart."""
    model = EgoDET(
        entities=ENTITIES,
        relations=RELATIONS,
        channels=8,
        heads=2,
        ffn_channels=16,
        encoding=encoding or DualEncoding(share_layers=True),
        hides_sources=hides_sources,
    ).double()
    for parameter in (model.entity.weight, model.relation.weight, model.role, model.context, model.unknown):
        parameter.data.normal_()
    return model.eval()


def queries() -> EgoBatch:
    """Three queries; the last has no neighbour of either kind."""
    return EgoBatch(
        torch.tensor([0, 5, 9]),
        torch.tensor([0, 5, 9]),
        torch.tensor([0, 4, 2]),
        torch.tensor([[1, 2, 3], [7, -1, -1], [-1, -1, -1]]),
        torch.tensor([[0, 1, 5], [2, -1, -1], [-1, -1, -1]]),
        torch.tensor([[11, 12], [13, -1], [-1, -1]]),
        torch.arange(3),
        torch.tensor([4, 6, 8]),
        torch.empty(0, dtype=torch.long),
    )


def test_scores_every_entity_by_its_embedding() -> None:
    model, batch = model_of(), queries()
    out = model(batch)
    assert out.shape == (3, ENTITIES)
    torch.testing.assert_close(out, model.encode(batch)[:, 0] @ model.entity.weight.t())


def test_a_batch_scores_what_each_query_scores_alone() -> None:
    model, batch = model_of(), queries()
    out = model(batch)
    for row, (near, far) in enumerate([(3, 2), (1, 1), (0, 0)]):
        alone = EgoBatch(
            batch.source[row : row + 1],
            batch.shown[row : row + 1],
            batch.relation[row : row + 1],
            batch.neighbors[row : row + 1, :near],
            batch.neighbor_relations[row : row + 1, :near],
            batch.semantic[row : row + 1, :far],
            batch.question[:1],
            batch.answer[row : row + 1],
            batch.guess,
        )
        torch.testing.assert_close(model(alone), out[row : row + 1])


def test_order_of_neighbors_does_not_matter() -> None:
    model, batch = model_of(), queries()
    order, far = torch.tensor([2, 0, 1]), torch.tensor([1, 0])
    shuffled = batch._replace(
        neighbors=batch.neighbors[:, order],
        neighbor_relations=batch.neighbor_relations[:, order],
        semantic=batch.semantic[:, far],
    )
    torch.testing.assert_close(model(shuffled), model(batch))


def test_every_part_of_the_query_matters_and_the_answer_does_not() -> None:
    model, batch = model_of(), queries()
    out = model(batch)
    for field in ("source", "relation", "neighbors", "neighbor_relations", "semantic"):
        values = getattr(batch, field)
        limit = 2 * RELATIONS if "relation" in field else ENTITIES
        changed = batch._replace(**{field: torch.where(values >= 0, (values + 1) % limit, values)})
        assert not torch.allclose(model(changed)[0], out[0]), field
    torch.testing.assert_close(model(batch._replace(answer=batch.answer + 1)), out)


def test_structural_only_does_not_see_semantic_neighbors() -> None:
    model, batch = model_of(DualEncoding(tau=1.0, share_layers=True)), queries()
    assert not any("operator" in name for name, _ in model.named_parameters())
    changed = batch._replace(semantic=batch.semantic[:, :1])
    torch.testing.assert_close(model(changed), model(batch))


def test_a_hidden_source_is_known_to_the_operator_alone() -> None:
    batch = queries()._replace(shown=torch.tensor([-1, -1, 3]))
    model = model_of(DualEncoding(tau=1.0, share_layers=True), hides_sources=True)
    out = model(batch)
    changed = batch._replace(source=torch.tensor([1, 7, 4]))
    torch.testing.assert_close(model(changed), out)
    shown = batch._replace(source=torch.tensor([0, 5, 3]))
    torch.testing.assert_close(model(shown), out)
    dual = model_of(hides_sources=True)
    assert not torch.allclose(dual(changed)[:2], dual(batch)[:2])


def test_another_entity_in_the_place_of_a_source_learns_nothing_from_it() -> None:
    model = model_of(DualEncoding(tau=1.0, share_layers=True), hides_sources=True)
    batch = queries()._replace(shown=torch.tensor([-1, 17, 9]))
    torch.autograd.backward(model.encode(batch).square().sum())
    grad = model.entity.weight.grad
    assert grad is not None
    assert grad.any(dim=1).nonzero().flatten().tolist() == [1, 2, 3, 7, 9]  # neighbours and the shown source
    assert model.mask is not None
    assert model.mask.grad is not None
    assert model.mask.grad.any()


def test_context_and_query_stand_for_the_source_in_the_operator() -> None:
    model, batch = model_of(), queries()
    assert model.det.operator is not None
    seen = []
    model.det.operator.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(batch)
    states = seen[0][:, :, 0]  # (batch, 2 + N + S, channels)
    source = model.entity(batch.source)
    torch.testing.assert_close(states[:, 0], source)
    torch.testing.assert_close(states[:, 1], source)
    torch.testing.assert_close(states[0, 2:], model.entity.weight[[1, 2, 3, 11, 12]])


def test_trains_every_table() -> None:
    model, batch = model_of(), queries()
    torch.autograd.backward(functional.cross_entropy(model(batch), batch.answer))
    assert model.relation.weight.grad is not None
    used = model.relation.weight.grad.any(dim=1)
    assert used.tolist() == [True, True, True, False, True, True, True]  # relation 3 is in no query
    for name in ("unknown", "context", "role"):
        assert getattr(model, name).grad.any()
