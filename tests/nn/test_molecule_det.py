"""MoleculeDET: published sizes, invariance, batches, the padded form, and awkward molecules."""

from typing import Any

import numpy as np
import pytest
import torch
from molecule_batches import FEATURES, batch_of, random_molecule, shuffled

from detgraph.data.featurizers import get_featurizer
from detgraph.data.rings import RING_CODES
from detgraph.nn import DualEncoding, MoleculeBatch, MoleculeDET

STANDARD = get_featurizer("standard")
SMALL: dict[str, Any] = {"atom_sizes": (63,), "bond_sizes": (63,)}
LARGE: dict[str, Any] = {
    "atom_sizes": STANDARD.atom_sizes,
    "bond_sizes": STANDARD.bond_sizes,
    "column_codes": 512,
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
        (SMALL, 1.0, 489_481),
        (SMALL, 0.5, 489_562),  # h + 1 = 81 more
        (LARGE, 1.0, 47_085_377),
        (LARGE, 0.5, 47_086_146),  # h + 1 = 769 more
    ],
)
def test_number_of_parameters_is_the_published_one(sizes: dict[str, Any], tau: float, expected: int) -> None:
    model = MoleculeDET(**sizes, targets=1, encoding=DualEncoding(tau=tau, share_layers=True))
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def model_of(encoding: DualEncoding | None = None, **options: Any) -> MoleculeDET:
    """A small model with all weights away from zero."""
    torch.manual_seed(0)
    model = MoleculeDET(
        atom_sizes=FEATURES.atom_sizes,
        bond_sizes=FEATURES.bond_sizes,
        targets=2,
        channels=8,
        heads=2,
        layers=2,
        ffn_channels=8,
        **{"hops": 4, "encoding": encoding or DualEncoding(share_layers=True), **options},
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.normal_(std=0.3)
        model.position.distance.weight[0] = 0  # no path
    return model


def outputs(model: MoleculeDET, batch: MoleculeBatch) -> torch.Tensor:
    """Predictions in double precision, which the padded form makes."""
    floats = {name: tensor.double() for name, tensor in batch._asdict().items() if tensor.is_floating_point()}
    out: torch.Tensor = model.double()(batch._replace(**floats))
    return out


ENCODINGS = [
    DualEncoding(share_layers=True),
    DualEncoding(),
    DualEncoding(tau=1.0),
    DualEncoding(tau=0.0, share_layers=True),
    DualEncoding(tau="alternate", share_layers=True),
    DualEncoding(tau=0.3, mutual_bias="none", semantic="l2"),
]
EXTRAS: list[dict[str, Any]] = [
    {"readout": "virtual"},
    {"readout": "sum", "messages": True},
    {"readout": "mean", "walk_steps": 5, "walk_bias": True},
    {"readout": "sum", "messages": True, "rings": RING_CODES},
]


@pytest.mark.parametrize("extras", EXTRAS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_predictions_do_not_depend_on_the_order_of_atoms(
    encoding: DualEncoding, extras: dict[str, Any]
) -> None:
    # A tree has one path between two atoms; in a ring of unlike bonds either of two may be taken.
    tree = random_molecule(7, seed=1, rings=0)
    model, steps = model_of(encoding, **extras), extras.get("walk_steps", 0)
    one, other = batch_of([tree], steps), batch_of([shuffled(tree)], steps)
    torch.testing.assert_close(model(other), model(one))


@pytest.mark.parametrize("extras", EXTRAS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_batch_predicts_what_each_molecule_predicts_alone(
    encoding: DualEncoding, extras: dict[str, Any]
) -> None:
    model, steps = model_of(encoding, **extras), extras.get("walk_steps", 0)
    several = [random_molecule(size, seed=size) for size in (4, 1, 6)]
    out = model(batch_of(several, steps))
    assert out.shape == (3, 2)
    torch.testing.assert_close(out, torch.cat([model(batch_of([one], steps)) for one in several]))


@pytest.mark.parametrize("extras", EXTRAS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_padded_form_is_the_same(
    encoding: DualEncoding, extras: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, steps = model_of(encoding, **extras), extras.get("walk_steps", 0)
    batch = batch_of([random_molecule(size, seed=size) for size in (5, 1, 9, 3)], steps)

    def run() -> tuple[torch.Tensor, list[torch.Tensor | None]]:
        out = model(batch)
        parameters = list(model.parameters())
        return out, list(torch.autograd.grad(out.square().sum(), parameters, allow_unused=True))

    fused, gradients = run()
    monkeypatch.setenv("DETGRAPH_KERNELS", "torch")
    padded, expected = run()
    torch.testing.assert_close(fused, padded)
    for (name, _), ours, theirs in zip(model.named_parameters(), gradients, expected, strict=True):
        if theirs is None:
            assert ours is None, name
        else:
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4, msg=name)


def test_double_precision_takes_the_padded_form() -> None:
    model, batch = model_of(), batch_of([random_molecule(5, seed=0), random_molecule(2, seed=1)])
    single = model(batch)
    double = outputs(model, batch)
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), single)


def test_one_atom_trains() -> None:
    model = model_of()
    torch.autograd.backward(model(batch_of([random_molecule(1, seed=0)])).sum())
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_parts_that_are_not_connected_have_no_bias_and_are_still_one_molecule() -> None:
    model, chain = model_of(), random_molecule(4, seed=2, rings=0)
    cut = chain._replace(bond_counts=np.array([0]), ends=chain.ends[:0], kinds=chain.kinds[:0])
    bias = model.pair_bias(batch_of([cut])).view(5, 5, 2)
    apart = ~torch.eye(4, dtype=torch.bool)
    assert (bias[1:, 1:][apart] == 0).all()
    part = cut._replace(atom_counts=np.array([2]), atoms=cut.atoms[:2])
    assert not torch.allclose(model(batch_of([cut])), model(batch_of([part])))


@pytest.mark.parametrize(
    "field", ["atoms", "degree", "path_distance", "path_bond", "path_before", "bond_rings", "walks"]
)
def test_every_input_matters(field: str) -> None:
    model, batch = model_of(walk_steps=3, walk_bias=True, rings=3), batch_of([random_molecule(6, seed=3)], 3)
    values = getattr(batch, field)
    changed = {
        "path_before": batch.path_self[batch.path_before // 6],
        "path_bond": 1 - values.clamp(max=1),
        "walks": values * 2,
    }
    other = batch._replace(**{field: changed.get(field, (values + 1) % 3)})
    assert not torch.allclose(model(other), model(batch))


def test_messages_and_bonds_matter() -> None:
    batch = batch_of([random_molecule(6, seed=3)])
    model = model_of(messages=True)
    assert not torch.allclose(
        model(batch._replace(bond_kinds=1 - batch.bond_kinds.clamp(max=1))), model(batch)
    )
    assert not torch.allclose(
        model(batch._replace(bonds=batch.bonds[:, :0], bond_kinds=batch.bond_kinds[:0])), model(batch)
    )


def test_numbers_of_nodes_and_pairs() -> None:
    batch = batch_of([random_molecule(3, seed=0), random_molecule(1, seed=1)])
    assert batch.sizes.tolist() == [4, 2]
    assert batch.node.tolist() == [1, 2, 3, 5]
    assert batch.molecule.tolist() == [0, 0, 0, 1]
    pairs = set(batch.path_pair.tolist())
    inner = {4 * i + j for i in range(1, 4) for j in range(1, 4)} | {16 + 3}
    assert pairs == inner
    assert np.array_equal(batch.path_pair[batch.path_self].numpy(), [5, 10, 15, 19])
