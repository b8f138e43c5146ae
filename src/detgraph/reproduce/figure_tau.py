"""The paper's figure on τ, the share of the structural encoder: accuracy on three citation networks."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from detgraph.reproduce.entries import Entry
from detgraph.reproduce.table_nodes import CITATION
from detgraph.reproduce.target import Cell, Column, Plan, Published, Target

RUNS = 7
TAUS = tuple(step / 20 for step in range(21))
# Accuracy at τ = 0, at the best τ, at τ = 1, as the paper's tables and text have them.
PAPER = {
    "cora": {0.0: 84.1, 0.15: 84.6, 1.0: 84.0},
    "citeseer": {0.0: 72.5, 0.15: 72.8, 1.0: 71.6},
    "pubmed": {0.0: 81.5, 0.05: 81.8, 1.0: 80.9},
}
# Okabe and Ito's colours, which people with any colour vision can tell apart.
COLORS = ("#0072B2", "#D55E00", "#009E73")


def figure_tau() -> Target:
    """A cell for each τ and data set."""
    return Target(
        name="figure-tau",
        title="Accuracy by τ, the share of the structural encoder",
        caption="Mean ± standard deviation on the test split, in brackets the number of runs. All other "
        "settings are those of the recipe `node/<dataset>`; both ends are rows of the ablation, with all of "
        "its runs. The paper prints no numbers in its figure: those beside ours are of its tables, at τ = 0, "
        "at its best τ and at τ = 1.",
        columns=CITATION,
        cells=tuple(
            Cell(
                column.dataset,
                f"τ = {tau:.2f}",
                _plan(column.dataset, tau),
                paper=_published(column.dataset, tau),
            )
            for tau in TAUS
            for column in CITATION
        ),
        figure=draw,
    )


def _plan(dataset: str, tau: float) -> Plan:
    """The study at one τ; those of a single encoder belong to the ablation, too."""
    recipe = f"node/{dataset}"
    if tau == 1:
        return Plan("structural", recipe, RUNS, "structural")
    return Plan("semantic" if tau == 0 else f"tau-{tau:.2f}", recipe, RUNS, overrides=(f"model.tau={tau:g}",))


def draw(target: Target, entries: Sequence[Entry]) -> Figure:
    """One panel a data set: the mean with a band of ± one standard deviation, and the paper's points."""
    figure = Figure(figsize=(3.8 * len(target.columns), 3.4), layout="constrained")
    panels = figure.subplots(1, len(target.columns), squeeze=False)[0]
    for axes, column, color in zip(panels, target.columns, COLORS, strict=False):
        found = [entry for entry in entries if entry.cell.dataset == column.dataset]
        _panel(axes, column, found, color)
    panels[0].set_ylabel(target.columns[0].measure.title)
    return figure


def _panel(axes: Axes, column: Column, entries: Sequence[Entry], color: str) -> None:
    run = [(_tau(entry), entry.mean, entry.std or 0.0) for entry in entries if entry.mean is not None]
    if run:
        taus, means, stds = zip(*run, strict=True)
        low = [mean - std for mean, std in zip(means, stds, strict=True)]
        high = [mean + std for mean, std in zip(means, stds, strict=True)]
        axes.fill_between(taus, low, high, color=color, alpha=0.2, linewidth=0, label="± std")
        axes.plot(taus, means, color=color, marker="o", markersize=3, label="here, mean")
    else:
        axes.text(0.5, 0.5, "not run yet", transform=axes.transAxes, ha="center", va="center")
    marked = [(_tau(entry), entry.cell.paper.mean) for entry in entries if entry.cell.paper is not None]
    best = max(marked, key=lambda point: point[1])[0]
    axes.plot(*zip(*marked, strict=True), "D", color="black", fillstyle="none", label="paper's tables")
    axes.axvline(best, color="black", linestyle=":", linewidth=1, label=f"paper's best τ = {best:g}")
    axes.set(title=column.title, xlabel="τ", xlim=(-0.03, 1.03))
    axes.grid(alpha=0.3)
    axes.legend(fontsize="x-small")


def _tau(entry: Entry) -> float:
    return float(entry.cell.model.removeprefix("τ = "))


def _published(dataset: str, tau: float) -> Published | None:
    number = PAPER[dataset].get(tau)
    return None if number is None else Published(number)
