"""The operators ⊖, their search spaces, and the neighbour-fetching loss."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from detgraph.neighbors import find_neighbors
from detgraph.neighbors.exact import search_space
from detgraph.nn import Dense
from detgraph.nn.semantic import SEMANTIC_FORMS, SemanticOperator, attention_bias, neighbor_loss

HEADS, CHANNELS = 2, 3
NO_EDGES = torch.empty(2, 0, dtype=torch.long)


def operator_of(form: str) -> SemanticOperator:
    """An operator with random weights and biases, in double precision."""
    operator = SEMANTIC_FORMS[form](HEADS, CHANNELS).double()
    with torch.no_grad():
        for parameter in operator.parameters():
            parameter.normal_()
    return operator


def all_scores(operator: SemanticOperator, states: Tensor) -> Tensor:
    """z of all pairs, (heads, nodes, nodes)."""
    z: Tensor = operator(states[None], Dense.from_mask(torch.ones(1, len(states), dtype=torch.bool)))
    return z[0]


def random_states(nodes: int = 20) -> Tensor:
    return torch.randn(nodes, HEADS, CHANNELS, dtype=torch.double)


@pytest.mark.parametrize("form", ["l1", "l1_free", "l2", "dot"])
def test_z_is_symmetric_but_for_the_printed_form(form: str) -> None:
    z = all_scores(operator_of(form), random_states())
    torch.testing.assert_close(z, z.mT)


def test_the_printed_form_is_antisymmetric_around_its_bias() -> None:
    operator = operator_of("difference")
    z = all_scores(operator, random_states()) - operator.bias[:, None, None]
    torch.testing.assert_close(z, -z.mT)


@pytest.mark.parametrize("form", ["l1", "l2"])
def test_distances_score_at_most_the_bias_and_reach_it_on_the_node_itself(form: str) -> None:
    operator = operator_of(form)
    z = all_scores(operator, random_states())
    bias = operator.bias[:, None, None].detach()
    assert (z <= bias + 1e-12).all()
    torch.testing.assert_close(z.diagonal(dim1=1, dim2=2), operator.bias[:, None].expand(-1, 20))


def test_free_weights_can_prefer_the_farthest() -> None:
    operator = operator_of("l1_free")
    operator.weight.data.abs_()
    z = all_scores(operator, random_states())
    assert (z >= operator.bias[:, None, None]).all()


@pytest.mark.parametrize("form", ["l1", "l1_free", "difference", "l2"])
def test_a_difference_starts_with_weights_of_one_over_channels(form: str) -> None:
    operator = SEMANTIC_FORMS[form](1, 64)
    weight = operator.weight.abs() if form in ("l1_free", "difference") else operator.positive_weight
    torch.testing.assert_close(weight, torch.full((1, 64), 1 / 64))
    assert (operator.bias == 0).all()


def test_a_dot_product_starts_scaled_as_in_attention() -> None:
    torch.testing.assert_close(SEMANTIC_FORMS["dot"](1, 64).positive_weight, torch.full((1, 64), 1 / 8))


@pytest.mark.parametrize("form", ["l1", "l2", "dot"])
def test_the_search_space_orders_nodes_as_mean_z_does(form: str) -> None:
    operator, states = operator_of(form), random_states()
    space = operator.search_space(states)
    assert space is not None
    assert space.metric == form
    vectors = space.vectors
    nearness = (
        vectors @ vectors.t() if form == "dot" else -torch.cdist(vectors, vectors, p=1 + (form == "l2"))
    )
    mean_z = all_scores(operator, states).mean(dim=0)
    assert torch.equal(nearness.argsort(dim=1), mean_z.argsort(dim=1))


@pytest.mark.parametrize("form", ["l1_free", "difference"])
def test_operators_that_are_no_metric_have_no_search_space(form: str) -> None:
    assert operator_of(form).search_space(random_states()) is None


def test_the_printed_form_fetches_the_same_nodes_for_everyone() -> None:
    states, k = random_states(100), 3
    fetched = {}
    for form in ("difference", "l1"):
        found = find_neighbors(search_space(operator_of(form), states), k, NO_EDGES, 100)
        fetched[form] = set(found.flatten().tolist())
    assert len(fetched["difference"]) == k + 1  # one more: a node cannot fetch itself
    assert len(fetched["l1"]) > 50


@pytest.mark.parametrize("form", SEMANTIC_FORMS)
def test_every_operator_fetches_what_its_scores_say(form: str) -> None:
    operator, states = operator_of(form), random_states(50)
    scores = all_scores(operator, states).mean(dim=0).detach()
    by_scores = find_neighbors(lambda rows: scores[rows], 4, NO_EDGES, 50)
    assert torch.equal(find_neighbors(search_space(operator, states), 4, NO_EDGES, 50), by_scores)


def test_bias_forms() -> None:
    z = torch.tensor([-200.0, -1.0, 0.0, 3.0])
    assert attention_bias(z, "z") is z
    torch.testing.assert_close(attention_bias(z, "f_s"), 1 / (1 + torch.exp(-z)))
    ln = attention_bias(z, "ln_f_s")
    torch.testing.assert_close(ln, torch.tensor([-200.0, -1.313262, -math.log(2), -0.048587]))


# L_sn


def test_loss_equals_its_equation_in_both_forms() -> None:
    positive, negative = torch.randn(4, HEADS), torch.randn(3, HEADS)
    positive_weight, negative_weight = torch.tensor([0.5, 0.25, 0.125, 0.125]), torch.tensor([0.2, 0.3, 0.5])
    total = {"bce": 0.0, "paper": 0.0}
    for head in range(HEADS):
        for weight, z in zip(positive_weight.tolist(), positive[:, head].tolist(), strict=True):
            for form in total:
                total[form] -= weight * math.log(1 / (1 + math.exp(-z))) / HEADS
        for weight, z in zip(negative_weight.tolist(), negative[:, head].tolist(), strict=True):
            total["bce"] -= weight * math.log(1 - 1 / (1 + math.exp(-z))) / HEADS
            total["paper"] += weight * math.log(1 / (1 + math.exp(-z))) / HEADS
    for form, expected in total.items():
        name: Any = form
        loss = neighbor_loss(positive, positive_weight, negative, negative_weight, name)
        assert loss.item() == pytest.approx(expected, rel=1e-5)


def descend(form: Any, floor: float) -> tuple[Tensor, Tensor]:
    """Gradient descent on free states: the least loss met, and the states' spread at the end."""
    operator = SEMANTIC_FORMS["l1"](1, CHANNELS)
    states = torch.randn(6, 1, CHANNELS, requires_grad=True)
    near, far = torch.tensor([[0, 1], [2, 3], [4, 5]]), torch.tensor([[0, 2], [1, 4], [3, 5], [2, 4]])
    optimizer = torch.optim.Adam([states], lr=1.0)
    losses = []
    for _ in range(150):
        z = all_scores(operator, states)[0]  # (nodes, nodes)
        positive, negative = z[near[:, 0], near[:, 1]], z[far[:, 0], far[:, 1]]
        loss = neighbor_loss(
            positive[:, None],
            torch.full((3,), 1 / 3),
            negative[:, None],
            torch.full((4,), 1 / 4),
            form,
            floor,
        )
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).min(), states.detach().std()


def test_the_printed_loss_has_no_lower_bound() -> None:
    least, _ = descend("paper", -torch.inf)
    assert least < -50


def test_the_printed_loss_is_held_by_its_floor_and_bce_by_zero() -> None:
    least, _ = descend("paper", -5.0)
    assert -5.0 <= least < -4.0
    least, _ = descend("bce", -torch.inf)
    assert 0 <= least < functional.softplus(torch.zeros(())) * 2  # better than knowing nothing


def test_loss_of_no_pairs_is_zero() -> None:
    nothing, no_weight = torch.empty(0, HEADS, requires_grad=True), torch.empty(0)
    loss = neighbor_loss(nothing, no_weight, nothing, no_weight)
    torch.autograd.backward(loss)
    assert loss == 0
