"""Freed memory stays with the process."""

import subprocess
import sys

import pytest

RESIDENT = """
import numpy
from detgraph.memory import keep_freed_memory
keep_freed_memory()
array = numpy.ones(2**26, numpy.uint8)
del array
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS")))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc and /proc are Linux's")
def test_freed_arrays_stay() -> None:
    kept = subprocess.run([sys.executable, "-c", RESIDENT], capture_output=True, text=True, check=True)
    freed = subprocess.run(
        [sys.executable, "-c", RESIDENT.replace("\nkeep_freed_memory()", "")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(kept.stdout) - int(freed.stdout) > 2**26 / 1024 * 0.9
