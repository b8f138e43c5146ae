"""Train what is missing of some studies, one run after the other or in several processes."""

import multiprocessing
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TypeVar

import torch
from typing_extensions import override

from detgraph.config import Config
from detgraph.errors import DetError
from detgraph.memory import keep_freed_memory
from detgraph.processes import end_with_parent
from detgraph.studies.study import Outcome, Study
from detgraph.training import Interrupted, Observer, RunFolder, Trainer
from detgraph.training.interrupt import StopRequest
from detgraph.training.launch import resume, start
from detgraph.training.loop import Diverged
from detgraph.training.run import InUse

ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
POLL_SECONDS = 0.2  # how soon a stop request is noticed

Job = tuple[Study, int]  # with a seed
Item = TypeVar("Item")
Answer = TypeVar("Answer")


class StudyObserver(Observer):
    """Told of what happens in studies; this one keeps silent. Steps and epochs are told with one job only."""

    def begin(self, total: int, done: int) -> None:
        """``total`` runs are wanted, of which ``done`` are there already."""

    def started(self, study: Study, seed: int) -> None:
        """A run begins."""

    def finished(self, study: Study, outcome: Outcome) -> None:
        """A run is in its study's file."""


def complete(
    studies: Sequence[Study], seeds: Sequence[int], jobs: int = 1, observer: StudyObserver | None = None
) -> None:
    """Train the missing seeds of all studies; a finished run is written before the next begins.

    Args:
        studies: what to train, each with a file of its own.
        seeds: the seeds that every study shall have.
        jobs: runs at a time. Several jobs are processes of one thread each.
        observer: told of the progress.

    Raises:
        Interrupted: on Ctrl-C or SIGTERM; finished runs are in the files, others go on next time.
        DetError: if a file is of another study, before anything is trained.
        Diverged: if runs did so, after all others.
    """
    observer = observer or StudyObserver()
    diverged: list[str] = []
    missing = {study.file: set(study.missing(seeds)) for study in studies}
    # Seed by seed, so that what is there after an interruption can be compared.
    todo = [(study, seed) for seed in seeds for study in studies if seed in missing[study.file]]
    observer.begin(len(studies) * len(seeds), len(studies) * len(seeds) - len(todo))

    def begun() -> Iterator[Job]:
        for study, seed in todo:
            observer.started(study, seed)
            yield study, seed

    def keep(job: Job, outcome: Outcome | Diverged) -> None:
        study, seed = job
        if isinstance(outcome, Diverged):
            diverged.append(f"{study.name} seed {seed}: {outcome}")
            return
        study.add(outcome)
        remove(study.unfinished(seed))
        observer.finished(study, outcome)

    if jobs > 1:
        in_processes(train_job, begun(), jobs, keep)
    else:
        try:
            for study, seed in begun():
                keep((study, seed), go_on(study, seed, observer))
        except KeyboardInterrupt:  # between two runs; training itself saves its state first
            raise Interrupted from None
    if diverged:
        raise Diverged("\n".join(diverged))


def go_on(study: Study, seed: int, observer: Observer) -> Outcome | Diverged:
    """One run of a study, from its start or from where it was interrupted."""
    folder, config = study.unfinished(seed), study.config.model_copy(update={"seed": seed})
    begun = RunFolder(folder)
    # Killed before it was a run, or between its end and the study's file.
    if folder.exists() and (not begun.config_file.exists() or begun.result() is not None):
        remove(folder)
    if begun.config_file.exists() and begun.config() != config:
        raise DetError(
            f"{folder} holds an interrupted run with other settings than asked for now. Remove it to train "
            "anew, or put the old settings back."
        )
    trainer = resume(folder) if begun.config_file.exists() else start(config, folder)
    try:
        return outcome_of(trainer, observer)
    except InUse:
        raise
    except DetError as error:  # what diverged once would do so again
        remove(folder)
        if isinstance(error, Diverged):  # other seeds and models may not
            return error
        raise


def remove(folder: Path) -> None:
    """Remove a run, and the folder of runs under way if it was the last."""
    shutil.rmtree(folder)
    with suppress(OSError):  # not empty
        folder.parent.rmdir()


def train(config: Config, seed: int, observer: Observer, *, read_test: bool = True) -> Outcome:
    """One run in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="det-study-") as folder:
        run = Path(folder) / "run"
        return outcome_of(start(config.model_copy(update={"seed": seed}), run, read_test=read_test), observer)


def outcome_of(trainer: Trainer, observer: Observer) -> Outcome:
    """Train to the end."""
    result, task = trainer.train(observer), trainer.task
    return Outcome(task.seed, result, task.notes, task.fingerprint(), trainer.run.metrics())


def in_processes(
    work: Callable[[Item], Answer], items: Iterator[Item], jobs: int, done: Callable[[Item, Answer], None]
) -> None:
    """Hand out one item a process.

    Args:
        work: done in a process; a function of a module, which can be sent there.
        items: an item is taken only when a process is free for it.
        jobs: processes, of one thread each.
        done: called here with each item and what became of it.
    """
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    running: dict[Future[Answer], Item] = {}
    with StopRequest() as request, environment(ONE_THREAD):
        pool = ProcessPoolExecutor(jobs, context, initializer=begin_worker, initargs=(stop,))
        try:
            while True:
                # No run is queued ahead of a free process: nothing would stop it.
                while len(running) < jobs and (item := next(items, None)) is not None:
                    running[pool.submit(work, item)] = item
                if not running:
                    return
                ended, _ = wait(running, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
                for future in ended:
                    answer = future.result()
                    done(running.pop(future), answer)
                if request.requested:
                    raise Interrupted
        except BrokenProcessPool:
            if request.requested:  # before the processes could tell a stop request from a kill
                raise Interrupted from None
            raise DetError(
                "a process ended without a word, most likely for want of memory. Finished runs are kept: "
                "run the same command again with fewer --jobs."
            ) from None
        finally:
            stop.set()
            pool.shutdown()
            for future, item in running.items():  # those that came to their end meanwhile
                if future.exception() is None:
                    done(item, future.result())


class WorkerState(Observer):
    """Ends a worker's training when the parent says so."""

    stop: Event | None = None

    @override
    def step(self, done: int, total: int) -> None:
        if self.stop is not None and self.stop.is_set():
            signal.raise_signal(signal.SIGTERM)  # as if it had been sent here: all is saved first


WORKER = WorkerState()


def begin_worker(stop: Event) -> None:
    """Prepare a process as a command's: one thread, freed memory kept; the parent alone answers signals."""
    end_with_parent()
    keep_freed_memory()
    torch.set_num_threads(1)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    WORKER.stop = stop


def train_job(job: Job) -> Outcome | Diverged:
    """One run in a worker."""
    study, seed = job
    return go_on(study, seed, WORKER)


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """Environment variables that processes started meanwhile inherit."""
    before = {key: os.environ.get(key) for key in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
