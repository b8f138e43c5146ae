"""A study: one data set, one model, one configuration, many seeds, kept as one JSON file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from detgraph.config import Config, parse_config
from detgraph.errors import DetError
from detgraph.files import write_text
from detgraph.tasks.base import Metrics
from detgraph.training import Result
from detgraph.training.run import read_json, versions


@dataclass(frozen=True)
class Run:
    """What one seed gave."""

    seed: int
    valid: Metrics
    test: Metrics | None
    best_epoch: int
    epochs: int
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """A finished run with what all seeds of a study have in common."""

    seed: int
    result: Result
    notes: tuple[str, ...]
    fingerprint: str  # checksum of the data
    log: Sequence[Mapping[str, Any]] = ()  # a record an epoch


@dataclass(frozen=True)
class Study:
    """One model on one data set; ``file`` holds the runs finished so far.

    With ``logs`` each run's record of its epochs is kept beside it, for figures of how training went.
    """

    dataset: str
    model: str
    config: Config
    file: Path
    logs: bool = False

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.dataset}-{self.model}"

    def settings(self) -> dict[str, Any]:
        """The configuration as JSON holds it, without its seed."""
        return settings(self.config)

    def content(self) -> dict[str, Any] | None:
        """What the file says, or None where there is no file yet.

        Raises:
            DetError: if the file is damaged or is of another study.
        """
        content = read_study(self.file)
        differing = [] if content is None else self.changes(content)
        if differing:
            raise DetError(
                f"{self.file} was made with other settings: {'; '.join(differing)}. Its runs cannot be mixed "
                "with new ones: move the file away, or choose another folder for the studies."
            )
        return content

    def changes(self, content: Mapping[str, Any]) -> list[str]:
        """In what a file's content is of another study."""
        # Read again, so that options which did not exist then get their defaults.
        old = settings(parse_config(content["config"], where=str(self.file)))
        known = {"dataset": content["dataset"], "model": content["model"], **old}
        asked = {"dataset": self.dataset, "model": self.model, **self.settings()}
        return list(differences(known, asked))

    def runs(self) -> dict[int, Run]:
        """Finished runs by seed."""
        content = self.content()
        return {} if content is None else {run["seed"]: Run(**run) for run in content["runs"]}

    def scores(self) -> dict[int, float]:
        """The metric by seed: on the test split, or on validation where there is no test split."""
        content = self.content()
        if content is None:
            return {}
        metric = content["metric"]
        return {run["seed"]: (run["test"] or run["valid"])[metric] for run in content["runs"]}

    def missing(self, seeds: Sequence[int]) -> list[int]:
        """Seeds without a finished run."""
        done = self.runs()
        return [seed for seed in seeds if seed not in done]

    def add(self, outcome: Outcome) -> None:
        """Write a finished run into the file, at once and atomically."""
        result, old = outcome.result, self.content() or {}
        if old.get("fingerprint", outcome.fingerprint) != outcome.fingerprint:
            raise DetError(
                f"the data of {self.file} has changed since its first runs, which cannot be mixed with new "
                "ones: put the old data back, or choose another folder for the studies."
            )
        run = Run(outcome.seed, result.valid, result.test, result.best_epoch, result.epochs, result.seconds)
        runs = {**self.runs(), run.seed: run}
        made_with = versions()
        content = {
            "dataset": self.dataset,
            "model": self.model,
            "metric": result.metric,
            "higher_is_better": result.higher_is_better,
            "config": self.settings(),
            "runs": [asdict(runs[seed]) for seed in sorted(runs)],
            "trivial": result.trivial,
            "parameters": result.parameters,
            "notes": list(dict.fromkeys([*old.get("notes", []), *outcome.notes])),  # some stand there by hand
            "versions": made_with,
            "commit": joined_commits(old.get("commit"), made_with.pop("commit")),
            "fingerprint": outcome.fingerprint,
        }
        if self.logs:
            write_text(self.log(outcome.seed), "".join(json.dumps(record) + "\n" for record in outcome.log))
        write_text(self.file, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def log(self, seed: int) -> Path:
        """Where the epochs of a run are recorded."""
        return log_file(self.file, seed)

    def unfinished(self, seed: int) -> Path:
        """The folder of a run under way, from which it goes on after an interruption."""
        return self.file.parent / "unfinished" / f"{self.file.stem}-{seed}"


def joined_commits(before: str | None, now: str | None) -> str | None:
    """All that a file's runs were made with, should it have gone on after a change of the code."""
    commits = [*(before or "").split(", "), now]
    return ", ".join(dict.fromkeys(commit for commit in commits if commit)) or None


def log_file(study: Path, seed: int) -> Path:
    """Where the epochs of a run are recorded, if its study keeps logs."""
    return study.parent / "logs" / f"{study.stem}-{seed}.jsonl"


def read_study(file: Path) -> dict[str, Any] | None:
    """What a study's file says, whatever its settings are; None where there is no file."""
    if not file.exists():
        return None
    content = read_json(file)
    if not {"dataset", "model", "metric", "config", "runs", "commit", "fingerprint"} <= set(content):
        raise DetError(f"{file} is not a study. Move it away, or choose another folder for the studies.")
    return content


# What the semantic half alone reads.
SEMANTIC: dict[str, Any] = {
    "neighbors": True,
    "model": {
        "semantic",
        "semantic_bias",
        "semantic_heads",
        "semantic_set",
        "mutual_bias",
        "votes",
        "vote_sharpness",
    },
    "training": {"sn_weight", "sn_loss"},
}


def settings(config: Config) -> dict[str, Any]:
    """All that a study is about, without its seed and what a baseline or structural-only twin never reads."""
    unread: dict[str, Any] = {"seed": True}
    if config.baseline is not None:
        unread |= {"model": True, "neighbors": True}
    elif config.model.tau == 1:
        unread |= SEMANTIC
    return config.model_dump(mode="json", exclude=unread)


def differences(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Every leaf in which two settings differ, e.g. ``model.tau is 0.7 there, 0.3 now``."""
    for key in dict.fromkeys([*old, *new]):
        before, now = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            yield from differences(before, now, f"{path}{key}.")
        elif before != now:
            yield f"{path}{key} is {before} there, {now} now"
