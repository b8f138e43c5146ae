"""A progress bar that appears only for work that takes its time."""

import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

Item = TypeVar("Item")


def with_progress(items: Sequence[Item], description: str, *, patience: float = 2.0) -> Iterator[Item]:
    """Iterate, and draw a bar on stderr once ``patience`` seconds have passed."""
    start = time.monotonic()
    console = Console(stderr=True)
    with Progress(
        console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(description, total=len(items), visible=False)
        for done, item in enumerate(items):
            yield item
            if done % 64 == 0 and time.monotonic() - start > patience:  # drawing costs more than most items
                progress.update(task, completed=done, visible=True, refresh=True)
