"""An approximate search for large graphs: trees whose leaves are scanned, then neighbours of neighbours.

Each tree halves the nodes again and again along the line through two of them; near nodes mostly end in one
leaf, and what one tree cuts apart another keeps together. The cost grows like n log n.
"""

import numpy as np
import torch
from torch import Tensor

from detgraph.kernels.lanes import use_threads
from detgraph.neighbors.exact import Exclusions
from detgraph.neighbors.kernels import compare_groups, compare_with_theirs
from detgraph.neighbors.scan import compare_all, empty_lists, make_space
from detgraph.neighbors.tree import grow_tree
from detgraph.nn.semantic import Metric

TREES = 6
LEAF = 1500  # nodes of a leaf at most
FEWEST_KEPT = 12  # candidates that a node keeps meanwhile: short lists of neighbours lead nowhere


def forest_search(vectors: Tensor, metric: Metric, k: int, excluded: Exclusions) -> Tensor:
    """Near nodes of each node that are not excluded, (nodes, k), -1 where there are fewer."""
    use_threads(vectors.numel() * len(vectors))
    space, nearest = make_space(vectors, metric), empty_lists(max(k, FEWEST_KEPT), excluded)
    random = np.random.default_rng(0)
    for _ in range(TREES):
        order, leaves = grow_tree(space.vectors, LEAF, random)
        compare_groups(space, nearest, order, leaves, order[:0])
    everyone = np.arange(len(vectors))
    if metric == "dot":  # long vectors are near to nodes of every leaf
        longest = np.argsort(-np.square(space.vectors).sum(axis=1), kind="stable")[:LEAF]
        compare_all(space, nearest, everyone, longest)
    compare_with_theirs(space, nearest, nearest.nodes.copy())
    found = torch.from_numpy(nearest.nodes)[:, :k]
    # A node that is connected to all of its leaves (a hub) is compared with all nodes.
    short = (found >= 0).sum(dim=1) < (len(vectors) - excluded.count).clamp(max=k)
    compare_all(space, nearest, short.nonzero()[:, 0].numpy(), everyone)
    return found.long()
