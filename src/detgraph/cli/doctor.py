"""`det doctor`: check this installation and machine."""

import os
from collections.abc import Callable

import torch
import typer
from rich.console import Console
from rich.table import Table

from detgraph.data.fetch import cache_folder
from detgraph.neighbors import find_neighbors
from detgraph.nn import Dense, DualEncoderLayer
from detgraph.nn.semantic import SearchSpace
from detgraph.training.run import versions

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def doctor() -> None:
    """Print versions and settings, and test the main parts in a second."""
    console = Console(highlight=False)
    facts = Table("what", "value")
    for name, value in versions().items():
        if value or name != "commit":  # an installed package has none
            facts.add_row(name, value or "not installed")
    facts.add_row("device", "cuda" if torch.cuda.is_available() else "cpu")
    facts.add_row("threads", str(torch.get_num_threads()))
    facts.add_row("OMP_WAIT_POLICY", os.environ.get("OMP_WAIT_POLICY", "not set"))
    facts.add_row("DET_DATA", data_folder())
    facts.add_row("cache", str(cache_folder()))
    console.print(facts)

    checks: dict[str, Callable[[], bool]] = {
        "the dense and the sparse form of a layer agree": dense_equals_sparse,
        "the quick and the plain search find the same neighbours": searches_agree,
    }
    failed = [name for name, check in checks.items() if not check()]
    for name in checks:
        console.print(f"{'FAILED' if name in failed else 'ok'}: {name}")
    if failed:
        raise typer.Exit(1)
    console.print("All is well. Next: det demo")


def data_folder() -> str:
    """Where benchmarks are looked for first."""
    folder = os.environ.get("DET_DATA")
    if folder is None:
        return "not set: benchmarks are looked for in the cache"
    return folder if os.path.isdir(folder) else f"{folder} (there is no such folder)"


def dense_equals_sparse() -> bool:
    """On a small ring, with the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        nodes = torch.arange(6)
        ring = torch.cat([torch.stack([nodes, nodes.roll(1)]), torch.stack([nodes.roll(1), nodes])], dim=1)
        layer, x = DualEncoderLayer(8, 4, heads=2), torch.randn(6, 8)
    members = torch.eye(6, dtype=torch.bool)
    members[ring[1], ring[0]] = True
    pairs = members[None, None]
    return bool(torch.allclose(layer(x, ring), layer(x[None], Dense(pairs, pairs))[0], atol=1e-5))


def searches_agree() -> bool:
    """On random points."""
    points = SearchSpace(torch.randn(200, 8, generator=torch.Generator().manual_seed(0)), "l1")
    no_edges = torch.empty(2, 0, dtype=torch.long)
    exact = find_neighbors(points, 4, no_edges, 200, backend="exact")
    return bool((exact == find_neighbors(points, 4, no_edges, 200, backend="scan")).all())
