"""`det predict` for networks: what the run says of every node."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from detgraph.cli.display import console
from detgraph.data.table_stream import open_table, row_writer
from detgraph.files import atomic_path
from detgraph.tasks import NodeTask
from detgraph.tasks.node import MASKS
from detgraph.training.launch import load_run

COLUMNS = ("id", "split", "label", "predicted", "probability")
SEVERAL = ";"  # between the labels of a node, as in node tables


def predict_nodes(folder: Path, output: Path | None) -> None:
    """Write a row for each node of the run's network."""
    output = output or folder / "predictions.csv"
    task = load_run(folder)
    assert isinstance(task, NodeTask)
    graphs = task.data.graph.graph_id.tolist() if "graph_id" in task.data.graph else None
    with atomic_path(output) as temporary, open_table(temporary, output) as file:
        write = row_writer(file, output)
        write(COLUMNS if graphs is None else ("graph", *COLUMNS))
        for number, row in enumerate(node_rows(task)):
            write(row if graphs is None else (str(graphs[number]), *row))
    console.print(f"{len(task.data.nodes):,} nodes predicted.")
    console.print(f"Written: {output}")


def node_rows(task: NodeTask) -> Iterator[tuple[str, ...]]:
    """`COLUMNS` of every node: its id, split and label, where it has them, and what is predicted."""
    data, logits = task.data, task.predict_all()
    if data.multi_label:
        chosen, probability = task.choose_labels(logits, data.graph.y), logits.sigmoid()
    else:
        best = logits.argmax(dim=1, keepdim=True)
        chosen, probability = best == torch.arange(logits.size(1)), logits.softmax(dim=1)
    names = np.array(data.classes, dtype=object)
    splits = [""] * len(data.nodes)
    for split, mask in MASKS.items():
        for node in data.graph[mask].nonzero()[:, 0].tolist():
            splits[node] = split
    pairs = zip(chosen.numpy(), probability.numpy(), strict=True)
    for node, (found, shares) in enumerate(pairs):
        sure = SEVERAL.join(f"{share:.4f}" for share in shares[found])
        yield data.nodes[node], splits[node], data.label(node), SEVERAL.join(names[found]), sure
