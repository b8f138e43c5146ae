"""Cells with what their studies found: numbers in the paper's unit, and all that has to be said with them."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from detgraph.errors import DetError
from detgraph.reproduce.facts import Facts, read_facts
from detgraph.reproduce.results import Results
from detgraph.reproduce.target import Cell, Measure, Plan, Target
from detgraph.studies import Study
from detgraph.studies.statistics import mean_and_std, paired
from detgraph.studies.study import log_file, read_study

Curve = list[tuple[int, float]]  # epochs done, the metric on validation


@dataclass(frozen=True)
class Entry:
    """A cell and its scores by seed; none if it was not run."""

    cell: Cell
    measure: Measure
    scores: dict[int, float]
    notes: tuple[str, ...]
    source: str | None  # name of the study's file
    commit: str | None
    parameters: int | None = None
    curves: dict[int, Curve] = field(default_factory=dict)  # by seed, where logs were kept
    counted: bool = False  # in the data: there are no runs

    @property
    def mean(self) -> float | None:
        """Over the runs."""
        return mean_and_std(list(self.scores.values()))[0] if self.scores else None

    @property
    def std(self) -> float | None:
        """Of the runs; a single one has none."""
        return mean_and_std(list(self.scores.values()))[1] if self.scores else None

    @property
    def note(self) -> str:
        """All notes in one line."""
        return "; ".join(self.notes)

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        paper = self.cell.paper
        return {
            "dataset": self.cell.dataset,
            "model": self.cell.model,
            "metric": self.measure.title,
            "mean": self.mean,
            "std": self.std,
            "runs": len(self.scores),
            "paper": None if paper is None else paper.mean,
            "note": self.note,
        }


def read_entries(target: Target, results: Results, runs: int | None = None) -> list[Entry]:
    """All cells of a target with what their studies in ``results`` found.

    Args:
        target: what to fill.
        results: where the studies are.
        runs: how many were asked for, if not those of the plan.
    """
    if target.facts is not None:
        facts = read_facts(results.facts(target.name))
        return [_counted(target, cell, facts) for cell in target.cells]
    return [_read_entry(target, cell, results, runs) for cell in target.cells]


def _counted(target: Target, cell: Cell, facts: Facts) -> Entry:
    column = target.column(cell)
    number = facts.get(cell.dataset, {}).get(cell.model)
    scores = {} if number is None else {0: number}
    notes = _said(cell.note, column.missing if number is None else "")
    return Entry(cell, column.measure, scores, notes, None, None, counted=True)


def _read_entry(target: Target, cell: Cell, results: Results, runs: int | None) -> Entry:
    column, plan = target.column(cell), cell.plan
    measure = replace(column.measure, key=f"{column.measure.key}{cell.variant}")
    if plan is None:
        return Entry(cell, measure, {}, _said(cell.note or column.missing), None, None)
    file = results.file(cell.dataset, plan.key, plan.group)
    content = read_study(file)
    if content is None:
        return Entry(cell, measure, {}, _said(cell.note, column.missing or _why_missing(plan)), None, None)
    scores = _scores(content, measure, file)
    study = results.study(cell.dataset, plan) if plan.has_recipe() else None
    notes = [cell.note, *_doubts(content, study, runs or plan.runs)]
    if cell.twin is not None:
        other = results.file(cell.dataset, cell.twin, plan.group)
        twin = read_study(other)
        if twin is not None:
            notes.append(_gap(scores, _scores(twin, measure, other), measure, cell.twin_name))
    return Entry(
        cell,
        measure,
        scores,
        _said(*notes, *content["notes"]),
        file.name,
        content["commit"],
        content.get("parameters"),
        {seed: _curve(log_file(file, seed), measure) for seed in scores} if plan.logs else {},
    )


def _curve(log: Path, measure: Measure) -> Curve:
    """What a run's log says of validation."""
    if not log.is_file():
        return []
    records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return [
        (record["epoch"] + 1, record["valid"][measure.key] * measure.factor)
        for record in records
        if "valid" in record
    ]


def _scores(content: dict[str, Any], measure: Measure, file: Path) -> dict[int, float]:
    """Scores by seed: of the test split, or of validation where there is no test split."""
    parts = {run["seed"]: run["test"] or run["valid"] for run in content["runs"]}
    for seed, part in parts.items():
        if measure.key not in part:
            known = ", ".join(part)
            raise DetError(f"{file}: the run of seed {seed} has no {measure.key!r}, only {known}.")
    return {seed: part[measure.key] * measure.factor for seed, part in parts.items()}


def _why_missing(plan: Plan) -> str:
    return "not run yet" if plan.has_recipe() else f"not run yet: there is no recipe {plan.recipe}"


def _doubts(content: dict[str, Any], study: Study | None, runs: int) -> list[str]:
    """What is not as planned."""
    doubts = []
    if len(content["runs"]) < runs:
        doubts.append(f"{len(content['runs'])} of {runs} runs so far")
    if any(run["test"] is None for run in content["runs"]):
        doubts.append("on the validation split")
    changes = [] if study is None else study.changes(content)
    if changes:
        doubts.append(f"made with other settings than its recipe has now ({'; '.join(changes)})")
    return doubts


def _gap(ours: dict[int, float], twin: dict[int, float], measure: Measure, name: str) -> str:
    """The difference to the study of this name on the same seeds."""
    gap = paired(ours, twin, higher_is_better=measure.higher_is_better)
    if gap is None:
        return ""
    p = f"p = {gap.p_text}, " if gap.p_text else ""
    return (
        f"{measure.title} {gap.difference:+.{measure.digits + 1}f} to {name} on the same seeds "
        f"({p}better in {gap.wins} of {gap.seeds})"
    )


def _said(*notes: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for note in notes if note))
