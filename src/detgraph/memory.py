"""How the process of a command keeps its memory."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's malloc.h


def keep_freed_memory() -> None:
    """Let freed arrays be reused instead of going back to the system.

    A training step frees and takes the same large arrays again and again. glibc maps each of them anew, and
    the system clears it page by page: a third of a step at a million nodes. Nothing happens where malloc is
    not glibc's.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, -1)
