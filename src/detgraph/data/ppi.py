"""Protein-protein interaction networks: the 24 graphs with features, and node2vec's single graph."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from detgraph.data.networks import MASKS, Network, read_edges
from detgraph.data.tables import read_lines, require_file
from detgraph.errors import DetError


def read_ppi(folder: Path) -> Network:
    """Read ``{train,valid,test}_{graph.json,feats.npy,labels.npy,graph_id.npy}`` as one disjoint network.

    Graphs are the splits: a node of a training graph is a training node. Ids are ``<graph>:<node>``,
    with the node's number within its split.
    """
    parts = [_read_split(folder, split) for split in ("train", "valid", "test")]
    sizes = [len(part["graph_id"]) for part in parts]
    starts = np.cumsum([0, *sizes])
    data = Data(
        x=torch.from_numpy(np.concatenate([part["feats"] for part in parts]).astype(np.float32)),
        y=torch.from_numpy(np.concatenate([part["labels"] for part in parts]).astype(np.float32)),
        edge_index=torch.from_numpy(
            np.concatenate(
                [part["edges"] + start for part, start in zip(parts, starts, strict=False)], axis=1
            )
        ),
        graph_id=torch.from_numpy(np.concatenate([part["graph_id"] for part in parts]).astype(np.int64)),
    )
    split = torch.repeat_interleave(torch.arange(3), torch.tensor(sizes))
    for number, key in enumerate(MASKS):
        data[key] = split == number
    nodes = [f"{graph}:{row}" for part in parts for row, graph in enumerate(part["graph_id"])]
    return Network.from_data(data, name="ppi", nodes=nodes)


def read_node2vec_ppi(folder: Path) -> Network:
    """Read node2vec's Homo-sapiens network: 50 labels, no features, a random 60/20/20 split."""
    path = folder / "node2vec_PPI_labels.txt"
    lines = read_lines(path)
    numbers = lines["text"].str.extract_all(r"\S+").cast(pl.List(pl.Int64), strict=False)
    wrong = (numbers.list.eval(pl.element().is_null() | (pl.element() < 1)).list.any()).arg_true()
    if len(wrong):
        raise DetError(
            f"{path}:{lines['line'][wrong[0]]}: expected whole numbers from 1: node label label ..."
        )
    nodes = numbers.list.first()
    order = nodes.arg_sort()
    nodes, numbers = nodes[order], numbers[order]
    labels = (
        pl.DataFrame({"label": numbers.list.slice(1)}).with_row_index("row").explode("label").drop_nulls()
    )
    names = labels["label"].unique().sort()
    y = np.zeros((len(nodes), len(names)), dtype=np.float32)  # (nodes, labels)
    y[labels["row"].to_numpy(), names.search_sorted(labels["label"]).to_numpy()] = 1.0

    ids = nodes.cast(pl.String)
    edge_index, notes = read_edges(folder / "node2vec_PPI.edgelist", ids, path)
    network = Network.from_data(
        Data(edge_index=edge_index, y=torch.from_numpy(y)),
        name="ppi-node2vec",
        nodes=ids.to_list(),
        classes=names.cast(pl.String).to_list(),
        notes=[*notes, "as node2vec does it, a prediction is told how many labels a node has"],
    )
    return replace(network, counts_known=True)


def _read_split(folder: Path, split: str) -> dict[str, NDArray[Any]]:
    """One split's arrays, and its ``edges`` (2, links) between rows of the split."""
    arrays = {}
    for part, dimensions in (("feats", 2), ("labels", 2), ("graph_id", 1)):
        path = folder / f"{split}_{part}.npy"
        require_file(path)
        try:
            arrays[part] = np.load(path, allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise DetError(f"{path}: is not what numpy.save writes: {error}.") from None
        if arrays[part].ndim != dimensions or len(arrays[part]) != len(arrays["feats"]):
            raise DetError(
                f"{path}: has the shape {arrays[part].shape}, expected {dimensions} dimensions and one row "
                f"for each of the {len(arrays['feats'])} rows of {split}_feats.npy."
            )
    path = folder / f"{split}_graph.json"
    require_file(path)
    try:
        links = json.loads(path.read_text(encoding="utf-8"))["links"]
        edges = np.array([(link["source"], link["target"]) for link in links], dtype=np.int64).reshape(-1, 2)
    except (ValueError, KeyError, TypeError) as error:
        raise DetError(
            f"{path}: expected node-link JSON with whole numbers, such as "
            f'{{"links": [{{"source": 0, "target": 1}}]}}; got {type(error).__name__}: {error}.'
        ) from None
    size = len(arrays["feats"])
    outside = np.flatnonzero(((edges < 0) | (edges >= size)).any(axis=1))
    if len(outside):
        raise DetError(
            f"{path}: link {outside[0]} joins {edges[outside[0]].tolist()}, expected nodes 0 to {size - 1}."
        )
    return {**arrays, "edges": edges.T}
