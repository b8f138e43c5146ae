"""Ctrl-C and SIGTERM end training between two batches, with everything saved."""

import signal
import threading
from types import FrameType
from typing import Any


class Interrupted(Exception):
    """Training was asked to stop and has saved its state."""


class StopRequest:
    """A context in which the first SIGINT or SIGTERM only raises a flag; a second one acts as usual."""

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():  # signals reach no other thread
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
