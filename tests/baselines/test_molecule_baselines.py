"""Baselines on molecules: sizes, invariance, batches, learning, and settings without an effect."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import molecules
from molecule_batches import FEATURES, batch_of, random_molecule, shuffled
from torch_geometric.utils import degree as bonds_of

from detgraph.baselines.molecules import MODELS, SAN, BondAttention, build_molecule_model, laplacian
from detgraph.config import GraphConfig, load_config, parse_config
from detgraph.config.baselines import MOLECULE_BASELINES, MoleculeBaseline
from detgraph.data.featurizers import get_featurizer
from detgraph.errors import DetError
from detgraph.recipes import recipe_path
from detgraph.studies.models import model_config, model_names
from detgraph.tasks import GraphTask

every_model = pytest.mark.parametrize("name", MOLECULE_BASELINES)


def small(name: Any, **options: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    heads = {"heads": 4} if name in ("gat", "gt", "san", "gps") else {}
    config = MoleculeBaseline(name=name, channels=16, layers=2, **heads, **options)
    return build_molecule_model(config, FEATURES, targets=2)


def test_all_are_there() -> None:
    assert set(MODELS) == set(MOLECULE_BASELINES)


@every_model
def test_recipes_have_about_500_000_parameters(name: str) -> None:
    config = load_config(recipe_path(f"graph/baselines/{name}"))
    assert isinstance(config, GraphConfig)
    assert config.baseline is not None
    model = build_molecule_model(config.baseline, get_featurizer("zinc"), 1)
    assert 440_000 < sum(parameter.numel() for parameter in model.parameters()) <= 500_000


@every_model
def test_the_order_of_atoms_does_not_matter(name: str) -> None:
    # Eigenvectors have an arbitrary sign: gt and san know atoms up to that, so they read none here.
    one = random_molecule(7, seed=3)
    model = small(name).eval()
    if name in ("gt", "san"):
        torch.nn.init.zeros_(model.position.weight)  # type: ignore[union-attr, arg-type]  # a linear map
    batches = [batch_of([molecule], 20) for molecule in (one, shuffled(one))]
    torch.testing.assert_close(model(batches[1]), model(batches[0]), rtol=1e-4, atol=1e-5)


@every_model
def test_a_batch_predicts_what_each_molecule_predicts_alone(name: str) -> None:
    several = [random_molecule(size, seed=size) for size in (5, 1, 9)]
    model = small(name).eval()
    out = model(batch_of(several, 20))
    assert out.shape == (3, 2)
    alone = torch.cat([model(batch_of([molecule], 20)) for molecule in several])
    torch.testing.assert_close(out, alone, rtol=1e-4, atol=1e-5)


@every_model
def test_learns_a_handful_by_heart(name: str) -> None:
    heads = {"heads": 4} if name in ("gat", "gt", "san", "gps") else {}
    config = parse_config(
        {
            "task": "graph",
            "data": {"name": "tiny"},
            "baseline": {"name": name, "channels": 32, "layers": 3, **heads},
            "training": {"batch_size": 16},
        }
    )
    assert isinstance(config, GraphConfig)
    torch.manual_seed(0)
    task = GraphTask(molecules(), config)
    optimizer = torch.optim.Adam(task.parameters(), lr=0.01)
    task.train()
    losses = []
    for epoch in range(80):
        for batch in task.batches(epoch):
            loss = task(batch)["main"]
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            losses.append(loss.item())
    assert np.mean(losses[-5:]) < 0.25 * np.mean(losses[:5])
    assert np.isfinite(task.evaluate("valid")["mae"])


@torch.no_grad()
def test_attention_of_gt_pair_by_pair() -> None:
    torch.manual_seed(0)
    attention, heads, size = BondAttention(channels=8, heads=2), 2, 4
    x, bonds = torch.randn(4, 8), torch.randn(5, 8)
    edges = torch.tensor([[1, 2, 3, 0, 0], [0, 0, 0, 1, 2]])  # nobody points at the last atom
    atoms, pairs = attention(x, edges, bonds)
    query, key, value = attention.project(x).view(4, 3, heads, size).unbind(1)
    expected = torch.zeros(4, heads, size)
    for i in range(4):
        into = [edge for edge in range(5) if edges[1, edge] == i]
        for head in range(heads):
            scores = []
            for edge in into:
                bond = attention.bond(bonds[edge]).view(heads, size)[head]
                scores.append((query[i, head] * key[edges[0, edge], head] * bond).sum() / 2)
            for edge, weight in zip(into, torch.tensor(scores).softmax(0), strict=True):
                expected[i, head] += weight * value[edges[0, edge], head]
    torch.testing.assert_close(atoms, attention.out(expected.flatten(1)))
    one = (query[1] * key[0] * attention.bond(bonds[3]).view(heads, size) / 2).flatten()
    torch.testing.assert_close(pairs[3], attention.bond_out(one))


@torch.no_grad()
def test_san_attends_to_connected_atoms_by_their_bonds_and_hardly_to_others() -> None:
    model = small("san", readout="sum").eval()
    assert isinstance(model, SAN)
    seen: list[torch.Tensor] = []
    model.outputs[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    inputs: list[torch.Tensor] = []
    model.projections[0].register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    batch = batch_of([random_molecule(4, seed=1), random_molecule(6, seed=2)], 20)
    model(batch)
    first, gamma = 4, model.gamma  # the second molecule begins there
    parts = model.projections[0](inputs[0]).view(10, 5, 4, 4).unbind(1)
    pair_bond = model.pair_bonds[0](model.bonds(batch)).view(-1, 4, 4)
    edges = batch.bonds - 2 + (batch.bonds < 5).long()  # less the virtual nodes before
    for i, head in product(range(first, 10), range(4)):
        query, key, value, other_query, other_key = (part[:, head] for part in parts)
        bond = {s: e for e, (s, t) in enumerate(edges.T.tolist()) if t == i}
        others = [j for j in range(first, 10) if j not in bond]
        near = [(query[i] * key[j] * (1 + pair_bond[e, head])).sum() / 2 for j, e in bond.items()]
        far = [(other_query[i] * other_key[j]).sum() / 2 for j in others]
        expected = torch.tensor(near).softmax(0) @ value[list(bond)]
        expected += gamma * (torch.tensor(far).softmax(0) @ value[others])
        attended = seen[0][i, 4 * head : 4 * head + 4]
        torch.testing.assert_close(attended, expected / (1 + gamma), rtol=1e-4, atol=1e-5)


def test_eigenvectors_are_those_of_the_laplacian() -> None:
    batch = batch_of([random_molecule(6, seed=1), random_molecule(3, seed=2)])
    atoms = torch.empty(int(batch.sizes.sum()), dtype=torch.long)
    atoms[batch.node] = torch.arange(len(batch.node))
    vectors, exists = laplacian(atoms[batch.bonds], batch)
    assert exists.sum(dim=1).tolist() == [6, 3]
    assert (vectors[1, 3:, :3].abs() < 1e-5).all()  # nothing where there is no atom
    # The first one is that of the eigenvalue 0: the roots of the degrees.
    degree = batch.degree[:6].float().sqrt()
    torch.testing.assert_close(vectors[0, :, 0].abs(), degree / degree.norm(), rtol=1e-4, atol=1e-4)


def test_pna_knows_the_degrees_of_training_atoms() -> None:
    data = molecules(smiles=["CC=O", "C#N", "c1ccccc1C(F)(F)F", "[He]"])
    data = replace(data, splits={split: np.arange(4) for split in data.splits})
    graphs = data.graphs
    expected = torch.zeros(5, dtype=torch.long)
    for graph in (graphs[0], graphs[2], graphs[3]):
        assert graph.edge_index is not None
        expected += torch.bincount(bonds_of(graph.edge_index[0], graph.num_nodes).long(), minlength=5)
    assert graphs.degrees(np.array([3, 0, 2])).tolist() == expected.tolist() == [1, 5, 6, 1, 1]
    config = parse_config({"task": "graph", "data": {"name": "zinc"}, "baseline": {"name": "pna"}})
    assert isinstance(config, GraphConfig)
    task = GraphTask(data, config)
    buffers = [tensor for name, tensor in task.state_dict().items() if name.endswith("avg_deg_lin")]
    bonds = sum(graph.num_edges for graph in graphs)
    assert buffers
    for mean in buffers:  # saved with the weights
        assert float(mean) == pytest.approx(bonds / sum(graph.num_nodes for graph in graphs))


def test_they_stand_behind_the_call_of_det(tmp_path: Path) -> None:
    recipe = recipe_path("graph/zinc")
    assert set(MOLECULE_BASELINES) < set(model_names(load_config(recipe)))
    assert model_config(recipe, "pna") == load_config(recipe_path("graph/baselines/pna"))
    own = tmp_path / "own.yaml"
    own.write_text("task: graph\ndata: {file: mine.csv, targets: [y]}\n")
    config = model_config(own, "gin")
    assert isinstance(config, GraphConfig)
    assert config.data.targets == ("y",)


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        ({"name": "gcn", "heads": 4}, "baseline.heads has no effect"),
        ({"name": "gat", "channels": 20, "heads": 8}, "multiple of baseline.heads"),
        ({"name": "gin", "chanels": 20}, "channels"),
        ({"name": "ginn"}, "gin"),
    ],
)
def test_mistakes(baseline: dict[str, Any], message: str) -> None:
    with pytest.raises(DetError, match=message):
        parse_config({"task": "graph", "data": {"name": "zinc"}, "baseline": baseline})
    with pytest.raises(DetError, match="model has no effect"):
        parse_config(
            {"task": "graph", "data": {"name": "zinc"}, "baseline": {"name": "gcn"}, "model": {"layers": 3}}
        )
