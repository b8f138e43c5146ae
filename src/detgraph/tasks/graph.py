"""Property prediction: one or many targets of whole molecules."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan, nan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch_geometric.utils import degree
from torchmetrics.functional.classification import binary_auroc

from detgraph.config import GraphConfig
from detgraph.data.molecules import Molecules
from detgraph.data.paths import return_probabilities, shortest_paths
from detgraph.data.progress import with_progress
from detgraph.errors import DetError
from detgraph.nn import MoleculeBatch, MoleculeDET
from detgraph.tasks.base import Metrics, Split, Task


@dataclass(frozen=True)
class EncodedMolecule:
    """A molecule as the model reads it, unpadded; code 0 is kept for padding."""

    atoms: NDArray[np.int64]  # (nodes, columns)
    degree: NDArray[np.int64]  # (nodes,)
    distance: NDArray[np.uint8]  # (nodes, nodes)
    paths: NDArray[np.uint8]  # (nodes, nodes, hops)
    y: NDArray[np.float32]  # (targets,)
    walk: NDArray[np.float32]  # (nodes, steps)


class GraphTask(Task):
    """Molecules → MoleculeDET → regression (L1) or binary classification (cross-entropy) of each target."""

    def __init__(self, data: Molecules, config: GraphConfig) -> None:
        super().__init__(config.seed, data.notes)
        self.data, self.config = data, config
        self.regression = data.kind == "regression"
        self.metric = "mae" if self.regression else "auc"
        self.higher_is_better = not self.regression
        model, features = config.model, data.featurizer
        self.model = MoleculeDET(
            atom_codes=1 + sum(features.atom_sizes),
            bond_codes=1 + sum(features.bond_sizes),
            targets=len(data.targets),
            channels=model.channels,
            heads=model.heads,
            layers=model.layers,
            ffn_channels=model.ffn_channels,
            encoding=model.encoding(share_layers=model.share_layers),
            readout=model.readout,
            hops=model.hops,
            max_degree=model.max_degree,
            max_distance=model.max_distance,
            walk_steps=model.walk_steps,
        )
        self.kinds, self.molecules = encode_molecules(data, model.hops, model.walk_steps)
        y = training_targets(data)
        center = np.nanmean(y, axis=0) if self.regression else np.zeros(y.shape[1])
        spread = np.nanstd(y, axis=0) if self.regression else np.ones(y.shape[1])
        # Scale of the training targets: saved with the weights, so that a run predicts in the user's units.
        self.register_buffer("center", torch.tensor(center, dtype=torch.float32))
        self.register_buffer("spread", torch.tensor(np.where(spread > 0, spread, 1.0), dtype=torch.float32))
        self.center: Tensor
        self.spread: Tensor

    def forward(self, batch: MoleculeBatch) -> dict[str, Tensor]:
        """``main``: mean absolute error (in units of the training spread) or cross-entropy."""
        out = self.model(batch)
        known = ~batch.y.isnan()
        if self.regression:
            total = (out - (batch.y - self.center) / self.spread)[known].abs().sum()
        else:
            total = functional.binary_cross_entropy_with_logits(out[known], batch.y[known], reduction="sum")
        return {"main": total / known.sum().clamp(min=1)}  # a batch may have no label at all

    def steps(self) -> int:
        """Batches an epoch."""
        return -(-len(self.data.splits["train"]) // self.config.training.batch_size)

    def batches(self, epoch: int) -> Iterator[MoleculeBatch]:
        """Training batches of molecules of like size (less padding), in random order."""
        rng = self.rng(epoch)
        order = rng.permutation(self.data.splits["train"])
        size = self.config.training.batch_size
        chunk = 16 * size  # sort by size inside chunks of 16 batches: still random, little padding
        parts = []
        for start in range(0, len(order), chunk):
            part = order[start : start + chunk]
            parts.append(part[np.argsort([len(self.molecules[i].atoms) for i in part], kind="stable")])
        sorted_order = np.concatenate(parts)
        groups = [sorted_order[start : start + size] for start in range(0, len(order), size)]
        for index in rng.permutation(len(groups)):
            yield self.collate(groups[index])

    def collate(self, index: NDArray[np.int64]) -> MoleculeBatch:
        """A padded batch of the molecules at ``index``."""
        molecules = [self.molecules[i] for i in index]
        nodes = max(len(m.atoms) for m in molecules)
        hops = max(1, *(m.paths.shape[2] for m in molecules))  # single atoms have no path at all
        size, columns = len(molecules), molecules[0].atoms.shape[1]
        atoms = np.zeros((size, nodes, columns), dtype=np.int64)
        degrees = np.zeros((size, nodes), dtype=np.int64)
        distance = np.zeros((size, nodes, nodes), dtype=np.int64)
        paths = np.zeros((size, nodes, nodes, hops), dtype=np.int64)
        walk = np.zeros((size, nodes, self.config.model.walk_steps), dtype=np.float32)
        for row, m in enumerate(molecules):
            n = len(m.atoms)
            walk[row, :n] = m.walk
            atoms[row, :n], degrees[row, :n] = m.atoms, m.degree
            distance[row, :n, :n], paths[row, :n, :n, : m.paths.shape[2]] = m.distance, m.paths
        arrays = (atoms, degrees, distance, self.kinds, paths, np.stack([m.y for m in molecules]), walk)
        return MoleculeBatch(*(torch.from_numpy(array).to(self.device) for array in arrays))

    @torch.no_grad()
    def predict(self, split: Split) -> Tensor:
        """Predictions in the user's units (probabilities for classification), (molecules, targets)."""
        self.eval()
        index = self.data.splits[split]
        order = np.argsort([len(self.molecules[i].atoms) for i in index], kind="stable")
        out = torch.empty(len(index), len(self.data.targets))
        size = self.config.training.batch_size
        for start in range(0, len(index), size):
            rows = order[start : start + size]
            raw = self.model(self.collate(index[rows]))
            out[rows] = (raw * self.spread + self.center if self.regression else raw.sigmoid()).cpu()
        return out

    def evaluate(self, split: Split) -> Metrics:
        """MAE, or area under the ROC curve, averaged over targets; missing labels are left out."""
        return self.score(self.predict(split), self.labels(split))

    def labels(self, split: Split) -> Tensor:
        """(molecules, targets), NaN = missing."""
        return torch.from_numpy(np.stack([self.molecules[i].y for i in self.data.splits[split]]))

    def score(self, predicted: Tensor, y: Tensor) -> Metrics:
        """Metrics of predictions in the user's units; of several targets the mean, then each."""
        known = ~y.isnan()
        each = {
            target: self.score_target(predicted[known[:, t], t], y[known[:, t], t])
            for t, target in enumerate(self.data.targets)
        }
        measured = [value for value in each.values() if not isnan(value)]
        metrics = {self.metric: float(np.mean(measured)) if measured else nan}
        if not self.regression:
            metrics["accuracy"] = float(((predicted > 0.5) == (y > 0.5))[known].float().mean())
        if len(each) > 1:
            metrics |= {
                f"{self.metric} {target}": value for target, value in each.items() if not isnan(value)
            }
        return metrics

    def score_target(self, predicted: Tensor, y: Tensor) -> float:
        """MAE or area under the ROC curve of one target; NaN without labels, or with one class only."""
        if self.regression:
            return float((predicted - y).abs().mean())
        if not 0 < y.sum() < len(y):
            return nan
        return float(binary_auroc(predicted, y.long()))

    def has(self, split: Split) -> bool:
        """Whether ``split`` has molecules with a known target."""
        return len(self.data.splits[split]) > 0 and not bool(self.labels(split).isnan().all())

    def trivial(self, split: Split) -> float:
        """MAE of the training median; .5 for the ROC curve."""
        if not self.regression:
            return 0.5
        median = self.labels("train").nanmedian(dim=0).values
        return self.score(median.expand(len(self.data.splits[split]), -1), self.labels(split))["mae"]

    def vocabulary(self) -> dict[str, Any]:
        """Targets and featuriser."""
        return {
            "targets": list(self.data.targets),
            "kind": self.data.kind,
            "featurizer": self.data.featurizer.name,
        }

    def fingerprint(self) -> str:
        """SMILES, targets and splits."""
        labels = np.stack([molecule.y for molecule in self.molecules])
        return self.digest("\n".join(self.data.smiles), labels, *self.data.splits.values())

    def describe(self) -> str:
        """Counts of molecules and targets."""
        counts = " / ".join(f"{len(index):,}" for index in self.data.splits.values())
        targets = ", ".join(self.data.targets)
        return f"{self.data.name}: {counts} molecules to train / validate / test, target {targets}"

    def memory(self) -> int:
        """Attention maps and states of the largest batch."""
        nodes = 1 + max(len(m.atoms) for m in self.molecules)
        model, size = self.config.model, self.config.training.batch_size
        per_layer = size * (
            4 * model.heads * nodes**2 + nodes * (10 * model.channels + 2 * model.ffn_channels)
        )
        return 4 * model.layers * per_layer


def training_targets(data: Molecules) -> NDArray[np.float32]:
    """(training molecules, targets), NaN = missing; every target has to be known somewhere."""
    index = data.splits["train"]
    if len(index) == 0:
        raise DetError(f"{data.name}: no molecule is in the training split. Put some rows into `train`.")
    y = np.concatenate([data.graphs[i].y.numpy() for i in index])
    for target, values in zip(data.targets, y.T, strict=True):
        if np.isnan(values).all():
            raise DetError(
                f"{data.name}: target {target!r} is missing in all {len(index)} training molecules. "
                "Fill it in for some of them, or leave it out of data.targets."
            )
    return y


def encode_molecules(
    data: Molecules, hops: int, walk_steps: int
) -> tuple[NDArray[np.int64], list[EncodedMolecule]]:
    """The kinds of bonds in the data (kinds, columns), and every molecule as the model reads it."""
    atom_offset = 1 + np.cumsum((0, *data.featurizer.atom_sizes[:-1]))  # column c starts here in the table
    bond_offset = 1 + np.cumsum((0, *data.featurizer.bond_sizes[:-1]))
    bonds = np.concatenate([graph.edge_attr.numpy() for graph in data.graphs])
    columns = len(data.featurizer.bond_sizes)
    kinds, kind_of = np.unique(bonds.reshape(-1, columns), axis=0, return_inverse=True)
    if len(kinds) == 0:  # nothing but single atoms
        kinds = np.zeros((1, columns), dtype=np.int64)
    start, encoded = 0, []
    for graph in with_progress(data.graphs, "shortest paths"):
        nodes, edges = graph.num_nodes, graph.edge_index.size(1)
        distance, paths = shortest_paths(
            graph.edge_index.numpy(), kind_of.reshape(-1)[start : start + edges], nodes, hops
        )
        start += edges
        degrees = degree(graph.edge_index[1], nodes, dtype=torch.long).numpy() + 1
        walk = return_probabilities(graph.edge_index.numpy(), nodes, walk_steps)
        atoms, y = graph.x.numpy() + atom_offset, graph.y.numpy().reshape(-1)
        encoded.append(EncodedMolecule(atoms, degrees, distance, paths, y, walk))
    return kinds + bond_offset, encoded
