"""Study files as training writes them, with scores of one's choice."""

from collections.abc import Sequence
from pathlib import Path

from detgraph.config import Config
from detgraph.studies import Study
from detgraph.studies.study import Outcome
from detgraph.training import Result


def write_study(
    folder: Path,
    dataset: str,
    key: str,
    config: Config,
    scores: Sequence[float],
    metric: str = "accuracy",
    notes: tuple[str, ...] = (),
) -> Study:
    """One run a score, with seeds 0, 1, …"""
    study = Study(dataset, key, config, folder / f"{dataset}-{key}.json")
    for seed, score in enumerate(scores):
        result = Result(metric, True, {metric: 0.5}, {metric: score}, 0.3, 4, 5, 100, 1.5)
        study.add(Outcome(seed, result, notes, "f" * 64))
    return study
