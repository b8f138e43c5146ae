"""GroupedEgoDET: questions that share a neighbourhood."""

import torch

from detgraph.nn import DualEncoding, GroupBatch, GroupedEgoDET
from detgraph.nn.complex_product import complex_product, cubes

ENTITIES, RELATIONS = 7, 3


def model_of(encoding: DualEncoding | None = None, layers: int = 1) -> GroupedEgoDET:
    torch.manual_seed(0)
    model = GroupedEgoDET(
        entities=ENTITIES,
        relations=RELATIONS,
        channels=8,
        heads=2,
        layers=layers,
        ffn_channels=8,
        encoding=encoding or DualEncoding(share_layers=True),
    )
    with torch.no_grad():
        for parameter in model.parameters():  # away from the start, where context does nothing
            parameter.normal_(std=0.5)
    return model


OF_A_GROUP = ("source", "neighbors", "neighbor_relations", "semantic")


def run(model: GroupedEgoDET, batch: GroupBatch) -> torch.Tensor:
    """States of the questions."""
    sources = model(batch, model.entity(batch.entities))
    return model.ask(sources[batch.group], batch.relation)


def batch_of() -> GroupBatch:
    """Three groups of up to three questions, with padding everywhere."""
    return GroupBatch(
        entities=torch.arange(ENTITIES),
        extra=torch.empty(0),
        source=torch.tensor([0, 3, 5]),
        neighbors=torch.tensor([[1, 2], [4, -1], [-1, -1]]),
        neighbor_relations=torch.tensor([[0, 5], [3, -1], [-1, -1]]),
        semantic=torch.tensor([[6, 4], [-1, -1], [2, -1]]),
        group=torch.tensor([0, 0, 0, 1, 2, 2]),
        relation=torch.tensor([1, 4, 5, 0, 2, 3]),
        question=torch.empty(0, dtype=torch.long),
        answer=torch.empty(0, dtype=torch.long),
    )


def test_a_batch_says_what_each_question_says_alone() -> None:
    for layers in (1, 2):
        model, batch = model_of(layers=layers), batch_of()
        together = run(model, batch)
        assert together.shape == (6, 8)
        alone = []
        for group, relation in zip(batch.group.tolist(), batch.relation[:, None].unbind(), strict=True):
            own = {field: getattr(batch, field)[[group]] for field in OF_A_GROUP}
            alone.append(run(model, batch._replace(**own, group=torch.zeros(1).long(), relation=relation)))
        torch.testing.assert_close(together, torch.cat(alone))


def test_it_starts_as_complex() -> None:
    torch.manual_seed(0)
    model = GroupedEgoDET(
        entities=ENTITIES,
        relations=RELATIONS,
        channels=8,
        heads=2,
        layers=1,
        ffn_channels=8,
        encoding=DualEncoding(share_layers=True),
    )
    batch = batch_of()
    scores = run(model, batch) @ model.entity.weight.t()
    parts = [
        torch.complex(*part.chunk(2, dim=-1))
        for part in (
            model.entity(batch.source[batch.group]),
            model.relation(batch.relation),
            model.entity.weight,
        )
    ]
    expected = torch.einsum("qd,qd,ed->qe", parts[0], parts[1], parts[2].conj()).real
    torch.testing.assert_close(scores, expected)


def test_neighbors_of_both_kinds_matter_and_padding_does_not() -> None:
    model, batch = model_of(), batch_of()
    out = run(model, batch)
    for field, value in (("neighbors", 3), ("neighbor_relations", 2), ("semantic", 1)):
        values = getattr(batch, field).clone()
        values[0, 0] = value
        changed = (run(model, batch._replace(**{field: values})) - out).abs().sum(dim=1) > 1e-6
        assert changed.tolist() == [True, True, True, False, False, False]
    wider = {
        field: torch.cat([getattr(batch, field), torch.full((3, 2), -1)], dim=1)
        for field in ("neighbors", "neighbor_relations", "semantic")
    }
    torch.testing.assert_close(run(model, batch._replace(**wider)), out)


def test_the_structural_encoder_alone_sees_no_semantic_neighbors() -> None:
    model, batch = model_of(DualEncoding(tau=1.0, share_layers=True)), batch_of()
    other = batch._replace(semantic=torch.tensor([[1, 1], [2, 2], [3, 3]]))
    torch.testing.assert_close(run(model, other), run(model, batch))
    assert model.det.operator is None


def test_a_relation_and_its_inverse_are_told_apart() -> None:
    model, batch = model_of(), batch_of()
    back = batch._replace(neighbor_relations=(batch.neighbor_relations + RELATIONS) % (2 * RELATIONS))
    assert not torch.allclose(run(model, back)[:3], run(model, batch)[:3])


def test_products_and_cubes_of_complex_numbers() -> None:
    a, b = torch.randn(2, 4, 6).unbind()
    real = complex_product(a, b)
    product = torch.complex(*a.chunk(2, dim=-1)) * torch.complex(*b.chunk(2, dim=-1))
    torch.testing.assert_close(real, torch.cat([product.real, product.imag], dim=-1))
    torch.testing.assert_close(cubes(a), torch.complex(*a.chunk(2, dim=-1)).abs().pow(3).sum(dim=-1))
