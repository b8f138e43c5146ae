"""Whether the fused kernels or plain torch do the work."""

import os

import torch
from torch import Tensor

from detgraph.errors import DetError

VARIABLE = "DETGRAPH_KERNELS"


def fused_on(x: Tensor) -> bool:
    """Fused kernels work on 32-bit CPU tensors; ``DETGRAPH_KERNELS=torch`` forces the reference."""
    wanted = os.environ.get(VARIABLE, "auto")
    if wanted not in ("auto", "torch"):
        raise DetError(
            f"{VARIABLE}={wanted} is not known: take auto (fused kernels on CPU) or torch (reference)."
        )
    return wanted == "auto" and x.device.type == "cpu" and x.dtype == torch.float32
