"""Property prediction: batches, missing labels, scales from training only, and it learns."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from builders import SMILES, graph_task, molecules, train
from numpy.typing import NDArray
from rdkit import Chem
from torch import Tensor
from torch.nn import functional

from detgraph.data.molecules import Molecules
from detgraph.errors import DetError
from detgraph.nn import MoleculeDET
from detgraph.tasks import GraphTask
from detgraph.tasks.base import Split
from detgraph.tasks.graph import PAIRS, alike

TRAIN = 16  # of the 20 molecules


def targets(columns: int = 1, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(3.0, 5.0, size=(len(SMILES), columns))


def classes(columns: int = 1, seed: int = 0) -> Molecules:
    y = (targets(columns, seed) > 3).astype(float)
    y[16:18], y[18:] = [[0] * columns, [1] * columns], [[1] * columns, [0] * columns]
    return molecules(y, kind="classification")


def everywhere(smiles: list[str]) -> Molecules:
    """All of these to train, to validate and to test."""
    data = molecules(smiles=smiles)
    return replace(data, splits={split: np.arange(len(smiles)) for split in data.splits})


def rough(task: GraphTask) -> GraphTask:
    """Large random weights, so that every path and distance tells."""
    with torch.no_grad():
        for parameter in task.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return task


# --- batches ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 4, 64])
def test_an_epoch_visits_every_training_molecule_once(size: int) -> None:
    y = np.arange(20.0)[:, None]
    task = graph_task(molecules(y), training={"batch_size": size})
    batches = list(task.batches(0))
    assert len(batches) == task.steps()
    assert all(len(batch.y) == size for batch in batches if batch is not min(batches, key=lambda b: len(b.y)))
    assert sorted(torch.cat([batch.y for batch in batches])[:, 0].tolist()) == list(range(TRAIN))


def test_batches_hold_molecules_of_like_size_in_random_order() -> None:
    task = graph_task(molecules(np.arange(20.0)[:, None]))
    orders, largest = [], []
    for epoch in range(4):
        sizes = [batch.sizes for batch in task.batches(epoch)]
        spans = sorted((int(s.min()), int(s.max())) for s in sizes)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
        orders.append([float(batch.y.sum()) for batch in task.batches(epoch)])
        largest.append([int(s.max()) for s in sizes])
    assert len({tuple(order) for order in orders}) == 4
    assert any(order != sorted(order) for order in largest)  # not from small to large in every epoch


@pytest.mark.parametrize("readout", ["virtual", "sum", "mean"])
def test_predictions_do_not_depend_on_the_batch(readout: str) -> None:
    tasks = [
        graph_task(molecules(targets(2)), model={"readout": readout}, training={"batch_size": size})
        for size in (1, 3, 64)
    ]
    alone = rough(tasks[0]).predict("train")
    for task in tasks[1:]:
        task.load_state_dict(tasks[0].state_dict())
        torch.testing.assert_close(task.predict("train"), alone, rtol=1e-4, atol=1e-4)
    assert alone.std(dim=0).min() > 0.1


def test_predictions_stand_in_the_order_of_the_split() -> None:
    data = molecules()
    task = rough(graph_task(data))
    turned = replace(data, splits={**data.splits, "train": data.splits["train"][::-1].copy()})
    other = graph_task(turned)
    other.load_state_dict(task.state_dict())
    torch.testing.assert_close(other.predict("train").flip(0), task.predict("train"), rtol=1e-4, atol=1e-4)


def test_codes_fit_their_tables() -> None:
    task = graph_task()
    batch = task.collate(np.array([17, 2]))  # methane and benzene
    assert batch.sizes.tolist() == [2, 7]
    assert batch.degree.tolist() == [0] + [2] * 6
    features = task.data.featurizer
    assert (batch.atoms < torch.tensor(features.atom_sizes)).all()
    assert (batch.path_bond < features.bond_kinds).all()


def test_tables_too_small_for_the_codes_are_refused() -> None:
    with pytest.raises(DetError, match=r"model\.column_codes=12: .* up to 120 codes\. Take 120 or more"):
        graph_task(model={"column_codes": 12})


def test_groups_to_predict_fit_into_memory_when_padded() -> None:
    sizes = np.array([*[1] * 1900, 500, *[9] * 2000, 240])
    groups = list(alike(sizes))
    assert np.sort(np.concatenate(groups)).tolist() == list(range(len(sizes)))
    padded = [len(rows) * (int(sizes[rows].max()) + 1) ** 2 for rows in groups]
    assert all(pairs <= PAIRS or len(rows) == 1 for pairs, rows in zip(padded, groups, strict=True))
    assert len(groups) < 8
    assert not list(alike(sizes[:0]))


def test_paths_tell_the_bonds() -> None:
    batch = graph_task(everywhere(["CC=O", "C#N"])).collate(np.array([0, 1]))
    last = dict(zip(batch.path_pair.tolist(), batch.path_bond.tolist(), strict=True))
    before = dict(zip(batch.path_pair.tolist(), batch.path_pair[batch.path_before].tolist(), strict=True))
    single, double, triple = last[4 * 1 + 2], last[4 * 2 + 3], last[16 + 3 * 1 + 2]
    assert len({single, double, triple}) == 3
    assert last[4 * 1 + 3] == double  # from the first atom to the third, by way of the second
    assert before[4 * 1 + 3] == 4 * 1 + 2


@pytest.mark.parametrize("rings", [False, True])
def test_rings_are_read_where_the_model_does(rings: bool) -> None:
    batch = graph_task(everywhere(["C1CC1"]), model={"rings": rings}).collate(np.array([0]))
    assert batch.bond_rings.tolist() == [int(rings)] * 6  # 1 is a ring of three atoms


# --- molecules --------------------------------------------------------------------------------------


def test_the_order_of_atoms_does_not_matter() -> None:
    # Where two shortest paths of unlike bonds join two atoms, one is taken: such rings are left out here.
    smiles = ["CC(=O)OCC#N", "c1ccc(cc1)C(=O)NC", "C1CC1CO", "OC1C=CCC1=O", "[Na+].CC([O-])=O"]
    turned = [
        Chem.MolToSmiles(Chem.MolFromSmiles(text), rootedAtAtom=atom, canonical=False)
        for text in smiles
        for atom in (0, 1, 3)
    ]
    task = rough(graph_task(everywhere(turned)))
    found = task.predict("train").view(len(smiles), 3)
    torch.testing.assert_close(found, found[:, :1].expand(-1, 3), rtol=1e-4, atol=1e-4)
    assert found[:, 0].std() > 0.1


def test_bonds_and_distances_matter() -> None:
    task = rough(graph_task(everywhere(["CCC=O", "CC(C)=O", "C=CCO", "CCCO"])))
    found = task.predict("train")[:, 0]
    assert len(set(found.tolist())) == 4


def test_single_atoms_alone() -> None:
    task = graph_task(everywhere(["C", "O", "N", "[Na+].[Cl-]"]), training={"batch_size": 2})
    assert np.isfinite(train(task, 2)).all()
    assert task.predict("test").isfinite().all()


# --- scale and loss ---------------------------------------------------------------------------------


def test_the_scale_is_that_of_the_training_targets_only() -> None:
    y = targets(2)
    changed = y.copy()
    changed[TRAIN:] = 1000 * changed[TRAIN:] + 7
    one, other = graph_task(molecules(y)), graph_task(molecules(changed))
    for task in (one, other):
        torch.testing.assert_close(task.center, torch.tensor(y[:TRAIN].mean(axis=0), dtype=torch.float))
        torch.testing.assert_close(task.spread, torch.tensor(y[:TRAIN].std(axis=0), dtype=torch.float))
    assert torch.equal(one.center, other.center)
    assert torch.equal(one.spread, other.spread)
    assert train(one, 2) == train(other, 2)
    assert one.evaluate("test") != other.evaluate("test")


def test_the_scale_of_many_numbers_far_from_zero() -> None:
    data = molecules(np.zeros((len(SMILES), 2)))
    many = np.random.default_rng(0).normal(-411, 0.01, (200_000, 2)).astype(np.float32)
    task = graph_task(replace(data, y=many, splits=data.splits | {"train": np.arange(len(many))}))
    np.testing.assert_allclose(task.center, many.astype(np.float64).mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(task.spread, many.astype(np.float64).std(axis=0), rtol=1e-4)


def test_loss_is_the_mean_error_in_units_of_the_spread() -> None:
    task = graph_task(molecules(targets(3)))
    task.eval()
    batch = next(task.batches(0))
    with torch.no_grad():
        predicted = task.model(batch) * task.spread + task.center
        expected = ((predicted - batch.y) / task.spread).abs().mean()
        torch.testing.assert_close(task(batch)["main"], expected)


def test_the_scale_goes_with_the_weights() -> None:
    task, other = graph_task(molecules(targets())), graph_task(molecules(targets(seed=1)))
    other.load_state_dict(task.state_dict())
    assert torch.equal(other.predict("test"), task.predict("test"))


def test_a_constant_target_is_no_division_by_zero() -> None:
    task = graph_task(molecules(np.full((20, 1), 4.0)))
    assert float(task.spread) == 1
    assert np.isfinite(train(task, 1)).all()


def test_mae_by_hand() -> None:
    y = targets(2)
    y[18, 0] = np.nan
    task = graph_task(molecules(y))
    error = np.abs(task.predict("test").numpy() - y[18:])
    each = np.nanmean(error, axis=0)
    expected = {"mae": each.mean(), "mae t0": each[0], "mae t1": each[1]}
    assert task.evaluate("test") == pytest.approx(expected, rel=1e-5)


def test_trivial_is_the_error_of_the_training_median() -> None:
    y = targets()
    y[3] = np.nan  # 15 known ones have one median
    expected = np.abs(y[18:] - np.nanmedian(y[:TRAIN])).mean()
    assert graph_task(molecules(y)).trivial("test") == pytest.approx(expected, rel=1e-5)


# --- missing labels ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_missing_labels_are_ignored(kind: Any) -> None:
    y = targets(2) if kind == "regression" else (targets(2) > 3).astype(float)
    y[:5, 0], y[2:9, 1] = np.nan, np.nan
    task = graph_task(molecules(y, kind=kind), training={"batch_size": 16})
    if kind == "regression":
        torch.testing.assert_close(
            task.center, torch.tensor(np.nanmean(y[:TRAIN], axis=0), dtype=torch.float)
        )
    (batch,) = task.batches(0)
    task.eval()
    with torch.no_grad():
        out = task.model(batch)
        terms: list[Tensor] = []
        for row, column in (~batch.y.isnan()).nonzero().tolist():
            one, truth = out[row, column], batch.y[row, column]
            if kind == "regression":
                terms.append((one - (truth - task.center[column]) / task.spread[column]).abs())
            else:
                terms.append(functional.binary_cross_entropy_with_logits(one, truth))
        assert len(terms) == 32 - 5 - 7
        torch.testing.assert_close(task(batch)["main"], torch.stack(terms).mean())
    assert np.isfinite(train(task, 2)).all()


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_a_batch_without_labels_teaches_nothing(kind: Any) -> None:
    y = (targets() > 3).astype(float)
    y[:4] = np.nan
    task = graph_task(molecules(y, kind=kind))
    loss = task(task.collate(np.arange(4)))["main"]
    torch.autograd.backward(loss)
    assert loss.item() == 0
    assert not any(p.grad.any() for p in task.parameters() if p.grad is not None)


def test_a_split_without_labels_is_not_evaluated() -> None:
    y = targets()
    y[18:] = np.nan
    task = graph_task(molecules(y))
    assert [task.has(split) for split in ("train", "valid", "test")] == [True, True, False]
    data = molecules()
    assert not graph_task(replace(data, splits={**data.splits, "test": np.array([], dtype=int)})).has("test")


def test_a_target_that_is_never_known_is_an_error() -> None:
    y = targets(2)
    y[:TRAIN, 1] = np.nan
    with pytest.raises(DetError, match=r"target 't1' is missing in all 16 training molecules\. Fill it in"):
        graph_task(molecules(y))


def test_no_training_molecule_is_an_error() -> None:
    data = molecules()
    empty = replace(data, splits={**data.splits, "train": np.array([], dtype=np.int64)})
    with pytest.raises(DetError, match="no molecule is in the training split"):
        graph_task(empty)


# --- classification ---------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 3])
def test_classification(columns: int) -> None:
    task = graph_task(classes(columns))
    assert (task.metric, task.higher_is_better) == ("auc", True)
    train(task, 3)
    predicted = task.predict("train")
    assert predicted.shape == (TRAIN, columns)
    assert ((predicted > 0) & (predicted < 1)).all()
    y, found = task.labels("train"), task.evaluate("train")
    aucs = []
    for p, truth in zip(predicted.t(), y.t(), strict=True):  # the share of pairs in the right order
        difference = p[truth == 1][:, None] - p[truth == 0]
        aucs.append(((difference > 0) + 0.5 * (difference == 0)).mean().item())
    assert found["auc"] == pytest.approx(np.mean(aucs), abs=1e-6)
    assert found["accuracy"] == pytest.approx(((predicted > 0.5) == y.bool()).float().mean().item())
    assert task.trivial("test") == 0.5


def test_targets_without_both_classes_are_left_out_of_the_curve() -> None:
    task = graph_task(classes(3))
    predicted = torch.tensor([[0.9, 0.2, 0.3], [0.1, 0.3, 0.4]])
    y = torch.tensor([[1.0, 1.0, torch.nan], [0.0, 1.0, torch.nan]])
    score = task.score(predicted, y)
    assert score["auc"] == score[f"auc {task.data.targets[0]}"] == 1
    assert f"auc {task.data.targets[1]}" not in score
    assert np.isnan(task.score(predicted, y.index_fill(1, torch.tensor(0), torch.nan))["auc"])


# --- it learns --------------------------------------------------------------------------------------


def test_overfits_sixteen_molecules() -> None:
    task = graph_task(molecules(targets()), training={"batch_size": 16})
    train(task, 200, 0.004)
    assert task.evaluate("train")["mae"] < 0.25 * task.trivial("train")


def test_overfits_two_classes() -> None:
    task = graph_task(classes(2), training={"batch_size": 16})
    train(task, 40, 0.01)
    assert task.evaluate("train")["auc"] > 0.9


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_evaluation_ignores_dropout(split: Split) -> None:
    task = graph_task(model={"dropout": 0.5, "attention_dropout": 0.5})
    task.train()
    first = task.predict(split)
    task.train()
    assert torch.equal(task.predict(split), first)


def test_vocabulary_and_description() -> None:
    task = graph_task(molecules(targets(2)))
    assert task.vocabulary() == {"targets": ["t0", "t1"], "kind": "regression", "featurizer": "standard"}
    assert task.describe() == "molecules: 16 / 2 / 2 molecules to train / validate / test, target t0, t1"


def test_padding_is_told_where_batches_are_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    task = graph_task(
        molecules(np.ones((4, 1)), smiles=["C", "CCC", "CCCCC", "CC"]), training={"batch_size": 2}
    )
    monkeypatch.setenv("DETGRAPH_KERNELS", "torch")
    # Sorted by size, with a virtual node each.
    sizes = sorted((task.data.graphs.sizes[task.data.splits["train"]] + 1).tolist())
    pairs = [sizes[start : start + 2] for start in range(0, len(sizes), 2)]
    expected = 1 - sum(sizes) / sum(len(pair) * max(pair) for pair in pairs)
    assert task.padding() == pytest.approx(expected)
    assert task.describe().endswith(f"; {expected:.0%} of a batch is padding")


def test_random_walks_tell_rings_apart() -> None:
    # Rings of 3 and 6 CH2: without walks every atom looks alike to a model without distances.
    data = molecules(np.array([[1.0], [2.0]] * 8), smiles=["C1CC1", "C1CCCCC1"] * 8)
    task = graph_task(data, model={"walk_steps": 4, "readout": "mean"})
    batch = task.collate(np.array([0, 1]))
    back = batch.walks[batch.path_self]
    assert back[0, 2] == pytest.approx(1 / 4)  # after 3 steps: only in the small ring
    assert back[3, 2] == 0
    torch.autograd.backward(task(batch)["main"])
    assert isinstance(task.model, MoleculeDET)
    assert task.model.walk is not None
    assert task.model.walk.weight.grad is not None
    assert task.model.walk.weight.grad.any()
