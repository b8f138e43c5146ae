"""Counting who is ahead of an answer, in one pass over its scores."""

from typing import Any

import numpy as np
from numba import njit, prange

from detgraph.kernels.lanes import Array

OPTIONS: dict[str, Any] = {"parallel": True, "cache": True, "error_model": "numpy"}


@njit(**OPTIONS)
def count_rivals(
    scores: Array, row: Array, answer: Array, start: Array, known: Array, better: Array, equal: Array
) -> None:
    """How many entities score better than each answer, and how many others as well.

    Args:
        scores: (rows, entities).
        row: (answers,) the row of scores an answer is ranked in.
        answer: (answers,) entities.
        start: (answers + 1,) where the known answers of each row begin in ``known``.
        known: entities that do not compete.
        better: (answers,) filled.
        equal: (answers,) filled.
    """
    for a in prange(len(answer)):
        own_row = scores[row[a]]
        own = own_row[answer[a]]
        ahead, same = 0, 0
        for entity in range(len(own_row)):
            ahead += own_row[entity] > own
            same += own_row[entity] == own
        same -= 1  # itself
        for at in range(start[a], start[a + 1]):
            if known[at] != answer[a]:
                ahead -= own_row[known[at]] > own
                same -= own_row[known[at]] == own
        better[a], equal[a] = ahead, same


def rivals(scores: Array, row: Array, answer: Array, start: Array, known: Array) -> tuple[Array, Array]:
    """`count_rivals` into new arrays."""
    better, equal = np.empty(len(answer), np.int64), np.empty(len(answer), np.int64)
    count_rivals(scores, row, answer, start, known, better, equal)
    return better, equal
