"""A search for good settings on the validation split, all of its trials kept in one JSON file."""

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import count
from pathlib import Path
from statistics import mean
from typing import Any

from detgraph.config import load_config, parse_config
from detgraph.errors import DetError
from detgraph.files import write_text
from detgraph.studies.running import WORKER, in_processes, train
from detgraph.studies.space import Range, Settings, Space, overrides
from detgraph.studies.study import differences, joined_commits, settings
from detgraph.training import Observer
from detgraph.training.launch import prepare
from detgraph.training.run import read_json, versions


@dataclass(frozen=True)
class Trial:
    """One choice of settings: its best validation metric by seed, or why it failed."""

    number: int
    settings: Settings
    valid: list[float]
    failed: str | None
    seconds: float

    @property
    def value(self) -> float | None:
        """The mean over seeds, which is to be optimised."""
        return mean(self.valid) if self.failed is None else None


@dataclass(frozen=True)
class Attempt:
    """A trial to be made."""

    number: int
    settings: Settings
    recipe: Path
    changes: tuple[str, ...]
    seeds: int


class TuningObserver(Observer):
    """Told of what happens in a search; this one keeps silent. Steps are told with one job only."""

    def begin(self, total: int, done: int) -> None:
        """``total`` trials are wanted, of which ``done`` are there already."""

    def finished(self, trial: Trial) -> None:
        """A trial is in the file."""


class Tuning:
    """A recipe with changes, a space and a number of seeds; ``file`` holds the trials finished so far.

    Raises:
        DetError: if recipe, space or data are wrong, or the file is of another search.
    """

    def __init__(
        self,
        recipe: Path,
        space: Space,
        seeds: int,
        file: Path | None = None,
        changes: Sequence[str] = (),
    ) -> None:
        self.recipe, self.space, self.seeds, self.changes = recipe, space, seeds, tuple(changes)
        self.config = load_config(recipe, changes)
        space.check(self.config)
        task = prepare(self.config)  # now, so that missing data is an error and not the end of every trial
        self.metric, self.higher_is_better = task.metric, task.higher_is_better
        self.dataset, self.fingerprint = self.config.data.label, task.fingerprint()
        self.file = file or Path("results") / "tuning" / f"{self.dataset}.json"
        self.commit: str | None = None  # all that trials were made with
        self.trials = self._read()

    @property
    def best(self) -> Trial | None:
        """The trial with the best mean; None if none has succeeded."""
        sign = 1 if self.higher_is_better else -1
        done = [trial for trial in self.trials if trial.value is not None]
        return max(done, key=lambda trial: sign * (trial.value or 0.0), default=None)

    def add(self, trial: Trial) -> None:
        """Write a finished trial into the file, at once and atomically."""
        self.trials = sorted([*self.trials, trial], key=lambda trial: trial.number)
        best, made_with = self.best, versions()
        self.commit = joined_commits(self.commit, made_with.pop("commit"))
        content = {
            **self._about(),
            "metric": self.metric,
            "higher_is_better": self.higher_is_better,
            "best": best and {**_record(best), "overrides": overrides(best.settings)},
            "trials": [_record(trial) for trial in self.trials],
            "commit": self.commit,
            "versions": made_with,
        }
        write_text(self.file, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def _about(self) -> dict[str, Any]:
        """What two searches must share for their trials to be one search."""
        return {
            "dataset": self.dataset,
            "fingerprint": self.fingerprint,
            "seeds": self.seeds,
            "space": self.space.content(),
            "config": settings(self.config),
        }

    def _read(self) -> list[Trial]:
        if not self.file.exists():
            return []
        content, about = read_json(self.file), self._about()
        if not {*about, "trials", "commit"} <= set(content):
            raise DetError(f"{self.file} is not a search. Move it away, or name another file with --output.")
        known = {key: content[key] for key in about}
        # Read again, so that options which did not exist then get their defaults.
        known["config"] = settings(parse_config(content["config"], where=str(self.file)))
        differing = list(differences(known, about))
        if differing:
            raise DetError(
                f"{self.file} is of another search: {'; '.join(differing)}. Name another file with --output, "
                "or move this one away."
            )
        self.commit = content["commit"]
        names = [field.name for field in fields(Trial)]
        return [Trial(**{name: record[name] for name in names}) for record in content["trials"]]


def search(
    tuning: Tuning,
    trials: int,
    minutes: float | None = None,
    jobs: int = 1,
    observer: TuningObserver | None = None,
) -> None:
    """Make trials until there are ``trials`` in the file; each is written before the next begins.

    Args:
        tuning: what to search.
        trials: how many there shall be, with those that the file has already.
        minutes: begin no trial after so much time.
        jobs: trials at a time. Several jobs are processes of one thread each.
        observer: told of the progress.

    Raises:
        Interrupted: on Ctrl-C or SIGTERM; finished trials are in the file.
    """
    observer = observer or TuningObserver()
    observer.begin(trials, len(tuning.trials))
    deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
    running: dict[int, Settings] = {}

    def attempts() -> Iterator[Attempt]:
        while len(tuning.trials) + len(running) < trials and time.monotonic() < deadline:
            taken = {trial.number for trial in tuning.trials} | set(running)
            number = next(number for number in count() if number not in taken)
            running[number] = propose(tuning, list(running.values()), number)
            yield Attempt(number, running[number], tuning.recipe, tuning.changes, tuning.seeds)

    def keep(attempt: Attempt, trial: Trial) -> None:
        del running[attempt.number]
        tuning.add(trial)
        observer.finished(trial)

    if jobs > 1:
        in_processes(make_in_worker, attempts(), jobs, keep)
        return
    for attempt in attempts():
        keep(attempt, make(attempt, observer))


def propose(tuning: Tuning, running: Sequence[Settings], number: int) -> Settings:
    """The settings of trial ``number``: a function of the number and of the trials before it alone.

    The recipe's own come first where the space has them, so that a search ends no worse than it began.
    A fresh study is told of all of them each time, so that a search that was stopped goes on as if it had not
    been. Failed trials and, as their end is not known, running ones count as bad: others are tried.
    """
    optuna = load_optuna()
    own = tuning.space.own(tuning.config)
    if number == 0 and own is not None:
        return own
    spaces = optuna.distributions
    distributions = {
        key: spaces.CategoricalDistribution(dimension)
        if not isinstance(dimension, Range)
        else (spaces.IntDistribution if dimension.whole else spaces.FloatDistribution)(
            dimension.low, dimension.high, log=dimension.log
        )
        for key, dimension in tuning.space.dimensions.items()
    }
    study = optuna.create_study(
        direction="maximize" if tuning.higher_is_better else "minimize",
        sampler=optuna.samplers.TPESampler(seed=number),
    )
    states = optuna.trial.TrialState
    tried = [(trial.settings, trial.value) for trial in tuning.trials]
    for known, value in [*tried, *((unfinished, None) for unfinished in running)]:
        state = states.PRUNED if value is None else states.COMPLETE
        study.add_trial(
            optuna.trial.create_trial(state=state, params=known, distributions=distributions, value=value)
        )
    found = study.ask(distributions).params
    return {
        key: dimension.tidy(found[key]) if isinstance(dimension, Range) else found[key]
        for key, dimension in tuning.space.dimensions.items()
    }


def make(attempt: Attempt, observer: Observer) -> Trial:
    """Train with each seed, the test split unread; wrong or diverging settings make a failed trial."""
    begin = time.monotonic()
    valid, failed = list[float](), None
    try:
        config = load_config(attempt.recipe, [*attempt.changes, *overrides(attempt.settings)])
        for seed in range(attempt.seeds):
            result = train(config, seed, observer, read_test=False).result
            valid.append(result.valid[result.metric])
    except DetError as error:
        failed = str(error).replace(f"{attempt.recipe}: ", "")
    return Trial(attempt.number, attempt.settings, valid, failed, round(time.monotonic() - begin, 3))


def make_in_worker(attempt: Attempt) -> Trial:
    """One trial in a process of its own."""
    return make(attempt, WORKER)


def load_optuna() -> Any:
    """The library that proposes settings, an optional one."""
    try:
        import optuna
    except ImportError:
        raise DetError(
            "det tune needs optuna, which is not installed: pip install 'detgraph[tune]'."
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _record(trial: Trial) -> dict[str, Any]:
    return {**asdict(trial), "value": trial.value}
