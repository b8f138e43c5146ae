"""Molecules at ZINC's size: training steps beside other Transformers, and reading SMILES beside OGB."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from timing import in_turns
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import GINEConv, GPSConv, global_add_pool

from detgraph.config import GraphConfig, load_config
from detgraph.data.benchmarks import load_benchmark
from detgraph.data.featurize import featurize
from detgraph.data.molecules import Molecules
from detgraph.recipes import find_recipe
from detgraph.tasks import GraphTask

BATCH, REPEATS, WALKS = 64, 9, 20
HOPS, PARAMETERS = 40, 489_562  # of the paper's model
SMILES = 1000


def zinc_task(*settings: str) -> GraphTask:
    """The recipe of the paper's size on 2,000 molecules."""
    config = load_config(find_recipe("graph/zinc-paper"), ["data.limit=2000", *settings])
    assert isinstance(config, GraphConfig)
    data = load_benchmark("zinc", limit=2000)
    assert isinstance(data, Molecules)
    torch.manual_seed(0)
    task = GraphTask(data, config)
    parameters = sum(parameter.numel() for parameter in task.parameters())
    assert settings or (parameters, config.model.hops) == (PARAMETERS, HOPS)
    return task


def training_step(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], None]:
    """Forward, backward and update; ``loss`` makes its batch anew each time, as in training."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    model.train()

    def work() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    return work


def our_step(task: GraphTask, index: Any) -> Callable[[], None]:
    return training_step(task, lambda: task(task.collate(index))["main"])


def some_molecules(task: GraphTask) -> Any:
    return np.random.default_rng(0).permutation(task.data.splits["train"])[:BATCH]


def graphormer_item(task: GraphTask, molecule: int) -> dict[str, Tensor]:
    """What Hugging Face's preprocessing makes of a molecule, once before training."""
    graph, ways = task.data.graphs[molecule], task.data.graphs.paths
    size, first = graph.num_nodes, int(task.data.graphs.pair_start[molecule])
    longest = int(ways.distance[first : first + size**2].max()) - 1
    distance, edge = torch.zeros(size, size, dtype=torch.long), torch.zeros(size, size, 1, dtype=torch.long)
    paths = torch.zeros(size, size, min(longest, HOPS), 1, dtype=torch.long)
    edge[graph.edge_index[0], graph.edge_index[1]] = graph.edge_attr + 1
    for i in range(size):
        kinds: list[list[int]] = []
        for place in range(first + i * size, first + (i + 1) * size):
            j, length = int(ways.atom[place]), int(ways.distance[place])
            distance[i, j] = length + 1
            shorter = kinds[int(ways.before[place])] if kinds else []
            kinds.append([*shorter, int(ways.bond[place]) + 2] if length > 1 else [])
            bonds = torch.tensor(kinds[-1][:HOPS], dtype=torch.long)
            paths[i, j, : len(bonds), 0] = bonds
    degree = torch.bincount(graph.edge_index[1], minlength=size) + 1
    return {
        "input_nodes": graph.x + 1,
        "in_degree": degree,
        "spatial_pos": distance,
        "attn_edge_type": edge,
        "input_edges": paths,
    }


def graphormer_batch(items: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The items padded to the largest, as Hugging Face's collator does."""
    batch = {}
    for name in items[0]:
        parts = [item[name] for item in items]
        shape = [max(part.size(axis) for part in parts) for axis in range(parts[0].dim())]
        batch[name] = torch.zeros(len(parts), *shape, dtype=torch.long)
        for row, part in zip(batch[name], parts, strict=True):
            row[tuple(slice(length) for length in part.shape)] = part
    nodes = batch["in_degree"].size(1)
    return {
        **batch,
        "out_degree": batch["in_degree"],
        "attn_bias": torch.zeros(len(items), nodes + 1, nodes + 1),
    }


def graphormer_step(task: GraphTask, index: Any) -> Callable[[], None]:
    """Hugging Face's Graphormer with the same sizes, molecules and encodings."""
    from transformers import GraphormerConfig, GraphormerForGraphClassification

    items = [graphormer_item(task, molecule) for molecule in index.tolist()]
    config = GraphormerConfig(
        num_classes=1,
        num_atoms=64,
        num_edges=64,
        num_in_degree=64,
        num_out_degree=64,
        num_spatial=40,
        num_edge_dis=HOPS,
        multi_hop_max_dist=HOPS,
        num_hidden_layers=12,
        num_layers=12,
        embedding_dim=80,
        hidden_size=80,
        ffn_embedding_dim=80,
        num_attention_heads=8,
        dropout=0.1,
        attention_dropout=0.1,
        pre_layernorm=True,
        spatial_pos_max=1024,
    )
    model = GraphormerForGraphClassification(config)
    y = torch.from_numpy(task.data.y[index])
    return training_step(model, lambda: (model(**graphormer_batch(items)).logits - y).abs().mean())


class GPS(nn.Module):
    """The model of PyG's examples/graph_gps.py: 10 layers of 64, GINE and attention, 20 random-walk steps."""

    def __init__(self, channels: int = 64, walk_channels: int = 8, layers: int = 10) -> None:
        super().__init__()
        self.atom = nn.Embedding(28, channels - walk_channels)
        self.walk, self.walk_norm = nn.Linear(WALKS, walk_channels), nn.BatchNorm1d(WALKS)
        self.bond = nn.Embedding(4, channels)
        self.layers = nn.ModuleList(
            GPSConv(
                channels,
                GINEConv(
                    nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, channels))
                ),
                heads=4,
                attn_type="multihead",
                attn_kwargs={"dropout": 0.5},
            )
            for _ in range(layers)
        )
        self.out = nn.Sequential(
            nn.Linear(channels, channels // 2),
            nn.ReLU(),
            nn.Linear(channels // 2, channels // 4),
            nn.ReLU(),
            nn.Linear(channels // 4, 1),
        )

    def forward(self, data: Any) -> Tensor:
        x = torch.cat([self.atom(data.x[:, 0]), self.walk(self.walk_norm(data.walk))], dim=1)
        bonds = self.bond(data.edge_attr[:, 0])
        for layer in self.layers:
            x = layer(x, data.edge_index, data.batch, edge_attr=bonds)
        out: Tensor = self.out(global_add_pool(x, data.batch))
        return out


def gps_step(task: GraphTask, index: Any) -> Callable[[], None]:
    graphs = [task.data.graphs[i] for i in index.tolist()]
    for graph in graphs:
        graph.walk = torch.rand(graph.num_nodes, WALKS)
        graph.x = graph.x.clamp(max=27)
    model, y = GPS(), torch.from_numpy(task.data.y[index])
    return training_step(model, lambda: (model(Batch.from_data_list(graphs)) - y).abs().mean())


def step_beside_graphormer() -> dict[str, Any]:
    task = zinc_task()
    index = some_molecules(task)
    return in_turns(our_step(task, index), graphormer_step(task, index), REPEATS, 1 / 2)


def step_beside_gps() -> dict[str, Any]:
    task = zinc_task()
    index = some_molecules(task)
    return in_turns(our_step(task, index), gps_step(task, index), REPEATS, 1 / 1.2)


def semantic_encoder() -> dict[str, Any]:
    """A step with the semantic encoder beside one without it."""
    dual, structural = zinc_task(), zinc_task("model.tau=1")
    index = some_molecules(dual)
    return in_turns(our_step(dual, index), our_step(structural, index), 2 * REPEATS, 1.1)


def reading_smiles() -> dict[str, Any]:
    """Codes and shortest paths on one core, beside OGB's graphs and a Floyd–Warshall search."""
    from ogb.utils.mol import smiles2graph
    from scipy.sparse.csgraph import floyd_warshall

    data = load_benchmark("zinc", limit=SMILES)
    assert isinstance(data, Molecules)
    numba.set_num_threads(1)

    def peer() -> None:
        for text in data.smiles:
            graph = smiles2graph(text)
            nodes = graph["num_nodes"]
            adjacency = np.zeros((nodes, nodes))
            adjacency[graph["edge_index"][0], graph["edge_index"][1]] = 1
            floyd_warshall(adjacency, directed=False, unweighted=True, return_predecessors=True)

    return in_turns(lambda: featurize(data.smiles, "standard", ""), peer, 5, 1 / 3)
