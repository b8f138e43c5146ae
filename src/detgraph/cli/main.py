"""`det`: the command line of detgraph."""

import os
import signal
import sys
import threading
from importlib import import_module

# Waiting threads that spin can slow a step many times over; this must stand before torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import typer
from rich.console import Console

from detgraph import __version__
from detgraph.errors import DetError
from detgraph.memory import keep_freed_memory

COMMANDS = {
    "demo": "Train DET and its structural-only twin on all three tasks, in minutes.",
    "train": "Train a model from a configuration file or recipe.",
    "resume": "Go on with an interrupted run.",
    "evaluate": "Measure a finished run on its validation or test split.",
    "predict": "Predict properties of molecules, classes of nodes or missing ends of triples.",
    "neighbors": "Show whom an entity of a knowledge graph, or a node of a network, attends to.",
    "submit": "Write a submission for OGB's leaderboard of PCQM4M.",
    "compare": "Train several models on the same data and seeds, and compare them.",
    "reproduce": "Print and train again the tables and figures of the paper.",
    "tune": "Search for good settings on the validation split.",
    "recipes": "List, show and copy ready configurations.",
    "data": "List, fetch and check data sets.",
    "doctor": "Check this installation and machine.",
}

app = typer.Typer(
    help="One Transformer for molecules, networks and knowledge graphs: "
    "a structural encoder for near neighbours, a semantic encoder that finds useful distant ones.",
    epilog="First steps: `det demo`, then `det recipes list` and `det train node/cora`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def show_version(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    """Handle options that stand before any command."""
    if version:
        print(f"detgraph {__version__}")
        raise typer.Exit


def forward(context: typer.Context) -> None:
    """Hand all arguments to the command's own file, loaded only now: torch takes seconds to import."""
    command = import_module(f"detgraph.cli.{context.info_name}")
    command.app(args=context.args, prog_name=f"det {context.info_name}")


for name, text in COMMANDS.items():
    app.command(
        name,
        help=text,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )(forward)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a user's mistake is a message and exit code 2, never a traceback."""
    keep_freed_memory()
    if threading.current_thread() is threading.main_thread():
        # Unfinished files and processes are cleared away, as after Ctrl-C; training saves its state first.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        app(args=arguments)
    except (DetError, OSError) as error:  # OSError: a folder without permission, a full disk
        Console(stderr=True, soft_wrap=True).print(
            f"error: {error}", style="red", markup=False, highlight=False
        )
        sys.exit(2)
