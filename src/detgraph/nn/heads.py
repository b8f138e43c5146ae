"""Read-outs: from node states to one state of the whole graph."""

from typing import Literal

import torch
from torch import Tensor

Readout = Literal["virtual", "sum", "mean"]


def read_out(x: Tensor, graph: Tensor, graphs: int, form: Literal["sum", "mean"]) -> Tensor:
    """Sum or mean of the nodes of each graph.

    Args:
        x: (nodes, channels).
        graph: (nodes,) the graph each node belongs to.
        graphs: how many graphs there are.
        form: sum or mean.

    Returns:
        (graphs, channels)
    """
    total = x.new_zeros((graphs, x.size(1))).index_add(0, graph, x)
    if form == "sum":
        return total
    return total / torch.bincount(graph, minlength=graphs)[:, None]
