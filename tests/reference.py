"""One plain dual-encoder layer in plain loops, written from its equations: slow, and plainly right.

It takes a node at a time, a head at a time, a pair at a time, and uses Python sets for the sets.
Autograd through the loops gives the reference gradients.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

Sets = list[set[int]]


class Weights(NamedTuple):
    """The numbers of one layer; those that a form does not have are None."""

    project: Tensor  # (heads * channels, features)
    bias: Tensor  # (heads * channels,)
    theta: Tensor  # (heads, channels) of ⊖
    offset: Tensor  # (heads,) of ⊖
    query: Tensor | None = None  # (heads, channels) of the linear and the mixed structural score
    key: Tensor | None = None


def neighbor_sets(edge_index: Tensor, num_nodes: int) -> Sets:
    """N(i) of every node, without i; edges are (source, target) and i attends to its sources."""
    sets: Sets = [set() for _ in range(num_nodes)]
    for source, target in edge_index.t().tolist():
        if source != target:
            sets[target].add(source)
    return sets


def semantic_score(form: str, a: Tensor, b: Tensor, theta: Tensor, offset: Tensor) -> Tensor:
    """``z_ij = a ⊖ b`` of two states (channels,)."""
    positive = torch.log1p(torch.exp(theta))
    if form == "l1":
        return -(positive * (a - b).abs()).sum() + offset
    if form == "l1_free":
        return (theta * (a - b).abs()).sum() + offset
    if form == "difference":
        return (theta * (a - b)).sum() + offset
    if form == "l2":
        return -(positive * (a - b) ** 2).sum() + offset
    assert form == "dot"
    return (positive * a * b).sum() + offset


def structural_score(form: str, a: Tensor, b: Tensor, query: Tensor | None, key: Tensor | None) -> Tensor:
    """The structural score of two states (channels,)."""
    dot = (a * b).sum() / math.sqrt(len(a))
    if form == "dot":
        return dot
    assert query is not None
    assert key is not None
    linear = functional.leaky_relu((query * a).sum() + (key * b).sum(), 0.2)
    if form == "linear":
        return linear
    assert form == "mixed"
    return linear * torch.sigmoid(dot)


def as_bias(z: Tensor, form: str) -> Tensor:
    """``s_ij``: z, f_s or ln f_s."""
    return {"z": z, "f_s": torch.sigmoid(z), "ln_f_s": -torch.log1p(torch.exp(-z))}[form]


def weighted_mean(logits: dict[int, Tensor], values: Tensor) -> Tensor:
    """``Σ_j softmax_j(logits) values_j``."""
    largest = max(logit.item() for logit in logits.values())  # exp must not overflow
    powers = {j: torch.exp(logit - largest) for j, logit in logits.items()}
    total = torch.stack(list(powers.values())).sum()
    return torch.stack([power / total * values[j] for j, power in powers.items()]).sum(dim=0)


def dual_layer(
    x: Tensor,
    near: Sets,
    fetched: Sets,
    weights: Weights,
    *,
    heads: int,
    tau: float,
    semantic: str,
    structural: str,
    semantic_bias: str,
    mutual_bias: str,
    semantic_set: str,
) -> Tensor:
    """``h_i = τ·h_st + (1 - τ)·h_se`` with concatenated heads, (nodes, heads * channels)."""
    states = (x @ weights.project.t()).view(len(x), heads, -1)
    rows = []
    for i in range(len(x)):
        for head in range(heads):
            v = states[:, head]  # (nodes, channels)
            query = None if weights.query is None else weights.query[head]
            key = None if weights.key is None else weights.key[head]
            structural_members = {i} | near[i]
            semantic_members = {i} | fetched[i] | (near[i] if semantic_set == "union" else set())
            q, s = {}, {}
            for j in structural_members | semantic_members:
                z = semantic_score(semantic, v[i], v[j], weights.theta[head], weights.offset[head])
                s[j] = as_bias(z, semantic_bias)
                q[j] = structural_score(structural, v[i], v[j], query, key)
            biased = mutual_bias in ("both", "to_structural")
            h_st = weighted_mean({j: q[j] + s[j] if biased else q[j] for j in structural_members}, v)
            biased = mutual_bias in ("both", "to_semantic")
            h_se = weighted_mean({j: s[j] + q[j] if biased else s[j] for j in semantic_members}, v)
            rows.append(tau * h_st + (1 - tau) * h_se)
    return torch.cat(rows).view(len(x), -1) + weights.bias
