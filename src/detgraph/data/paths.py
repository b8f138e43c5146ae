"""Paths through a molecule: shortest ones with the bonds met on the way, and random walks."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import shortest_path


def shortest_paths(
    edge_index: NDArray[np.int64], kinds: NDArray[np.int64], num_nodes: int, max_hops: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Distances and path bonds between all pairs of atoms.

    Args:
        edge_index: (2, edges), both directions.
        kinds: (edges,) kind of each bond.
        num_nodes: number of atoms.
        max_hops: bonds kept of each path.

    Returns:
        ``distance`` (nodes, nodes): bonds between i and j, plus 1; 0 where there is no path.
        ``paths`` (nodes, nodes, hops): kind + 1 of the t-th bond from i toward j, 0 after the end.
    """
    source, target = edge_index
    graph = csr_matrix((np.ones(len(source)), (source, target)), shape=(num_nodes, num_nodes))
    length, before = shortest_path(graph, unweighted=True, directed=False, return_predecessors=True)
    reachable = np.isfinite(length)
    distance = np.where(reachable, np.minimum(length, 253) + 1, 0).astype(np.uint8)
    hops = min(int(length[reachable].max()), max_hops)
    bond = np.zeros((num_nodes, num_nodes), dtype=np.uint8)
    bond[source, target] = kinds + 1

    paths = np.zeros((num_nodes, num_nodes, hops), dtype=np.uint8)
    end = np.arange(num_nodes)[:, None]
    here = np.broadcast_to(np.arange(num_nodes), (num_nodes, num_nodes))  # (end, start): walk start to end
    for hop in range(hops):
        next_ = before[end, here]  # negative once the end is reached
        walking = next_ >= 0
        paths[:, :, hop] = np.where(walking, bond[here, np.maximum(next_, 0)], 0).T
        here = np.where(walking, next_, here)
    return distance, paths


def return_probabilities(edge_index: NDArray[np.int64], num_nodes: int, steps: int) -> NDArray[np.float32]:
    """Chance that a random walk from an atom is back after 1, 2, … steps, (nodes, steps)."""
    step = np.zeros((num_nodes, num_nodes))
    step[edge_index[0], edge_index[1]] = 1
    step /= np.maximum(step.sum(axis=1, keepdims=True), 1)  # a single atom goes nowhere
    chances = np.empty((num_nodes, steps), dtype=np.float32)
    walked = np.eye(num_nodes)
    for count in range(steps):
        walked = walked @ step
        chances[:, count] = walked.diagonal()
    return chances
