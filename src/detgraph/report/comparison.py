"""DET beside its structural-only twin over the same seeds: as data, and as a Markdown table."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from detgraph.files import write_text
from detgraph.studies.statistics import spread
from detgraph.training.run import RunFolder, versions

HEADER = ("task", "data", "metric", "no input", "structural only", "DET", "DET better in", "seconds a run")


@dataclass(frozen=True)
class Pair:
    """One data set: the test metric of both models, seed by seed."""

    task: str
    data: str
    metric: str
    higher_is_better: bool
    seeds: list[int]
    trivial: float
    structural: list[float]
    det: list[float]
    structural_seconds: list[float]
    det_seconds: list[float]
    notes: list[str]
    config: dict[str, Any]

    def wins(self) -> int:
        """Seeds on which DET is ahead of its twin."""
        sign = 1 if self.higher_is_better else -1
        return sum(sign * ours > sign * twin for ours, twin in zip(self.det, self.structural, strict=True))

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        arrow = "↑" if self.higher_is_better else "↓"
        return (
            self.task,
            self.data,
            f"{self.metric} {arrow}",
            f"{self.trivial:.3f}",
            spread(self.structural),
            spread(self.det),
            f"{self.wins()} of {len(self.seeds)} seeds",
            f"{mean(self.structural_seconds):.0f} / {mean(self.det_seconds):.0f}",
        )


def compare(structural: Sequence[RunFolder], det: Sequence[RunFolder]) -> Pair:
    """Finished runs of both models on one data set, in the same order of seeds."""
    config = det[0].config()
    results = {
        model: [run.result() or {} for run in runs] for model, runs in (("twin", structural), ("det", det))
    }
    first = results["det"][0]
    metric = first["metric"]
    return Pair(
        task=config.task,
        data=config.data.label,
        metric=metric,
        higher_is_better=first["higher_is_better"],
        seeds=[result["seed"] for result in results["det"]],
        trivial=first["trivial"],
        structural=[result["test"][metric] for result in results["twin"]],
        det=[result["test"][metric] for result in results["det"]],
        structural_seconds=[result["seconds"] for result in results["twin"]],
        det_seconds=[result["seconds"] for result in results["det"]],
        notes=first["notes"],
        config=config.model_dump(mode="json"),
    )


def save_pairs(path: Path, pairs: Sequence[Pair]) -> None:
    """Write the comparison with all it depends on."""
    content = {"pairs": [asdict(pair) for pair in pairs], "versions": versions()}
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def load_pairs(path: Path) -> list[Pair]:
    """What `save_pairs` wrote."""
    return [Pair(**pair) for pair in json.loads(path.read_text(encoding="utf-8"))["pairs"]]


def markdown(pairs: Sequence[Pair]) -> str:
    """The comparison as a Markdown table."""
    rows = [HEADER, ("---",) * len(HEADER), *(pair.cells() for pair in pairs)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
