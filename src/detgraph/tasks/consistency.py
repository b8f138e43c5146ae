"""Consistency of several views: unlabelled nodes are to be predicted alike whatever was dropped."""

import torch
from torch import Tensor


def consistency_loss(logits: list[Tensor], temperature: float, *, multi_label: bool) -> Tensor:
    r"""Squared distance of each view's prediction to the views' sharpened mean.

    .. math:: L_c = \frac{1}{V n} \sum_v \sum_i \| p_i^v - \mathrm{sharp}(\bar p_i) \|^2,
        \quad \mathrm{sharp}(p)_c = p_c^{1/T} / \textstyle\sum_{c'} p_{c'}^{1/T}

    The mean is a fixed aim: no gradient flows into it. Of many labels, each has a yes and a no.

    Args:
        logits: (nodes, classes) of each view.
        temperature: T; the smaller, the surer the aim.
        multi_label: whether classes are independent labels.
    """
    scores = torch.stack(logits)  # (views, nodes, classes)
    if multi_label:
        scores = torch.stack([scores, torch.zeros_like(scores)], dim=-1)
    likely = scores.softmax(dim=-1)
    with torch.no_grad():
        sharp = likely.mean(dim=0).pow(1 / temperature)
        aim = sharp / sharp.sum(dim=-1, keepdim=True)
    per_node = (likely - aim).square().sum(dim=-1)
    return per_node.mean()
