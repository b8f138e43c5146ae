"""The paper's ablation table: DET without one part at a time, all other settings as they are."""

from detgraph.reproduce.table_nodes import CITATION, OWN_RUNS
from detgraph.reproduce.target import Cell, Column, Measure, Plan, Published, Target

EXTRA_RUNS = 20
NOT_YET = "not run yet"
MEAN_RANK = Measure("mr", "mean rank", digits=0, higher_is_better=False)
MAE = Measure("mae", "MAE", digits=3, higher_is_better=False)
ZINC = Column("zinc", "ZINC", MAE, missing=NOT_YET)
FB15K_237 = Column("fb15k-237", "FB15K-237", MEAN_RANK, missing=NOT_YET)
WN18RR = Column("wn18rr", "WN18RR", MEAN_RANK, missing=NOT_YET)
COLUMNS = (ZINC, *CITATION, FB15K_237, WN18RR)

NO_FETCHING = ("neighbors.k=0", "training.sn_weight=0")
SEMANTIC = ("model.tau=0",)

# Label, key of the study, model, settings, runs, and the paper's numbers by column.
ROWS: tuple[tuple[str, str, str, tuple[str, ...], int, tuple[float | None, ...]], ...] = (
    ("both encoders with fetching (DET)", "det", "det", (), OWN_RUNS, (None, 84.6, 72.8, 81.8, 150, 2255)),
    (
        "both encoders without fetching",
        "no-fetching",
        "det",
        NO_FETCHING,
        EXTRA_RUNS,
        (0.113, 82.6, 72.7, 78.1, 151, 2305),
    ),
    (
        "structural encoder only",
        "structural",
        "structural",
        (),
        OWN_RUNS,
        (0.122, 84.0, 71.6, 80.9, 158, 2268),
    ),
    (
        "semantic encoder with fetching",
        "semantic",
        "det",
        SEMANTIC,
        EXTRA_RUNS,
        (None, 84.1, 72.5, 81.5, None, None),
    ),
    (
        "semantic encoder without fetching",
        "semantic-no-fetching",
        "det",
        (*SEMANTIC, *NO_FETCHING),
        EXTRA_RUNS,
        (0.515, 83.1, 72.6, 77.7, None, None),
    ),
)


def table_ablation() -> Target:
    """All cells; the paper has no entry where its number is missing."""
    return Target(
        name="table-ablation",
        title="Ablation",
        caption="Mean ± standard deviation on the test split, in brackets the number of runs. All rows of a "
        "data set have the settings of its recipe `node/<dataset>`, but for what the row leaves out; without "
        "fetching the semantic encoder attends to connected neighbours and L_sn is off.",
        columns=COLUMNS,
        cells=tuple(
            Cell(
                column.dataset,
                label,
                Plan(key, f"node/{column.dataset}", runs, model, overrides) if column in CITATION else None,
                paper=Published(number),
            )
            for label, key, model, overrides, runs, numbers in ROWS
            for column, number in zip(COLUMNS, numbers, strict=True)
            if number is not None
        ),
    )
