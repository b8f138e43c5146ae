"""One self-contained HTML page on one or several runs: outcome, curves, configuration, versions."""

import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from detgraph.config.schema import model_name
from detgraph.files import write_text
from detgraph.training.run import RunFolder, read_json

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 980px; margin: 2em auto; padding: 0 1em;
       color: #1b1f24 }
h1 { font-size: 1.6em } h2 { font-size: 1.2em; margin-top: 2em }
table { border-collapse: collapse } th, td { padding: .3em .9em; text-align: left }
th { border-bottom: 2px solid #1b1f24 } td { border-bottom: 1px solid #d6dae0 }
pre { background: #f5f6f8; padding: 1em; overflow-x: auto } svg { max-width: 100%; height: auto }
"""
COLORS = {"det": "#c2410c", "structural": "#1d4ed8"}


def write_report(runs: Sequence[RunFolder], target: Path, title: str = "detgraph report") -> None:
    """Write the page; runs on the same data share one plot."""
    groups: dict[str, list[RunFolder]] = {}
    for run in runs:
        config = run.config()
        groups.setdefault(f"{config.task}: {config.data.label}", []).append(run)
    parts = [f"<h1>{html.escape(title)}</h1>", outcome_table(runs)]
    for name, members in groups.items():
        parts.append(f"<h2>{html.escape(name)}</h2>{notes(members)}{curves(members)}")
        parts += [details(run) for run in members]
    page = f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title>"
    write_text(target, f"{page}<style>{STYLE}</style>{''.join(parts)}</html>")


def outcome_table(runs: Sequence[RunFolder]) -> str:
    """One row a run."""
    head = ("run", "model", "metric", "no input", "valid", "test", "best epoch", "parameters", "seconds")
    rows = []
    for run in runs:
        result, model = run.result(), model_name(run.config())
        if result is None:
            rows.append((run.path.name, model, *[""] * 6, "unfinished"))
            continue
        metric = result["metric"]
        test = "" if result["test"] is None else f"{result['test'][metric]:.4f}"
        numbers = (f"{result['trivial']:.4f}", f"{result['valid'][metric]:.4f}", test)
        counts = (f"{result['best_epoch'] + 1} of {result['epochs']}", f"{result['parameters']:,}")
        rows.append((run.path.name, model, metric, *numbers, *counts, f"{result['seconds']:.1f}"))
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>{body}</table>"


def notes(runs: Sequence[RunFolder]) -> str:
    """What was done to the data and has to be said beside every number."""
    found = [note for run in runs for note in (run.result() or {}).get("notes", ())]
    return "".join(f"<p>Note: {html.escape(note)}</p>" for note in dict.fromkeys(found))


def curves(runs: Sequence[RunFolder]) -> str:
    """Training loss and validation metric by epoch, as inline SVG."""
    figure = Figure(figsize=(9.5, 3.2), layout="constrained")
    loss, score = figure.subplots(1, 2)
    metric = next((result["metric"] for run in runs if (result := run.result())), "")
    for run in runs:
        records, name = run.metrics(), model_name(run.config())
        loss.plot(*series(records, "main"), label=name, color=COLORS.get(name))
        evaluated = [record["valid"] | {"epoch": record["epoch"]} for record in records if "valid" in record]
        score.plot(*series(evaluated, metric), label=name, color=COLORS.get(name))
    loss.set(xlabel="epoch", ylabel="training loss (main)")
    score.set(xlabel="epoch", ylabel=f"validation {metric}")
    for axes in (loss, score):
        axes.grid(alpha=0.3)
        axes.legend()
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return "".join(buffer.getvalue().partition("<svg")[1:])  # without the XML declaration


def series(records: Sequence[dict[str, Any]], key: str) -> tuple[list[int], list[float]]:
    """Epochs and values of one key, where it was recorded."""
    known = [record for record in records if key in record]
    return [record["epoch"] + 1 for record in known], [record[key] for record in known]


def details(run: RunFolder) -> str:
    """Configuration and versions, folded."""
    config = html.escape(run.config_file.read_text(encoding="utf-8"))
    versions = read_json(run.versions_file)
    lines = html.escape("\n".join(f"{name}: {value}" for name, value in versions.items()))
    name = html.escape(run.path.name)
    return f"<details><summary>{name}</summary><pre>{config}</pre><pre>{lines}</pre></details>"
