"""Property prediction: one or many targets of whole molecules."""

from collections.abc import Iterator
from math import isnan, nan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torchmetrics.functional.classification import binary_auroc

from detgraph.baselines.molecules import build_molecule_model
from detgraph.config import GraphConfig
from detgraph.data.molecule_graphs import MoleculeGraphs
from detgraph.data.molecules import Molecules
from detgraph.data.rings import RING_CODES
from detgraph.errors import DetError
from detgraph.kernels.choice import fused_on
from detgraph.nn import MoleculeBatch, MoleculeDET
from detgraph.tasks.base import Metrics, Split, Task
from detgraph.tasks.molecule_batches import make_batch

PAIRS = 2**18  # of nodes, in a batch that is only predicted: 32 MB for eight heads and four arrays


class GraphTask(Task):
    """Molecules → MoleculeDET → regression (L1) or binary classification (cross-entropy) of each target."""

    def __init__(self, data: Molecules, config: GraphConfig) -> None:
        super().__init__(config.seed, data.notes)
        self.data, self.config = data, config
        self.regression = data.kind == "regression"
        self.metric = "mae" if self.regression else "auc"
        self.higher_is_better = not self.regression
        self.model = build_model(config, data)
        center, spread = np.zeros(len(data.targets)), np.ones(len(data.targets))
        if len(data.graphs):  # else there is nothing but a saved run's names, and its scale is loaded
            y = training_targets(data).astype(np.float64)  # sums of many float32 would drift
            if self.regression:
                center, spread = np.nanmean(y, axis=0), np.nanstd(y, axis=0)
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
        """Training batches."""
        for group in self.groups(epoch):
            yield self.collate(group)

    def groups(self, epoch: int) -> Iterator[NDArray[np.int64]]:
        """The molecules of each training batch, in random order: of like size (less padding) for DET.

        Baselines have batch norms, whose statistics must be those of all sizes.
        """
        rng = self.rng(epoch)
        order = rng.permutation(self.data.splits["train"])
        size = self.config.training.batch_size
        if self.config.baseline is None:
            chunk = 16 * size  # sort by size inside chunks of 16 batches: still random, little padding
            for start in range(0, len(order), chunk):
                part = order[start : start + chunk]
                order[start : start + chunk] = part[np.argsort(self.data.graphs.sizes[part], kind="stable")]
        groups = [order[start : start + size] for start in range(0, len(order), size)]
        for index in rng.permutation(len(groups)):
            yield groups[index]

    def padding(self) -> float:
        """Share of the nodes of a training batch that would be padding, where batches are padded."""
        sizes = [self.data.graphs.sizes[group] + 1 for group in self.groups(epoch=0)]
        return 1 - sum(int(part.sum()) for part in sizes) / sum(len(part) * int(part.max()) for part in sizes)

    def collate(self, index: NDArray[np.int64]) -> MoleculeBatch:
        """A batch of the molecules at ``index``."""
        return self.batch_of(self.data.graphs, self.data.y, index)

    def batch_of(
        self, graphs: MoleculeGraphs, y: NDArray[np.float32], index: NDArray[np.int64]
    ) -> MoleculeBatch:
        """A batch of any molecules, with all that the model reads."""
        batch = make_batch(graphs, y, index, self.config.walk_steps, self.config.model.rings)
        return batch.to(self.device)

    def predict(self, split: Split) -> Tensor:
        """Predictions for a split, (molecules, targets)."""
        return self.predict_graphs(self.data.graphs, self.data.splits[split])

    @torch.no_grad()
    def predict_graphs(self, graphs: MoleculeGraphs, index: NDArray[np.int64]) -> Tensor:
        """Predictions in the user's units (probabilities for classification), (molecules, targets)."""
        self.eval()
        out = torch.empty(len(index), len(self.data.targets))
        y = np.empty((len(graphs), 0), np.float32)  # not read
        for rows in alike(graphs.sizes[index]):
            raw = self.model(self.batch_of(graphs, y, index[rows]))
            out[rows] = (raw * self.spread + self.center if self.regression else raw.sigmoid()).cpu()
        return out

    def evaluate(self, split: Split) -> Metrics:
        """MAE, or area under the ROC curve, averaged over targets; missing labels are left out."""
        return self.score(self.predict(split), self.labels(split))

    def labels(self, split: Split) -> Tensor:
        """(molecules, targets), NaN = missing."""
        return torch.from_numpy(self.data.y[self.data.splits[split]])

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
        return self.digest("\n".join(self.data.smiles), self.data.y, *self.data.splits.values())

    def describe(self) -> str:
        """Counts of molecules and targets."""
        counts = " / ".join(f"{len(index):,}" for index in self.data.splits.values())
        targets = ", ".join(self.data.targets)
        padding = "" if fused_on(self.center) else f"; {self.padding():.0%} of a batch is padding"
        return f"{self.data.name}: {counts} molecules to train / validate / test, target {targets}{padding}"

    def memory(self) -> int:
        """Attention maps and states of the largest batch."""
        nodes = 1 + int(self.data.graphs.sizes.max())
        model, size = self.config.model, self.config.training.batch_size
        per_layer = size * (
            4 * model.heads * nodes**2 + nodes * (10 * model.channels + 2 * model.ffn_channels)
        )
        return 4 * model.layers * per_layer


def build_model(config: GraphConfig, data: Molecules) -> nn.Module:
    """DET or a baseline, for atoms and bonds with the codes of the data."""
    featurizer, targets = data.featurizer, len(data.targets)
    if config.baseline is not None:
        train = data.splits["train"]
        degrees = data.graphs.degrees(train).tolist() if len(train) else [0, 1]
        return build_molecule_model(config.baseline, featurizer, targets, degrees)
    model = config.model
    most = max(*featurizer.atom_sizes, *featurizer.bond_sizes)
    if model.column_codes is not None and model.column_codes < most:
        raise DetError(
            f"model.column_codes={model.column_codes}: atoms and bonds have columns of up to {most} codes. "
            f"Take {most} or more, or leave it out."
        )
    return MoleculeDET(
        atom_sizes=featurizer.atom_sizes,
        bond_sizes=featurizer.bond_sizes,
        targets=targets,
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
        walk_bias=model.walk_bias,
        rings=RING_CODES if model.rings else 0,
        messages=model.messages,
        column_codes=model.column_codes,
    )


def alike(sizes: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Rows of molecules of like size, as many as have, padded, no more than `PAIRS` pairs of nodes."""
    order, start = np.argsort(sizes, kind="stable"), 0
    for end, size in enumerate(sizes[order].tolist()):  # the largest so far: the others are padded to it
        if end > start and (end + 1 - start) * (size + 1) ** 2 > PAIRS:
            yield order[start:end]
            start = end
    if start < len(order):
        yield order[start:]


def training_targets(data: Molecules) -> NDArray[np.float32]:
    """(training molecules, targets), NaN = missing; every target has to be known somewhere."""
    index = data.splits["train"]
    if len(index) == 0:
        raise DetError(f"{data.name}: no molecule is in the training split. Put some rows into `train`.")
    y = data.y[index]
    for target, values in zip(data.targets, y.T, strict=True):
        if np.isnan(values).all():
            raise DetError(
                f"{data.name}: target {target!r} is missing in all {len(index)} training molecules. "
                "Fill it in for some of them, or leave it out of data.targets."
            )
    return y
