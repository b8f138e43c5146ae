"""The paper's table of how often entities appear as neighbours, by hops."""

import numpy as np
from scipy.sparse import csr_array

from detgraph.data.benchmarks import load_benchmark
from detgraph.data.triples import Triples
from detgraph.reproduce.target import Cell, Column, Measure, Published, Target

WALKS = Measure("walks", "walks an entity", digits=1)
MISSING = "the data could not be had"
COLUMNS = (Column("fb15k-237", "FB15K-237", WALKS, MISSING), Column("wn18rr", "WN18RR", WALKS, MISSING))
PAPER: dict[int, tuple[float | None, float]] = {
    1: (20.3, 2.7),
    2: (1781.4, 8.9),
    3: (64774.9, 30.5),
    5: (None, 483.8),
}
OFF = {("fb15k-237", 3): "the paper's number is .7 % lower; all others agree to its last digit"}


def table_hops() -> Target:
    """Walks along training triples, from head to tail."""
    return Target(
        name="table-hops",
        title="How often an entity is met after so many hops",
        caption="All walks of that length along training triples, from heads to tails, by the number of "
        "entities in which any of them ends: what the paper calls the average appearing time.",
        columns=COLUMNS,
        cells=tuple(
            Cell(
                column.dataset,
                _label(hops),
                None,
                paper=None if number is None else Published(number),
                note=OFF.get((column.dataset, hops), ""),
            )
            for hops, numbers in PAPER.items()
            for column, number in zip(COLUMNS, numbers, strict=True)
        ),
        facts=count_walks,
    )


def count_walks(dataset: str) -> dict[str, float]:
    """Mean number of walks that end in an entity, by their length."""
    data = load_benchmark(dataset)
    assert isinstance(data, Triples)
    size = len(data.entities)
    ones = np.ones(len(data.train))  # triples between the same two entities are several ways
    step = csr_array((ones, (data.train[:, 2], data.train[:, 0])), shape=(size, size))
    walks, found = np.ones(size), {}
    for hops in range(1, max(PAPER) + 1):
        walks = step @ walks
        if hops in PAPER:
            found[_label(hops)] = float(walks.sum() / np.count_nonzero(walks))
    return found


def _label(hops: int) -> str:
    return f"{hops} hop{'s' * (hops > 1)}"
