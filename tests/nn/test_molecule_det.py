"""MoleculeDET: published sizes, invariance, padding, and awkward molecules."""

from typing import Any

import pytest
import torch
from torch import Tensor

from detgraph.nn import DualEncoding, MoleculeBatch, MoleculeDET

HOPS = 4
LARGE = {
    "atom_codes": 4609,
    "bond_codes": 1537,
    "channels": 768,
    "heads": 32,
    "ffn_channels": 768,
    "hops": 128,
    "max_degree": 512,
    "max_distance": 512,
}


@pytest.mark.parametrize(
    ("sizes", "tau", "expected"),
    [
        ({"atom_codes": 64, "bond_codes": 64}, 1.0, 489_481),
        ({"atom_codes": 64, "bond_codes": 64}, 0.5, 489_562),  # h + 1 = 81 more
        (LARGE, 1.0, 47_085_377),
        (LARGE, 0.5, 47_086_146),  # h + 1 = 769 more
    ],
)
def test_number_of_parameters_is_the_published_one(sizes: dict[str, int], tau: float, expected: int) -> None:
    with torch.device("meta"):
        model = MoleculeDET(**sizes, targets=1, encoding=DualEncoding(tau=tau, share_layers=True))  # type: ignore[arg-type]  # sizes
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def model_of(encoding: DualEncoding | None = None, **options: Any) -> MoleculeDET:
    """A small model in double precision with all biases away from zero."""
    model = MoleculeDET(
        atom_codes=9,
        bond_codes=5,
        targets=2,
        channels=8,
        heads=2,
        layers=2,
        ffn_channels=8,
        hops=HOPS,
        encoding=encoding or DualEncoding(share_layers=True),
        **options,
    ).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.normal_(std=0.3)
                if name in ("atom.weight", "distance.table.weight", "path.bond.weight") or "degree" in name:
                    parameter[0] = 0  # padding
    return model


def molecules(sizes: list[int], width: int | None = None) -> MoleculeBatch:
    """Random molecules of the given sizes, padded to ``width``."""
    batch, nodes = len(sizes), width or max(sizes)
    exists = torch.arange(nodes) < torch.tensor(sizes)[:, None]
    pair = (exists[:, :, None] & exists[:, None, :]).long()
    length = torch.randint(HOPS + 1, (batch, nodes, nodes, 1))
    paths = torch.randint(1, 4, (batch, nodes, nodes, HOPS)) * (torch.arange(HOPS) < length)
    return MoleculeBatch(
        torch.randint(1, 9, (batch, nodes, 3)) * exists[:, :, None],
        torch.randint(1, 5, (batch, nodes)) * exists,
        torch.randint(0, 6, (batch, nodes, nodes)) * pair,  # 0 between atoms: they are not connected
        torch.randint(1, 5, (3, 2)),
        paths * pair[..., None],
        torch.zeros(batch, 2),
    )


def select(batch: MoleculeBatch, molecule: int, atoms: Tensor) -> MoleculeBatch:
    """One molecule with its atoms taken in the order of ``atoms``."""
    one = slice(molecule, molecule + 1)
    return MoleculeBatch(
        batch.atoms[one][:, atoms],
        batch.degree[one][:, atoms],
        batch.distance[one][:, atoms][:, :, atoms],
        batch.kinds,
        batch.paths[one][:, atoms][:, :, atoms],
        batch.y[one],
    )


ENCODINGS = [
    DualEncoding(share_layers=True),
    DualEncoding(tau=1.0),
    DualEncoding(tau=0.0, share_layers=True),
    DualEncoding(tau="alternate", share_layers=True),
    DualEncoding(tau=0.3, mutual_bias="none", semantic="l2"),
]


@pytest.mark.parametrize("readout", ["virtual", "sum", "mean"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_predictions_do_not_depend_on_the_order_of_atoms(encoding: DualEncoding, readout: Any) -> None:
    model, batch = model_of(encoding, readout=readout), molecules([6])
    shuffled = select(batch, 0, torch.randperm(6))
    torch.testing.assert_close(model(shuffled), model(batch))


@pytest.mark.parametrize("readout", ["virtual", "sum", "mean"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_batch_predicts_what_each_molecule_predicts_alone(encoding: DualEncoding, readout: Any) -> None:
    model, sizes = model_of(encoding, readout=readout), [4, 1, 6]
    batch = molecules(sizes, width=8)
    out = model(batch)
    assert out.shape == (3, 2)
    alone = torch.cat([model(select(batch, b, torch.arange(size))) for b, size in enumerate(sizes)])
    torch.testing.assert_close(out, alone)


def test_one_atom_trains() -> None:
    model = model_of()
    model(molecules([1])).sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_biases_stand_where_they_belong() -> None:
    model, batch = model_of(), molecules([4])
    bias = model.position_bias(batch)
    assert bias.shape == (1, 2, 5, 5)
    torch.testing.assert_close(bias[0, :, 0, :], model.virtual_bias[:, None].expand(-1, 5))
    torch.testing.assert_close(bias[0, :, :, 0], model.virtual_bias[:, None].expand(-1, 5))
    inner = model.distance(batch.distance) + model.path(batch.kinds, batch.paths)
    torch.testing.assert_close(bias[:, :, 1:, 1:], inner)


def test_parts_that_are_not_connected_have_no_bias_and_are_still_one_molecule() -> None:
    model, batch = model_of(), molecules([4])
    batch.distance[0, :2, 2:] = batch.distance[0, 2:, :2] = 0
    batch.paths[0, :2, 2:] = batch.paths[0, 2:, :2] = 0
    assert (model.position_bias(batch)[0, :, 1:3, 3:] == 0).all()
    part = select(batch, 0, torch.arange(2))
    assert not torch.allclose(model(batch), model(part))


@pytest.mark.parametrize("field", ["atoms", "degree", "distance", "paths", "kinds"])
def test_every_input_matters(field: str) -> None:
    model, batch = model_of(), molecules([5])
    batch.distance.clamp_(min=1)
    values = getattr(batch, field)
    changed = batch._replace(**{field: torch.where(values > 0, values % 3 + 1, values)})
    assert not torch.allclose(model(changed), model(batch))
