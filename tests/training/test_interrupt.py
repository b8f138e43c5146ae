import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest
from tiny_runs import det, outcome, tiny_config, tiny_yaml

from detgraph.training import RunFolder
from detgraph.training.interrupt import StopRequest
from detgraph.training.launch import start

# `det` as a user runs it, but the signal comes from within, so that it comes after an exact step.
SIGNALLED = """
import os, signal, sys
from detgraph.cli import display
from detgraph.cli.main import main

class SignallingBar(display.TrainingBar):
    def step(self, done, total):
        super().step(done, total)
        if done == 6:
            os.kill(os.getpid(), signal.Signals[sys.argv[1]])

display.TrainingBar = SignallingBar
main(sys.argv[2:])
"""


def train_until_signal(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`det train` in a process of its own, which gets the signal after step 6 of 12."""
    return subprocess.run(
        [sys.executable, "-c", SIGNALLED, name, "train", *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # as many threads as the runs it is compared with
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_killed_run_goes_on_bit_for_bit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "killed"
    recipe = tiny_yaml("graph", tmp_path, epochs=4, batch_size=4, checkpoint_seconds=0)
    done = train_until_signal("SIGKILL", recipe, "--output", path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    run = RunFolder.open(path)
    assert run.checkpoint_file.is_file()
    assert run.result() is None
    with run.metrics_file.open("a") as file:  # killed while it wrote
        file.write('{"epoch": 2, "ma')

    assert det(capsys, "resume", path).code == 0
    config = tiny_config("graph", tmp_path, epochs=4, batch_size=4, checkpoint_seconds=0)
    start(config, tmp_path / "whole").train()
    assert outcome(path) == outcome(tmp_path / "whole")


def test_sigterm_saves_and_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a folder whose name is long enough to be broken over several lines [bold]" / "run"
    done = train_until_signal(
        "SIGTERM", tiny_yaml("graph", tmp_path, epochs=4, batch_size=4), "--output", path
    )
    assert done.returncode == 130, done.stderr
    assert f"Go on with: det resume '{path}'" in done.stdout  # quoted: it can be pasted
    assert "Traceback" not in done.stderr

    answer = det(capsys, "resume", path)
    assert answer.code == 0
    assert "Going on in epoch 2, step 4" in answer.out
    start(tiny_config("graph", tmp_path, epochs=4, batch_size=4), tmp_path / "whole").train()
    assert outcome(path) == outcome(tmp_path / "whole")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_raises_a_flag_and_handlers_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopRequest() as stop:
        assert signal.getsignal(number) != before[0]
        assert not stop.requested
        os.kill(os.getpid(), number)
        assert stop.requested
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_handlers_come_back_without_a_signal_too() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(ValueError, match="within"), StopRequest():
        raise ValueError("within")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_the_second_signal_acts_as_usual() -> None:
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_outside_the_main_thread() -> None:
    found = []

    def work() -> None:
        with StopRequest() as stop:
            found.append(stop.requested)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]
