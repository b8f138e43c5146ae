"""Where a network's features enter a model: dropout and a linear map, of dense or sparse features."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from detgraph.kernels.sparse_linear import sparse_linear


class InputLinear(nn.Linear):
    """Dropout, then a linear map of (nodes, features), dense or sparse CSR.

    Of sparse features only the stored values are dropped and kept.
    """

    def __init__(self, features: int, channels: int, *, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(features, channels, bias)
        self.dropout = dropout

    @override
    def forward(self, input: Tensor) -> Tensor:
        rate = self.dropout if self.training else 0.0
        if input.layout != torch.sparse_csr:
            return functional.linear(functional.dropout(input, rate), self.weight, self.bias)
        out = sparse_linear(input, self.weight, rate)
        return out if self.bias is None else out + self.bias
