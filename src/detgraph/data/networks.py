"""Networks for node classification: one form, one place for its policies, and readers of a user's files."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor
from torch_geometric.data import Data

from detgraph.data.features import read_feature_file, table_features
from detgraph.data.tables import read_pairs, read_table, require_column, where
from detgraph.errors import DetError

MASKS = ("train_mask", "val_mask", "test_mask")
UNKNOWN = ("", "nan", "NaN", "NA", "null")  # labels that are none
SPLITS = {"train": 0, "valid": 1, "val": 1, "test": 2}  # a user's word -> position in MASKS


@dataclass(frozen=True)
class Network:
    """One network, or several disjoint ones, ready for node classification.

    Attributes:
        graph: ``x`` float32 (nodes, features), dense or ``sparse_csr``, or None; ``edge_index`` int64
            (2, edges) in both directions, without self-loops and duplicates, sorted by (target, source);
            ``y`` int64 (nodes,) with -1 for unknown, or float32 (nodes, labels) with a row of NaN for
            unknown; ``train_mask``, ``val_mask``, ``test_mask`` bool (nodes,), disjoint, labelled nodes
            only; ``graph_id`` int64 (nodes,) when there are several graphs.
        nodes: The user's own ids, in row order.
        classes: Class or label names.
        name: What the network is called in reports.
        notes: Policies applied while reading, for people.
        counts_known: Whether predictions are told how many labels each node has.
    """

    graph: Data
    nodes: tuple[str, ...]
    classes: tuple[str, ...]
    name: str
    notes: tuple[str, ...] = ()
    counts_known: bool = False

    @property
    def multi_label(self) -> bool:
        """Whether a node may have several labels at once."""
        return bool(self.graph.y.dim() == 2)

    def label(self, node: int) -> str:
        """A node's class, or its labels separated by ``;``; blank if unknown."""
        y = self.graph.y[node]
        places = (y == 1).nonzero()[:, 0].tolist() if self.multi_label else [int(y)] if y >= 0 else []
        return ";".join(self.classes[place] for place in places)

    @classmethod
    def from_data(
        cls,
        data: Data,
        *,
        name: str = "network",
        nodes: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
        split_seed: int = 0,
        notes: Sequence[str] = (),
    ) -> "Network":
        """Check and normalise any PyG ``Data``; every reader ends here, so all policies are here.

        Edges become undirected, self-loops go, duplicates merge; without masks the labelled nodes are
        split at random 60/20/20. ``notes`` of the caller come first, then one for each policy applied.
        """
        y, classes = _labels(name, data.y, classes)
        ids = tuple(map(str, range(len(y)))) if nodes is None else tuple(nodes)
        if len(ids) != len(y):
            raise DetError(f"{name}: {len(ids)} node ids for {len(y)} labels. Give one id a node.")
        if len(set(ids)) != len(ids):
            twice = Counter(ids).most_common(1)[0][0]
            raise DetError(f"{name}: the node id {twice!r} is given twice. Make the ids unique.")
        x = _features(name, data.x, ids)
        edge_index, edge_notes = _edges(name, data.edge_index, len(ids))
        labelled = ~y[:, 0].isnan() if y.dim() == 2 else y >= 0
        masks, mask_notes = _masks(name, data, labelled, ids, split_seed)
        unused = [key for key in ("edge_attr", "edge_weight") if getattr(data, key, None) is not None]

        graph = Data(x=x, edge_index=edge_index, y=y, num_nodes=len(ids))
        for key, mask in zip(MASKS, masks, strict=True):
            graph[key] = mask
        graph_id = getattr(data, "graph_id", None)
        if graph_id is not None:
            graph.graph_id = _graph_id(name, graph_id, edge_index, ids)
        unused_notes = [f"{key} is not used" for key in unused]
        return cls(graph, ids, tuple(classes), name, (*notes, *edge_notes, *mask_notes, *unused_notes))


def read_network(
    edges: Path,
    nodes: Path,
    *,
    id_column: str = "id",
    label_column: str = "label",
    split_column: str = "split",
    features: Path | None = None,
    multi_label: bool = False,
    split_seed: int = 0,
) -> Network:
    """Read a network from an edge list and a node table.

    Args:
        edges: ``.csv``, ``.tsv`` or ``.parquet`` with a header, of which the first two columns are used;
            any other ending is a list ``source target`` separated by blanks, without a header.
        nodes: ``.csv``, ``.tsv`` or ``.parquet``. Columns other than the three below are features if they
            hold numbers; a text column ``features`` holds sparse ones (``3 17`` or ``3:0.5 17:1``).
        id_column: The node's id, as used in ``edges``.
        label_column: The class; blank, NaN, NA or null is unknown; several for ``multi_label``, with ``;``.
        split_column: train, valid, test or blank; without the column there is a random 60/20/20 split.
        features: A feature file instead, one row a node: SVMlight, ``.npy`` or ``.npz``.
        multi_label: Whether a node may have several labels.
        split_seed: Seed of the random split.
    """
    table = read_table(nodes)
    for column in (id_column, label_column):
        require_column(table, column, nodes)
    ids = _read_ids(table, id_column, nodes)
    if table[label_column].dtype.is_nested() or table[label_column].dtype == pl.Binary:
        raise DetError(
            f"{nodes}: column {label_column!r} holds {table[label_column].dtype}, expected a name of a class."
            + (" Of several labels make one text, with ; between." if multi_label else "")
        )
    labels = table[label_column].cast(pl.String).str.strip_chars().fill_null("")
    y, classes = _read_labels(labels, multi_label)
    if len(classes) < 2:
        got = f"only the label {classes[0]!r}" if classes else "no label"
        raise DetError(f"{nodes}: column {label_column!r} holds {got}. Training needs nodes of two or more.")
    if _are_measurements(classes):
        raise DetError(
            f"{nodes}: column {label_column!r} holds {classes[0]}, {classes[1]}, …: it looks like a number "
            "to predict; networks have classification only. Give classes."
        )
    edge_index, notes = read_edges(edges, ids, nodes)
    words = int(labels.is_in([word for word in UNKNOWN if word]).sum())
    if words:
        notes.append(f"{words} labels that are NaN, NA or null are unknown")

    if split_column == "split":  # the default may be absent
        alike = {column.lower(): column for column in table.columns}
        split_column = alike.get("split", split_column)
    else:
        require_column(table, split_column, nodes)
    if features is None:
        others = [c for c in table.columns if c not in (id_column, label_column, split_column)]
        x, feature_notes = table_features(table, others, nodes)
    else:
        x, feature_notes = read_feature_file(features)
        if len(x) != table.height:
            raise DetError(
                f"{features}: has {len(x)} rows, but {nodes} has {table.height} nodes. "
                "Give one row of features a node, in the order of the node table."
            )
    data = Data(x=x, edge_index=edge_index, y=y)
    if split_column in table.columns:
        _read_splits(table[split_column], nodes, data)
    return Network.from_data(
        data,
        name=nodes.stem,
        nodes=ids.to_list(),
        classes=classes,
        split_seed=split_seed,
        notes=(*notes, *feature_notes),
    )


def _labels(name: str, y: Any, classes: Sequence[str] | None) -> tuple[Tensor, Sequence[str]]:
    """``y`` as int64 (nodes,) or float32 (nodes, labels), and the class names."""
    if not isinstance(y, Tensor) or y.dim() not in (1, 2) or (y.dim() == 1 and y.is_floating_point()):
        got = f"{y.dtype} {tuple(y.shape)}" if isinstance(y, Tensor) else repr(y)
        raise DetError(
            f"{name}: y is {got}, expected class indices int64 (nodes,) with -1 for unknown, "
            "or 0/1 labels (nodes, labels) with a row of NaN for unknown."
        )
    if len(y) == 0:
        raise DetError(f"{name}: the network is empty. Give at least one node.")
    if y.dim() == 2:
        y = y.to(torch.float32)
        unknown = y.isnan().all(dim=1)
        wrong = ((y != 0) & (y != 1)).any(dim=1) & ~unknown
        count = y.shape[1]
        expected = "0 and 1, or a row of NaN"
    else:
        y = y.to(torch.int64)
        count = len(classes) if classes is not None else max(int(y.max()) + 1, 0)
        wrong = (y < -1) | (y >= count)
        expected = f"-1 to {count - 1}"
        if classes is None and count > len(y):
            raise DetError(
                f"{name}: y holds {count - 1}, but there are {len(y)} nodes only. Number the classes from 0, "
                "or give their names."
            )
    if count < 3 - y.dim():  # one label may be there or not
        raise DetError(f"{name}: there are {count} classes. Training needs labelled nodes of two or more.")
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise DetError(f"{name}: row {row} of y is {y[row].tolist()}, expected {expected}.")
    names = tuple(map(str, range(count))) if classes is None else classes
    if len(names) != count:
        raise DetError(f"{name}: {len(names)} label names for {count} columns of y. Give one a column.")
    return y, names


def _features(name: str, x: Tensor | None, ids: Sequence[str]) -> Tensor | None:
    """``x`` as finite float32 (nodes, features), dense or CSR as it came."""
    if x is None:
        return None
    if not isinstance(x, Tensor) or x.dim() != 2 or x.shape[0] != len(ids) or x.is_complex():
        got = f"{x.dtype} {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
        raise DetError(f"{name}: x is {got}, expected a tensor of numbers ({len(ids)} nodes, features).")
    if x.layout not in (torch.strided, torch.sparse_csr):
        x = x.to_sparse_csr()
    x = x.to(torch.float32)
    finite = (x if x.layout == torch.strided else x.values()).isfinite()
    if not finite.all():
        place = (~finite).nonzero()[0]
        if x.layout == torch.strided:
            row, column = int(place[0]), int(place[1])
            value = float(x[row, column])
        else:
            row = int(torch.searchsorted(x.crow_indices(), place, right=True)) - 1
            column, value = int(x.col_indices()[place]), float(x.values()[place])
        raise DetError(
            f"{name}: feature {column} of node {ids[row]!r} (row {row}) is {value}, "
            "expected a finite number. Fill in missing values first."
        )
    return x


def _edges(name: str, edge_index: Any, count: int) -> tuple[Tensor, list[str]]:
    """Edges in both directions without self-loops and duplicates, sorted by (target, source)."""
    kinds = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    if (
        not isinstance(edge_index, Tensor)
        or edge_index.dim() != 2
        or edge_index.shape[0] != 2
        or edge_index.dtype not in kinds
    ):
        got = (
            f"{edge_index.dtype} {tuple(edge_index.shape)}" if isinstance(edge_index, Tensor) else edge_index
        )
        raise DetError(
            f"{name}: edge_index is {got}, expected int64 (2, edges). "
            "A network without edges has torch.empty(2, 0, dtype=torch.int64)."
        )
    outside = ((edge_index < 0) | (edge_index >= count)).any(dim=0)
    if outside.any():
        edge = int(outside.nonzero()[0])
        raise DetError(
            f"{name}: edge {edge} joins {edge_index[:, edge].tolist()}, "
            f"expected node indices 0 to {count - 1}."
        )
    source, target = edge_index.to(torch.int64)
    proper = source != target
    given = torch.unique(target[proper] * count + source[proper])  # one number an edge, sorted
    reverse = (given % count) * count + given // count
    both = torch.unique(torch.cat([given, reverse]))

    loops, duplicates = int((~proper).sum()), int(proper.sum()) - len(given)
    one_way = len(both) - len(given)
    notes = [
        text
        for number, text in (
            (loops, f"{loops} self-loops dropped"),
            (duplicates, f"{duplicates} duplicate edges merged"),
            (one_way, f"{one_way} edges given in one direction: the other added"),
        )
        if number
    ]
    return torch.stack([both % count, both // count]), notes


def _masks(
    name: str, data: Data, labelled: Tensor, ids: Sequence[str], seed: int
) -> tuple[list[Tensor], list[str]]:
    """The three masks of ``data`` on labelled nodes, or a random split."""
    count, notes = len(labelled), []
    masks: list[Any] = [getattr(data, key, None) for key in MASKS]
    if all(mask is None for mask in masks):
        masks = _random_split(labelled, seed)
        notes.append(f"no split given: 60/20/20 of the labelled nodes at random, seed {seed}")
    for key, mask in zip(MASKS, masks, strict=True):
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != (count,):
            got = f"{mask.dtype} {tuple(mask.shape)}" if isinstance(mask, Tensor) else repr(mask)
            raise DetError(
                f"{name}: {key} is {got}, expected bool ({count} nodes,). Give all three masks or none."
            )
    overlap = torch.stack(masks).sum(dim=0) > 1
    if overlap.any():
        node = ids[int(overlap.nonzero()[0])]
        raise DetError(f"{name}: node {node!r} is in more than one of train, valid and test. Keep one.")
    for key, mask in zip(MASKS, masks, strict=True):
        unlabelled = int((mask & ~labelled).sum())
        if unlabelled:
            notes.append(f"{unlabelled} nodes without a label left out of {key}")
    masks = [mask & labelled for mask in masks]
    if not masks[0].any():
        raise DetError(f"{name}: no training node has a label. Label some nodes of the training split.")
    return masks, notes


def _random_split(labelled: Tensor, seed: int) -> list[Tensor]:
    order = np.random.default_rng(seed).permutation(labelled.nonzero().view(-1).numpy())
    train = max(1, round(0.6 * len(order)))
    valid = round(0.2 * len(order))
    masks = []
    for part in np.split(order, [train, train + valid]):
        mask = torch.zeros(len(labelled), dtype=torch.bool)
        mask[torch.from_numpy(part)] = True
        masks.append(mask)
    return masks


def _graph_id(name: str, graph_id: Any, edge_index: Tensor, ids: Sequence[str]) -> Tensor:
    if not isinstance(graph_id, Tensor) or graph_id.shape != (len(ids),) or graph_id.is_floating_point():
        raise DetError(f"{name}: graph_id has a wrong shape or type, expected int64 ({len(ids)} nodes,).")
    across = graph_id[edge_index[0]] != graph_id[edge_index[1]]
    if across.any():
        source, target = (ids[int(end)] for end in edge_index[:, int(across.nonzero()[0])])
        raise DetError(
            f"{name}: the edge {source!r} - {target!r} joins two graphs. Expected disjoint graphs."
        )
    return graph_id.to(torch.int64)


def _read_ids(table: pl.DataFrame, column: str, path: Path) -> pl.Series:
    ids = table[column].cast(pl.String).str.strip_chars().fill_null("")
    blank = (ids == "").arg_true()
    if len(blank):
        raise DetError(f"{where(path, blank[0])}: column {column!r} is blank. Give every node an id.")
    twice = ids.is_duplicated().arg_true()
    if len(twice):
        first, second = (ids == ids[twice[0]]).arg_true()[:2]
        raise DetError(
            f"{where(path, second)}: the id {ids[first]!r} was given before, at {where(path, first)}. "
            "Keep one of the two rows."
        )
    return ids


def _read_labels(labels: pl.Series, multi_label: bool) -> tuple[Tensor, list[str]]:
    """Class indices, or a 0/1 matrix, from label texts; class names sorted, numbers as numbers."""
    pairs = pl.DataFrame({"label": labels}).with_row_index("row")
    if multi_label:
        pairs = pairs.with_columns(pl.col("label").str.split(";")).explode("label")
    pairs = pairs.with_columns(pl.col("label").str.strip_chars()).filter(~pl.col("label").is_in(UNKNOWN))
    names: list[str] = pairs["label"].unique().to_list()
    names.sort(key=(lambda n: (len(n), n)) if all(n.isdecimal() for n in names) else None)
    rows = torch.from_numpy(pairs["row"].to_numpy().astype(np.int64))
    columns = torch.from_numpy(_positions(pairs["label"], names).to_numpy().astype(np.int64))
    if not multi_label:
        y = torch.full((len(labels),), -1)
        y[rows] = columns
        return y, names
    matrix = torch.full((len(labels), len(names)), torch.nan)
    matrix[rows] = 0.0
    matrix[rows, columns] = 1.0
    return matrix, names


def _are_measurements(labels: Sequence[str]) -> bool:
    """Whether all are numbers, and some of them not whole."""
    try:
        return not all(float(label).is_integer() for label in labels)
    except ValueError:
        return False


def _positions(values: pl.Series, known: Sequence[str] | pl.Series) -> pl.Series:
    """The place of each value in ``known``; null for a value that is not there."""
    return values.replace_strict(known, range(len(known)), default=None, return_dtype=pl.Int64)


def read_edges(path: Path, ids: pl.Series, nodes: Path) -> tuple[Tensor, list[str]]:
    """Edges (2, edges) between the rows of the node table at ``nodes``, whose ids are ``ids``; and notes."""
    pairs, place, notes = read_pairs(path)
    if pairs.columns != ["source", "target"] and pl.Series(pairs.columns).is_in(ids.implode()).all():
        raise DetError(f"{path}:1: is an edge, expected a header. Add a first line such as source,target.")
    ends = []
    for end in pairs:
        index = _positions(end, ids)
        unknown = index.is_null().arg_true()
        if len(unknown):
            row = int(unknown[0])
            raise DetError(
                f"{place(row)}: the node {end[row]!r} is not in {nodes}. Add it there, or remove the edge."
            )
        ends.append(torch.from_numpy(index.to_numpy().astype(np.int64)))
    return torch.stack(ends), notes


def _read_splits(column: pl.Series, path: Path, data: Data) -> None:
    """Set the masks of ``data`` from the words of the split column."""
    words = column.cast(pl.String).str.strip_chars().str.to_lowercase().fill_null("")
    wrong = (~words.is_in([*SPLITS, ""])).arg_true()
    if len(wrong):
        raise DetError(
            f"{where(path, wrong[0])}: unknown split {column[wrong[0]]!r}, "
            "expected train, valid, test or blank."
        )
    position = words.replace_strict([*SPLITS, ""], [*SPLITS.values(), -1], return_dtype=pl.Int64).to_numpy()
    for number, key in enumerate(MASKS):
        data[key] = torch.from_numpy(position == number)
