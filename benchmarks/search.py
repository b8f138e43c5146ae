"""The search for semantic neighbours beside FAISS's flat L1 index."""

from typing import Any

import faiss
import torch
from timing import in_turns
from torch import Tensor

from detgraph.neighbors import find_neighbors
from detgraph.nn.semantic import SearchSpace

NODES, DIM, K = 20_000, 64, 16
REPEATS = 5
BAR = 1 / 3  # ours / FAISS at most
RECALL = 0.99
NO_EDGES = torch.empty(2, 0, dtype=torch.long)


def clustered_vectors(centers: int = 60) -> Tensor:
    """As trained states are: classes, far from each other."""
    generator = torch.Generator().manual_seed(0)
    middle = 3 * torch.randn(centers, DIM, generator=generator)
    member = torch.randint(centers, (NODES,), generator=generator)
    return middle[member] + 0.5 * torch.randn(NODES, DIM, generator=generator)


def neighbor_refresh() -> dict[str, Any]:
    vectors = clustered_vectors()
    space, array = SearchSpace(vectors, "l1"), vectors.numpy()
    faiss.omp_set_num_threads(torch.get_num_threads())
    index = faiss.IndexFlat(DIM, faiss.METRIC_L1)
    index.add(array)
    found = find_neighbors(space, K, NO_EDGES, NODES)
    nearest = torch.from_numpy(index.search(array, K + 1)[1])  # with the node itself
    recall = float((found[:, :, None] == nearest[:, None, :]).any(dim=2).float().mean())
    figure = in_turns(
        lambda: find_neighbors(space, K, NO_EDGES, NODES), lambda: index.search(array, K + 1), REPEATS, BAR
    )
    return {**figure, "recall": round(recall, 5), "holds": recall >= RECALL}
