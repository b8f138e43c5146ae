"""The one exception for mistakes a user can mend."""

from collections.abc import Iterable
from difflib import get_close_matches


class DetError(Exception):
    """Bad input: what was got, what was expected, where, and what to do.

    The command line prints the message and exits with 2; there is no traceback.
    """


def unknown_name(kind: str, name: str, known: Iterable[str]) -> DetError:
    """An error for a name that does not exist, naming the nearest one and all others."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return DetError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(names)}.")
