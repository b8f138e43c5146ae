"""The paper's tables and figures: which studies they are made of, and how these become the printed form.

A new target is one file with a function that returns a `Target`, and a line in `TARGETS`.
"""

from collections.abc import Callable

from detgraph.errors import unknown_name
from detgraph.reproduce.figure_tau import figure_tau
from detgraph.reproduce.table_ablation import table_ablation
from detgraph.reproduce.table_nodes import table_nodes
from detgraph.reproduce.target import Target

TARGETS: dict[str, Callable[[], Target]] = {
    "table-nodes": table_nodes,
    "table-ablation": table_ablation,
    "figure-tau": figure_tau,
}


def find_target(name: str) -> Target:
    """A table or figure by its name."""
    if name not in TARGETS:
        raise unknown_name("target", name, TARGETS)
    return TARGETS[name]()
