"""Structural scores: each form against one plain pair, and what sets the forms apart."""

import pytest
import torch
from reference import structural_score
from torch import nn

from detgraph.nn import Dense
from detgraph.nn.structural import STRUCTURAL_FORMS, DotScores, LinearScores

NODES, HEADS, CHANNELS = 4, 2, 3
PAIRS = Dense.from_mask(torch.ones(1, NODES, dtype=torch.bool))


@pytest.mark.parametrize("form", STRUCTURAL_FORMS)
def test_scores_equal_the_equation_with_separate_query_and_key(form: str) -> None:
    scores = STRUCTURAL_FORMS[form](HEADS, CHANNELS)
    weights = {name.rsplit(".", 1)[-1]: value for name, value in scores.named_parameters()}
    query, key = torch.randn(2, NODES, HEADS, CHANNELS)
    out = scores(query[None], key[None], PAIRS)
    for head in range(HEADS):
        a = weights["query_weight"][head] if weights else None
        b = weights["key_weight"][head] if weights else None
        for i in range(NODES):
            for j in range(NODES):
                expected = structural_score(form, query[i, head], key[j, head], a, b)
                torch.testing.assert_close(out[0, head, i, j], expected)


def test_dot_scores_have_no_parameters_and_keep_unit_variance() -> None:
    scores = DotScores(1, 256)
    assert not list(scores.parameters())
    pairs = Dense.from_mask(torch.ones(1, 100, dtype=torch.bool))
    query, key = torch.randn(2, 1, 100, 1, 256)
    assert 0.9 < scores(query, key, pairs).std() < 1.1


def test_linear_scores_are_those_of_a_concatenation() -> None:
    scores = LinearScores(1, CHANNELS)
    query, key = torch.randn(2, NODES, CHANNELS)
    both = torch.cat([scores.query_weight[0], scores.key_weight[0]])  # GAT's b
    pairs = torch.cat([query[:, None].expand(-1, NODES, -1), key[None].expand(NODES, -1, -1)], dim=-1)
    expected = nn.LeakyReLU(0.2)(pairs @ both)
    out = scores(query[None, :, None], key[None, :, None], PAIRS)
    torch.testing.assert_close(out[0, 0], expected)
