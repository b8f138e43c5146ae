"""The official ZINC-12k as PyG keeps it: graphs with the codes of atoms and bonds, without SMILES."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from detgraph.data.featurizers import MoleculeCodes, get_featurizer
from detgraph.data.molecule_graphs import MoleculeGraphs
from detgraph.data.molecules import SPLITS, Molecules
from detgraph.errors import DetError

FILES = {"train": "train.pt", "valid": "val.pt", "test": "test.pt"}
HINT = "Make it with torch_geometric.datasets.ZINC(root, subset=True)."


def read_pyg_zinc(folder: Path) -> Molecules:
    """The three files that PyG's ``ZINC(root, subset=True)`` leaves in ``root/subset/processed``."""
    parts = [_read(folder / FILES[split]) for split in SPLITS]
    codes = [part[0] for part in parts]
    graphs = MoleculeGraphs.of(get_featurizer("zinc"), codes)
    y = np.concatenate([part[1] for part in parts])
    ends = np.cumsum([0, *(len(part.atom_counts) for part in codes)])
    return Molecules(
        graphs=graphs,
        y=y[:, None],
        smiles=tuple(_text(graph) for graph in graphs),
        splits={split: np.arange(ends[i], ends[i + 1]) for i, split in enumerate(SPLITS)},
        targets=("y",),
        kind="regression",
        name="zinc-official",
    )


def _read(path: Path) -> tuple[MoleculeCodes, Any]:
    """Codes and targets (molecules,) of a file; nothing but tensors and PyG's `Data` is unpickled."""
    try:
        with torch.serialization.safe_globals([Data]):
            stored, slices, *_ = torch.load(path, weights_only=True)
        x, edge_index, kinds, y = (stored[key].numpy() for key in ("x", "edge_index", "edge_attr", "y"))
        start = slices["edge_index"].numpy()
        atom_counts = np.diff(slices["x"].numpy())
        once = edge_index[0] < edge_index[1]  # PyG has each bond in both directions
        molecule = np.repeat(np.arange(len(start) - 1), np.diff(start))
        codes = MoleculeCodes(
            atom_counts,
            np.bincount(molecule[once], minlength=len(atom_counts)),
            x.reshape(-1, 1).astype(np.uint8),
            edge_index.T[once].astype(np.uint16),
            kinds.reshape(-1)[once].astype(np.uint8),
        )
    except (
        pickle.UnpicklingError,
        RuntimeError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
    ) as error:
        reason = str(error).splitlines()[0]
        raise DetError(f"{path}: not a file of PyG's ZINC: {reason}. {HINT}") from None
    if len(y) != len(atom_counts) or 2 * once.sum() != edge_index.shape[1]:
        raise DetError(f"{path}: not a file of PyG's ZINC: a target a graph and bonds both ways. {HINT}")
    return codes, y.reshape(-1).astype(np.float32)


def _text(graph: Data) -> str:
    """A molecule in a line: codes of its atoms, then its bonds."""
    bonds = torch.cat([graph.edge_index, graph.edge_attr.t()]).t()[::2]
    atoms = ".".join(map(str, graph.x[:, 0].tolist()))
    return atoms + "".join(f" {one}-{other}:{kind}" for one, other, kind in bonds.tolist())
