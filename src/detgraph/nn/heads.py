"""Read-outs: from node states to one state of the whole graph."""

from typing import Literal

from torch import Tensor

Readout = Literal["virtual", "sum", "mean"]


def read_out(x: Tensor, mask: Tensor, form: Readout) -> Tensor:
    """The state of each graph of a padded batch.

    Args:
        x: (batch, 1 + nodes, channels), the virtual node first.
        mask: (batch, nodes), True = the node exists.
        form: the virtual node's state, or the sum or mean of the real nodes' states.

    Returns:
        (batch, channels)
    """
    if form == "virtual":
        return x[:, 0]
    total = (x[:, 1:] * mask[:, :, None]).sum(dim=1)
    return total if form == "sum" else total / mask.sum(dim=1, keepdim=True)
