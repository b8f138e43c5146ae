"""The semantic encoder: the operators ⊖, the score f_s and the neighbour-fetching loss L_sn."""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from detgraph.nn.neighborhood import Neighborhood

SemanticForm = Literal["l1", "l1_free", "difference", "l2", "dot"]
BiasForm = Literal["z", "f_s", "ln_f_s"]
LossForm = Literal["bce", "paper"]
Metric = Literal["l1", "l2", "dot"]


class SearchSpace(NamedTuple):
    """Vectors in which the nearest neighbours are those with the highest semantic score."""

    vectors: Tensor  # (nodes, dim)
    metric: Metric


class SemanticOperator(nn.Module, ABC):
    r"""A semantic difference :math:`z_{ij} = v_i \ominus v_j` with one weight vector and bias a head.

    Args:
        heads: number of independent scorers.
        channels: size of the states each scorer compares.
    """

    form: ClassVar[str]
    """Its name."""

    def __init__(self, heads: int, channels: int) -> None:
        super().__init__()
        self.heads, self.channels = heads, channels
        self.weight = nn.Parameter(torch.full((heads, channels), self.initial_weight()))
        self.bias = nn.Parameter(torch.zeros(heads))

    def initial_weight(self) -> float:
        """A positive weight of 1/channels: z starts as minus the mean distance. Nothing random is drawn."""
        return math.log(math.expm1(1 / self.channels))  # softplus of it is 1/channels

    def forward(self, states: Tensor, neighborhood: Neighborhood) -> Tensor:
        """``z`` for every pair; states are (..., nodes, heads, channels)."""
        scores = self.scores(states, neighborhood)
        bias = self.bias if scores.dim() == 2 else self.bias[:, None, None]
        return scores + bias

    @abstractmethod
    def scores(self, states: Tensor, neighborhood: Neighborhood) -> Tensor:
        """``z`` without its bias."""

    def search_space(self, states: Tensor) -> SearchSpace | None:
        """Vectors whose nearest neighbours have the highest z (mean over heads), if ⊖ is a metric."""
        return None

    @property
    def positive_weight(self) -> Tensor:
        """``softplus(θ)`` > 0, (heads, channels)."""
        return functional.softplus(self.weight)


class L1(SemanticOperator):
    r"""Weighted L1 distance, :math:`z_{ij} = -\sum_d \mathrm{softplus}(\theta_d)\,|v_i - v_j|_d + b`."""

    form = "l1"

    def scores(self, states: Tensor, neighborhood: Neighborhood) -> Tensor:
        """Minus the distance of the scaled states."""
        scaled = states * self.positive_weight
        return -neighborhood.l1(scaled, scaled)

    def search_space(self, states: Tensor) -> SearchSpace:
        """Scaled states under L1."""
        return SearchSpace((states * self.positive_weight).flatten(-2), "l1")


class L1Free(SemanticOperator):
    r"""L1 with weights of either sign, :math:`z_{ij} = \theta \cdot |v_i - v_j| + b`.

    These are exactly the paper's h+1 numbers. Not a metric: where weights turn positive, the *farthest*
    nodes score highest.
    """

    form = "l1_free"

    def initial_weight(self) -> float:
        """Start as minus the mean distance."""
        return -1 / self.channels

    def scores(self, states: Tensor, neighborhood: Neighborhood) -> Tensor:
        """Distances weighted up minus distances weighted down."""
        toward, away = states * self.weight.relu(), states * (-self.weight).relu()
        return neighborhood.l1(toward, toward) - neighborhood.l1(away, away)


class Difference(SemanticOperator):
    r"""The printed form, :math:`z_{ij} = W_s (v_i - v_j) + b_s`.

    Since :math:`W_s v_i` is the same for all j, every node ranks all others alike: no use for selection.
    """

    form = "difference"

    def initial_weight(self) -> float:
        """Zero would block the gradient of the states."""
        return 1 / self.channels

    def scores(self, states: Tensor, neighborhood: Neighborhood) -> Tensor:
        """``W_s v_i - W_s v_j``."""
        projected = (states * self.weight).sum(dim=-1)
        return neighborhood.outer_sum(projected, -projected)


class L2(SemanticOperator):
    r"""Weighted squared distance, :math:`z_{ij} = -\sum_d \mathrm{softplus}(\theta_d)(v_i - v_j)_d^2 + b`."""

    form = "l2"

    def scores(self, states: Tensor, neighborhood: Neighborhood) -> Tensor:
        """``2 a·b - |a|² - |b|²`` of the scaled states: one matrix product instead of all differences."""
        scaled = states * self.positive_weight.sqrt()
        norm = scaled.square().sum(dim=-1)
        return 2 * neighborhood.dot(scaled, scaled) - neighborhood.outer_sum(norm, norm)

    def search_space(self, states: Tensor) -> SearchSpace:
        """Scaled states under L2."""
        return SearchSpace((states * self.positive_weight.sqrt()).flatten(-2), "l2")


class Dot(SemanticOperator):
    r"""Weighted dot product, :math:`z_{ij} = \sum_d \mathrm{softplus}(\theta_d)\, v_i v_j + b`."""

    form = "dot"

    def initial_weight(self) -> float:
        """Start as the scaled dot product, 1/√channels."""
        return math.log(math.expm1(self.channels**-0.5))

    def scores(self, states: Tensor, neighborhood: Neighborhood) -> Tensor:
        """Dot products of the scaled states."""
        scaled = states * self.positive_weight.sqrt()
        return neighborhood.dot(scaled, scaled)

    def search_space(self, states: Tensor) -> SearchSpace:
        """Scaled states under the largest dot product."""
        return SearchSpace((states * self.positive_weight.sqrt()).flatten(-2), "dot")


SEMANTIC_FORMS: dict[str, type[SemanticOperator]] = {
    operator.form: operator for operator in (L1, L1Free, Difference, L2, Dot)
}


def attention_bias(z: Tensor, form: BiasForm) -> Tensor:
    """The semantic score as it enters attention logits: ``z``, ``f_s = σ(z)`` or ``ln f_s``."""
    if form == "z":
        return z
    return z.sigmoid() if form == "f_s" else functional.logsigmoid(z)


def neighbor_loss(
    positive: Tensor,
    positive_weight: Tensor,
    negative: Tensor,
    negative_weight: Tensor,
    form: LossForm = "bce",
    floor: float = -100.0,
) -> Tensor:
    r"""The neighbour-fetching loss of one layer.

    .. math:: L_{sn} = -\overline{\ln f_s(v_i, v_j)} - \overline{\ln(1 - f_s(v_i, v_k))}

    over connected pairs (i, j) and random distant pairs (i, k). ``form="paper"`` is the printed loss with
    :math:`+\ln f_s` on the negatives: unbounded below, so ``ln f_s`` is cut off at ``floor``.

    Args:
        positive: z of connected pairs, (pairs, heads).
        positive_weight: (pairs,) weights that sum to 1, e.g. 1/(nodes · |N(i)|).
        negative: z of distant pairs, (pairs, heads).
        negative_weight: (pairs,) weights that sum to 1.
        form: ``"bce"`` or ``"paper"``.
        floor: the least value of ``ln f_s`` on negatives in the printed form.
    """
    attract = -(functional.logsigmoid(positive) * positive_weight[:, None]).sum(dim=0)
    if form == "bce":
        repel = -(functional.logsigmoid(-negative) * negative_weight[:, None]).sum(dim=0)
    else:
        repel = (functional.logsigmoid(negative).clamp(min=floor) * negative_weight[:, None]).sum(dim=0)
    return (attract + repel).mean()  # over heads
