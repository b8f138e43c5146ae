"""Whether this machine can compute in half precision."""

import subprocess
import sys
from functools import cache

PRODUCT = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); torch.nn.functional.linear(x, x)"


@cache
def half_products_run() -> bool:
    """Whether a product in bfloat16 survives on this CPU.

    Some virtual machines promise instructions (AMX) that end the process, hence another process tries.
    """
    return subprocess.run([sys.executable, "-c", PRODUCT], capture_output=True, check=False).returncode == 0
