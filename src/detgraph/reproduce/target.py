"""What a table or figure of the paper consists of: columns, cells, and the study behind each cell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from detgraph.config import Config
from detgraph.errors import unknown_name
from detgraph.recipes import recipe_names, recipe_path
from detgraph.studies.models import model_config

if TYPE_CHECKING:
    from detgraph.reproduce.entries import Entry


@dataclass(frozen=True)
class Published:
    """A number of the paper, in the unit it is printed in."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class Measure:
    """A metric as the paper prints it."""

    key: str  # its name in study files
    title: str
    digits: int  # that the paper prints
    factor: float = 1.0  # from the study's unit to the paper's
    higher_is_better: bool = True


ACCURACY = Measure("accuracy", "accuracy (%)", digits=1, factor=100)
MICRO_F1 = Measure("f1", "micro-F1 (%)", digits=1, factor=100)
MAE = Measure("mae", "MAE", digits=3, higher_is_better=False)


@dataclass(frozen=True)
class Column:
    """A data set with one of its metrics."""

    dataset: str
    title: str
    measure: Measure
    missing: str = ""
    """Why there may be no study."""


@dataclass(frozen=True)
class Plan:
    """How the study of a cell is made, and what it is called: ``results/<group>/<dataset>-<key>.json``."""

    key: str
    recipe: str
    runs: int
    model: str = "det"
    overrides: tuple[str, ...] = ()
    group: str = "node"
    logs: bool = False
    """Whether its runs' epochs are recorded, for a figure of how training went."""

    def has_recipe(self) -> bool:
        """Whether the recipe exists: without it a study can be shown, not trained."""
        return self.recipe in recipe_names()

    def config(self) -> Config:
        """The configuration, but for its seed."""
        return model_config(recipe_path(self.recipe), self.model, self.overrides)


@dataclass(frozen=True)
class Cell:
    """One model on one data set; without a plan it shows the paper's number only."""

    dataset: str
    model: str  # the row's label
    plan: Plan | None
    metric: str | None = None
    """Key of the measure, where a data set has several columns."""
    variant: str = ""
    """What follows the measure's key in study files that have it in several forms."""
    paper: Published | None = None
    note: str = ""
    section: str = ""
    parameters: int | None = None
    """Of the paper's model, where its table says so."""
    twin: str | None = None
    """Key of the study that this one is compared with, seed by seed."""
    twin_name: str = "its structural-only twin"


@dataclass(frozen=True)
class Target:
    """A table or figure; where it has no cell for a row and a column, the paper has none either."""

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    cells: tuple[Cell, ...]
    figure: "Callable[[Target, Sequence[Entry]], Figure] | None" = None
    facts: Callable[[str], dict[str, float]] | None = None
    """Counts the numbers of a data set, by row, where nothing has to be trained."""

    def only(self, datasets: Sequence[str]) -> "Target":
        """The same with these data sets alone."""
        known = [column.dataset for column in self.columns]
        for name in datasets:
            if name not in known:
                raise unknown_name(f"data set of {self.name}", name, known)
        return replace(
            self,
            columns=tuple(column for column in self.columns if column.dataset in datasets),
            cells=tuple(cell for cell in self.cells if cell.dataset in datasets),
        )

    def column(self, cell: Cell) -> Column:
        """The column that a cell stands in."""
        return next(
            column
            for column in self.columns
            if column.dataset == cell.dataset and cell.metric in (None, column.measure.key)
        )
