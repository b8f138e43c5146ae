"""The pairs of a sparse neighbourhood as the kernels read them: by target and by source."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from torch import Tensor

from detgraph.kernels.lanes import Array

CHUNKS = 64  # pieces of work with about the same number of pairs


@dataclass(frozen=True)
class PairIndex:
    """CSR of the pairs by attending node, and the way to read them by attended node."""

    start: Array  # (nodes + 1,) first pair of each target
    target: Array  # (pairs,) int32, ascending
    source: Array  # (pairs,) int32
    chunks: Array  # (CHUNKS + 1,) targets, cut so that pieces are alike in pairs
    slot: Array  # (pairs,) int32: place of each pair in order of source
    by_source_start: Array  # (nodes + 1,) first slot of each source
    by_source_target: Array  # (pairs,) int32: targets in order of source
    by_source_chunks: Array  # (CHUNKS + 1,)

    @classmethod
    def build(cls, target: Tensor, source: Tensor, num_nodes: int) -> "PairIndex":
        """Index pairs that are sorted by target."""
        targets, sources = target.numpy().astype(np.int32), source.numpy().astype(np.int32)
        start, slot, by_source_start, by_source_target = _index(targets, sources, num_nodes)
        return cls(
            start,
            targets,
            sources,
            _cut(start),
            slot,
            by_source_start,
            by_source_target,
            _cut(by_source_start),
        )


def _cut(start: Array) -> Array:
    """Rows where each of the CHUNKS pieces begins, and the end."""
    rows = np.searchsorted(start, np.linspace(0, start[-1], CHUNKS + 1))
    rows[0], rows[-1] = 0, len(start) - 1
    return rows


@njit(cache=True)
def _index(target: Array, source: Array, num_nodes: int) -> Any:
    """Counting sort, linear in pairs and nodes; pairs of one source stay in order."""
    start = np.zeros(num_nodes + 1, np.int64)
    by_source_start = np.zeros(num_nodes + 1, np.int64)
    for p in range(len(target)):
        start[target[p] + 1] += 1
        by_source_start[source[p] + 1] += 1
    for i in range(num_nodes):
        start[i + 1] += start[i]
        by_source_start[i + 1] += by_source_start[i]
    following = by_source_start.copy()
    slot, by_source_target = np.empty(len(source), np.int32), np.empty(len(source), np.int32)
    for p in range(len(source)):
        slot[p] = following[source[p]]
        by_source_target[slot[p]] = target[p]
        following[source[p]] += 1
    return start, slot, by_source_start, by_source_target
