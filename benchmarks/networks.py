"""Whole trainings: Cora beside PyG's GAT example, and an epoch at 1,000,000 nodes beside one at 100,000."""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from timing import in_turns
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv

from detgraph.config import load_config, parse_config
from detgraph.data.benchmarks import load_benchmark
from detgraph.memory import keep_freed_memory
from detgraph.recipes import find_recipe
from detgraph.tasks.node import NodeTask
from detgraph.training.launch import prepare, start

EPOCHS = 200
MEMORY = 12 * 2**30


class GAT(nn.Module):
    """The model of PyG's examples/gat.py: 8 × 8 heads, dropout .6, one output head."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first = GATConv(features, 8, 8, dropout=0.6)
        self.second = GATConv(64, classes, heads=1, concat=False, dropout=0.6)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = functional.dropout(x, p=0.6, training=self.training)
        x = functional.elu(self.first(x, edge_index))
        x = functional.dropout(x, p=0.6, training=self.training)
        out: Tensor = self.second(x, edge_index)
        return out


def cora_run() -> dict[str, Any]:
    """200 epochs of 8 × 8 heads with an evaluation each; ours with its searches for neighbours."""
    graph = load_benchmark("cora").graph
    x = functional.normalize(graph.x.to_dense(), p=1.0)

    def peer() -> None:
        model = GAT(x.size(1), int(graph.y.max()) + 1)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)
        for _ in range(EPOCHS):
            model.train()
            optimizer.zero_grad()
            out = model(x, graph.edge_index)
            functional.cross_entropy(out[graph.train_mask], graph.y[graph.train_mask]).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                predicted = model(x, graph.edge_index).argmax(dim=-1)
            for mask in (graph.train_mask, graph.val_mask, graph.test_mask):
                int((predicted[mask] == graph.y[mask]).sum())

    def ours() -> None:
        settings = [f"training.epochs={EPOCHS}", "neighbors.every=5", "training.sn_weight=0.1"]
        config = load_config(find_recipe("node/cora-paper"), settings)
        with tempfile.TemporaryDirectory() as folder:
            start(config, Path(folder) / "run").train()

    return in_turns(ours, peer, repeats=3, bar=0.5)


def epoch_cost(nodes: int) -> dict[str, Any]:
    """Seconds of a training epoch on a generated network, with semantic neighbours found and in use."""
    config = parse_config(
        {
            "task": "node",
            "data": {"name": "papers", "num_nodes": nodes},
            "neighbors": {"k": 8, "source": "propagated"},
        }
    )
    task = prepare(config)
    assert isinstance(task, NodeTask)
    started = time.perf_counter()
    task.start_epoch(0)
    search = time.perf_counter() - started
    optimizer = torch.optim.Adam(task.parameters())
    times = []
    for epoch in range(4):
        started = time.perf_counter()
        task.train()
        for batch in task.batches(epoch):
            torch.stack(list(task(batch).values())).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        times.append(time.perf_counter() - started)
    part = task.parts[0]
    size = nodes + part.edge_index.size(1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": min(times[1:]), "size": size, "search": search, "peak": peak}


def million_nodes() -> dict[str, Any]:
    """Cost a node and edge, each size in a process of its own (the peak of memory is that of a process)."""
    small, large = (
        json.loads(
            subprocess.run(
                [sys.executable, __file__, str(nodes)], capture_output=True, text=True, check=True
            ).stdout.splitlines()[-1]
        )
        for nodes in (100_000, 1_000_000)
    )
    ours, peer = (cost["seconds"] / cost["size"] for cost in (large, small))
    return {
        "ours": ours,
        "peer": peer,
        "ratio": round(ours / peer, 3),
        "bar": 2.0,
        "holds": large["peak"] < MEMORY,
        "epoch_seconds": round(large["seconds"], 2),
        "search_seconds": round(large["search"], 1),
        "peak_gb": round(large["peak"] / 2**30, 2),
    }


if __name__ == "__main__":
    keep_freed_memory()  # as the command line does
    print(json.dumps(epoch_cost(int(sys.argv[1]))))
