"""What every operator ⊖ and every structural score must offer, also one that is added tomorrow."""

import importlib.util
import itertools
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from detgraph.nn import DualEncoding, NetworkDET, Sparse
from detgraph.nn.layer import MutualBias
from detgraph.nn.neighborhood import SemanticSet
from detgraph.nn.network import sample_distant
from detgraph.nn.semantic import SEMANTIC_FORMS, BiasForm, SemanticForm
from detgraph.nn.structural import STRUCTURAL_FORMS, StructuralForm

FORMS: list[Any] = [*SEMANTIC_FORMS.values(), *STRUCTURAL_FORMS.values()]


def test_names_are_those_of_the_types() -> None:
    assert set(SEMANTIC_FORMS) == set(get_args(SemanticForm))
    assert set(STRUCTURAL_FORMS) == set(get_args(StructuralForm))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_docstring_holds_the_equation(form: Any) -> None:
    assert ":math:`" in form.__dict__["__doc__"]  # its own, not inherited
    assert "_i" in form.__doc__


@pytest.mark.parametrize("structural", STRUCTURAL_FORMS)
@pytest.mark.parametrize("semantic", SEMANTIC_FORMS)
def test_trains_every_parameter(semantic: Any, structural: Any, edge_index: torch.Tensor) -> None:
    encoding = DualEncoding(semantic=semantic, structural=structural)
    model = NetworkDET(features=6, classes=3, head_channels=4, heads=2, encoding=encoding)
    x, y = torch.randn(12, 6), torch.arange(12) % 3
    pairs = Sparse.from_edges(edge_index, 12, torch.tensor([[11, 10, 8], [0, 11, 9]]))
    negative = sample_distant(pairs, torch.Generator().manual_seed(0))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(15):
        encoded = model(x, pairs)
        loss = torch.nn.functional.cross_entropy(encoded.x, y)
        loss = loss + 0.1 * model.neighbor_loss(encoded, pairs, negative)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        missed = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
        assert missed == []
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_every_form_is_compared_with_the_slow_reference() -> None:
    path = Path(__file__).parents[1] / "nn" / "test_layer.py"
    spec = importlib.util.spec_from_file_location("layer_cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    everything = itertools.product(
        get_args(SemanticForm),
        get_args(StructuralForm),
        get_args(BiasForm),
        get_args(MutualBias),
        get_args(SemanticSet),
    )
    marks = module.test_layer_equals_the_slow_reference_in_value_and_gradients.pytestmark
    (cases,) = [mark.args[1] for mark in marks if mark.name == "parametrize"]
    assert set(cases) == set(everything)
