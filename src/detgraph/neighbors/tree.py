"""An order of vectors in which near ones mostly stand together."""

from itertools import pairwise

import numpy as np

from detgraph.neighbors.kernels import Floats, Longs, project


def grow_tree(vectors: Floats, leaf: int, random: np.random.Generator) -> tuple[Longs, Longs]:
    """Halve the nodes again and again along the line through two of them, down to ``leaf`` nodes at most.

    Returns:
        All nodes, leaf by leaf, and where the leaves begin: (nodes,) and (leaves + 1,).
    """
    order = random.permutation(len(vectors))
    bounds = np.array([0, len(vectors)])
    place = np.empty(len(vectors), np.float32)
    while np.diff(bounds).max() > leaf:
        # The order within a branch is random at first and arbitrary later, so ends are drawn from all of it.
        ends = order[random.integers(bounds[:-1, None], bounds[1:, None], (len(bounds) - 1, 2))]
        project(vectors, order, bounds, ends, place)
        middles = (bounds[:-1] + bounds[1:]) // 2
        for (begin, end), middle in zip(pairwise(bounds), middles, strict=True):
            order[begin:end] = order[begin:end][np.argpartition(place[begin:end], middle - begin)]
        bounds = np.sort(np.concatenate([bounds, middles]))
    return order, bounds
