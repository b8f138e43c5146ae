"""Two pieces of work in turns."""

import statistics
import time
from collections.abc import Callable
from typing import Any


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turns(ours: Callable[[], Any], peer: Callable[[], Any], repeats: int, bar: float) -> dict[str, Any]:
    """Medians of both and of the ratios of neighbouring turns, after one turn each to warm up."""
    ours()
    peer()
    turns = [(seconds(ours), seconds(peer)) for _ in range(repeats)]
    return {
        "ours": round(statistics.median(mine for mine, _ in turns), 5),
        "peer": round(statistics.median(theirs for _, theirs in turns), 5),
        "ratio": round(statistics.median(mine / theirs for mine, theirs in turns), 3),
        "bar": bar,
    }
