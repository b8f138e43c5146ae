"""Shared by all tests: one thread, fixed seeds, a small random graph with awkward nodes."""

import signal
import warnings

import pytest
import torch
from torch import Tensor

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch_geometric  # noqa: F401 - (its import uses what torch has since deprecated)

    torch.eye(1).to_sparse_csr()  # torch says once a process that CSR is in beta

torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background of a shell ignore it


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def edge_index() -> Tensor:
    """12 nodes, undirected: node 0 is a hub, node 11 is isolated, node 3 has a self-loop; (2, edges)."""
    generator = torch.Generator().manual_seed(1)
    pairs = torch.triu(torch.rand(11, 11, generator=generator) < 0.15, diagonal=1)
    pairs[0, 1:8] = True
    source, target = pairs.nonzero().t()
    loop = torch.tensor([3])
    return torch.stack([torch.cat([source, target, loop]), torch.cat([target, source, loop])])
