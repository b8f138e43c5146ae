"""Layer by layer over a large graph: memory for a piece of its nodes at a time."""

import torch
from torch import Tensor

from detgraph.data.feature_rows import take_rows
from detgraph.neighbors.blocks import Sampler
from detgraph.nn import NetworkDET
from detgraph.nn.layer import DualEncoderLayer, LayerOutput
from detgraph.nn.model import Encoded


@torch.no_grad()
def encode_layerwise(model: NetworkDET, x: Tensor | None, sampler: Sampler, rows: int) -> Encoded:
    """What the model gives for the whole graph, with ``rows`` nodes encoded at once.

    Each layer is finished for all nodes before the next one starts, so that no state is computed twice.
    """
    h = model.inputs(x)
    outputs = []
    for depth, layer in enumerate(model.det.layers):
        assert isinstance(layer, DualEncoderLayer)
        inputs = h if depth == 0 else model.det.between(h)
        pieces, states = [], []
        for seeds in torch.split(torch.arange(len(sampler.place)), rows):
            block = sampler.block(seeds, layer.hops, fan_out=None, seed=0)
            nodes = block.nodes.to(inputs.device)
            out = layer.encode(take_rows(inputs, nodes), block.neighborhood.to(inputs.device))
            pieces.append(out.x[: len(seeds)])
            states.append(out.states[: len(seeds)])
        h = torch.cat(pieces)
        outputs.append(LayerOutput(h, torch.cat(states), None, None, None))
    return Encoded(h, outputs)
