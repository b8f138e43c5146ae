"""The appendix's figures: validation MAE as training goes on, with and without the semantic encoder."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from detgraph.reproduce.entries import Entry
from detgraph.reproduce.figure_tau import COLORS
from detgraph.reproduce.table_pcqm4m import QM9, table_pcqm4m
from detgraph.reproduce.table_zinc import table_zinc
from detgraph.reproduce.target import Target

STYLES = {"structural": "--", "det": "-"}


def figure_zinc() -> Target:
    """DET and its twin, of the paper's configuration and of ours."""
    return _curves("figure-zinc", "Validation MAE on ZINC as training goes on", table_zinc())


def figure_pcqm4m() -> Target:
    """The same on QM9, in place of PCQM4M."""
    table = table_pcqm4m().only([QM9.dataset])
    return _curves("figure-pcqm4m", "Validation MAE on QM9's gap (for PCQM4M) as training goes on", table)


def _curves(name: str, title: str, table: Target) -> Target:
    cells = tuple(cell for cell in table.cells if cell.plan and cell.plan.logs and cell.plan.model in STYLES)
    return Target(
        name=name,
        title=title,
        caption="The numbers are those of the test split, at the weights that validation chose; in brackets "
        "the number of runs. The paper prints none in its figure: those beside ours are of its table.",
        columns=table.columns,
        cells=cells,
        figure=draw,
    )


def draw(target: Target, entries: Sequence[Entry]) -> Figure:
    """A line for the first run of each study."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    suffixes = list(dict.fromkeys(_suffix(entry) for entry in entries))
    for entry in entries:
        assert entry.cell.plan is not None
        curve = next((curve for curve in entry.curves.values() if curve), None)
        if curve is None:
            continue
        epochs, scores = zip(*curve, strict=True)
        style, color = STYLES[entry.cell.plan.model], COLORS[suffixes.index(_suffix(entry))]
        axes.plot(epochs, scores, style, color=color, linewidth=1.2, label=entry.cell.model)
    axes.set(xlabel="epoch", ylabel=f"validation {entries[0].measure.title}", yscale="log")
    if axes.lines:
        axes.legend(frameon=False)
    else:
        axes.text(0.5, 0.5, "not run", ha="center", va="center", transform=axes.transAxes)
    return figure


def _suffix(entry: Entry) -> str:
    """What the keys of DET and its twin have in common."""
    assert entry.cell.plan is not None
    return entry.cell.plan.key.removeprefix(entry.cell.plan.model)
