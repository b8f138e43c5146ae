"""The paper's tables and figures: which studies they are made of, and how these become the printed form.

A new target is one file with a function that returns a `Target`, and a line in `TARGETS`.
"""

from collections.abc import Callable

from detgraph.errors import unknown_name
from detgraph.reproduce import figure_neighbors
from detgraph.reproduce.figure_curves import figure_pcqm4m, figure_zinc
from detgraph.reproduce.figure_tau import figure_tau
from detgraph.reproduce.table_ablation import table_ablation
from detgraph.reproduce.table_hops import table_hops
from detgraph.reproduce.table_kg import table_kg
from detgraph.reproduce.table_nodes import table_nodes
from detgraph.reproduce.table_pcqm4m import table_pcqm4m
from detgraph.reproduce.table_statistics import table_statistics
from detgraph.reproduce.table_zinc import table_zinc
from detgraph.reproduce.target import Target

TARGETS: dict[str, Callable[[], Target]] = {
    "table-hops": table_hops,
    "table-pcqm4m": table_pcqm4m,
    "table-zinc": table_zinc,
    "table-nodes": table_nodes,
    "table-kg": table_kg,
    "table-ablation": table_ablation,
    "table-statistics": table_statistics,
    "figure-tau": figure_tau,
    "figure-zinc": figure_zinc,
    "figure-pcqm4m": figure_pcqm4m,
}


def find_target(name: str) -> Target:
    """A table or figure by its name."""
    if name not in TARGETS:
        raise unknown_name("target", name, (*TARGETS, figure_neighbors.NAME))
    return TARGETS[name]()
