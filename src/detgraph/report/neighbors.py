"""The neighbours of an entity by name: as text and JSON, and as a picture."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from detgraph.tasks.entity import EntityTask
from detgraph.tasks.entity_attention import attended
from detgraph.tasks.entity_names import Names

NEAR, FAR = "#1f77b4", "#d62728"
MOST_DRAWN = 12  # neighbours of each kind
LONGEST = 44  # letters of a label


@dataclass(frozen=True)
class Neighbor:
    """A connected neighbour with its relation, or a distant one without."""

    id: str
    name: str
    relation: str | None
    structural: float | None
    semantic: float | None
    score: float | None

    @property
    def order(self) -> float:
        """By f_s; by the structural weight where that is all there is."""
        return self.score if self.score is not None else self.structural or 0.0


@dataclass(frozen=True)
class Neighborhood:
    """What a run's model reads for an entity, the highest f_s first."""

    id: str
    name: str
    connected: tuple[Neighbor, ...]
    distant: tuple[Neighbor, ...]

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Neighborhood":
        """What `record` gave."""
        parts = {
            kind: tuple(Neighbor(**neighbor) for neighbor in record[kind])
            for kind in ("connected", "distant")
        }
        return cls(record["id"], record["name"], **parts)


def neighborhood(task: EntityTask, entity: str) -> Neighborhood:
    """The neighbours of an entity, given by name or id."""
    data = task.data
    number = Names("entity", data.entities, data.entity_names).find(entity)
    count = len(data.relations)
    found = [
        Neighbor(
            data.entities[other.entity],
            data.entity_names[other.entity],
            None
            if other.relation is None
            else data.relation_names[other.relation % count]
            + (" (inverse)" if other.relation >= count else ""),
            other.structural,
            other.semantic,
            other.score,
        )
        for other in attended(task, number)
    ]
    found.sort(key=lambda neighbor: -neighbor.order)
    return Neighborhood(
        data.entities[number],
        data.entity_names[number],
        tuple(neighbor for neighbor in found if neighbor.relation is not None),
        tuple(neighbor for neighbor in found if neighbor.relation is None),
    )


def tables(found: Neighborhood, top: int | None = None) -> list[Table]:
    """Connected neighbours with their relations, then distant ones."""
    connected = Table("connected neighbour", "relation", "f_s", "structural", "semantic", title=found.name)
    for neighbor in found.connected[:top]:
        numbers = (neighbor.score, neighbor.structural, neighbor.semantic)
        connected.add_row(neighbor.name, neighbor.relation, *map(_number, numbers))
    distant = Table("distant neighbour", "f_s", "semantic")
    for neighbor in found.distant[:top]:
        distant.add_row(neighbor.name, _number(neighbor.score), _number(neighbor.semantic))
    return [connected, distant]


def markdown(found: Neighborhood) -> str:
    """The same as Markdown."""
    lines = [
        f"## {found.name}",
        "",
        "| connected neighbour | relation | f_s | structural weight | semantic weight |",
        "| --- | --- | --- | --- | --- |",
    ]
    for neighbor in found.connected:
        numbers = (neighbor.score, neighbor.structural, neighbor.semantic)
        lines.append(f"| {' | '.join((neighbor.name, neighbor.relation or '', *map(_number, numbers)))} |")
    lines += ["", "| distant neighbour | f_s | semantic weight |", "| --- | --- | --- |"]
    for neighbor in found.distant:
        lines.append(f"| {neighbor.name} | {_number(neighbor.score)} | {_number(neighbor.semantic)} |")
    return "\n".join(lines)


def draw(entities: Sequence[Neighborhood]) -> Figure:
    """A panel of bars for each entity: f_s of its neighbours, the weights of both encoders as points."""
    rows = max(2 + len(_drawn(found)) for found in entities)
    figure = Figure(figsize=(6.4 * len(entities), 0.8 + 0.24 * rows), layout="constrained")
    for axes, found in zip(figure.subplots(1, len(entities), squeeze=False)[0], entities, strict=True):
        _panel(axes, found)
    points, names = figure.axes[0].get_legend_handles_labels()
    if points:
        figure.legend(points, names, fontsize="x-small", loc="outside lower center", ncols=2)
    return figure


def _panel(axes: Axes, found: Neighborhood) -> None:
    drawn = _drawn(found)
    places = range(len(drawn))
    colors = [FAR if neighbor.relation is None else NEAR for neighbor in drawn]
    axes.barh(places, [neighbor.score or 0.0 for neighbor in drawn], color=colors, alpha=0.35)
    for marker, key in (("o", "structural"), ("x", "semantic")):
        known = [
            (place, getattr(neighbor, key))
            for place, neighbor in enumerate(drawn)
            if getattr(neighbor, key) is not None
        ]
        if known:
            axes.plot(
                [value for _, value in known],
                [place for place, _ in known],
                marker,
                color="black",
                markersize=4,
                label=f"{key} weight",
                linestyle="none",
            )
    axes.set_yticks(places, [_label(neighbor) for neighbor in drawn], fontsize="x-small")
    for label, color in zip(axes.get_yticklabels(), colors, strict=True):
        label.set_color(color)
    axes.invert_yaxis()
    axes.set(title=_short(found.name), xlabel="bars: f_s of connected (blue) and distant (red) neighbours")


def _drawn(found: Neighborhood) -> tuple[Neighbor, ...]:
    return found.connected[:MOST_DRAWN] + found.distant[:MOST_DRAWN]


def _label(neighbor: Neighbor) -> str:
    # Of a chain of relations the last one says most.
    relation = (
        "" if neighbor.relation is None else f" – {re.split('/|[.] ', neighbor.relation.strip('/'))[-1]}"
    )
    return _short(neighbor.name, relation)


def _short(name: str, more: str = "") -> str:
    """The name before the explanation that WordNet's have after a comma."""
    text = name.split(",")[0] + more
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
