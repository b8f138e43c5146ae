"""Cora, CiteSeer and PubMed from the raw files of the Planetoid public split."""

import pickle
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch_geometric.data import Data

from detgraph.data.features import csr_tensor
from detgraph.data.networks import MASKS, Network
from detgraph.data.tables import require_file
from detgraph.errors import DetError, unknown_name

# The order of the class indices follows from the class sizes, which differ: Theory has 351 papers, ...
CLASSES = {
    "cora": (
        "Theory",
        "Reinforcement Learning",
        "Genetic Algorithms",
        "Neural Networks",
        "Probabilistic Methods",
        "Case Based",
        "Rule Learning",
    ),
    "citeseer": ("AI", "ML", "IR", "DB", "Agents", "HCI"),
    "pubmed": (
        "Diabetes Mellitus, Experimental",
        "Diabetes Mellitus Type 1",
        "Diabetes Mellitus Type 2",
    ),
}
VALID_NODES = 500


def read_planetoid(folder: Path, name: str) -> Network:
    """Read ``ind.<name>.{x,y,tx,ty,allx,ally,graph,test.index}`` of cora, citeseer or pubmed.

    Features are the raw words, sparse and not normalised. Test ids without a row in ``tx`` (15 of
    CiteSeer) have no words and no label.
    """
    if name not in CLASSES:
        raise unknown_name("Planetoid network", name, CLASSES)
    base = folder / f"ind.{name}"
    train_y, test_x, test_y, other_x, other_y, graph = (
        _unpickle(base.with_name(f"{base.name}.{part}"))
        for part in ("y", "tx", "ty", "allx", "ally", "graph")
    )
    test = _read_test_index(base.with_name(f"{base.name}.test.index"))

    try:
        # Rows of allx are the nodes before the test ids; row k of tx is the node test[k].
        count = int(test.max()) + 1
        rows = np.concatenate([np.arange(other_x.shape[0]), test])
        place = sparse.csr_matrix(
            (np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(count, len(rows))
        )
        for matrix in (other_x, test_x):
            matrix.check_format(full_check=True)  # SciPy trusts the indices it is given
        x = place @ sparse.vstack([other_x, test_x])
        one_hot = place @ np.concatenate([other_y, test_y])  # (nodes, classes)
        y = np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)
        source = np.repeat(list(graph), [len(targets) for targets in graph.values()])
        target = np.concatenate([np.asarray(targets, dtype=np.int64) for targets in graph.values()])
        edge_index = torch.from_numpy(np.stack([source, target]))
    except (AttributeError, TypeError, ValueError, IndexError) as error:
        raise DetError(f"{base}.*: the eight files do not fit together: {error}. Fetch them again.") from None

    data = Data(x=csr_tensor(x), edge_index=edge_index, y=torch.from_numpy(y))
    start = len(train_y)
    for key, index in zip(
        MASKS, (np.arange(start), np.arange(start, start + VALID_NODES), test), strict=True
    ):
        data[key] = torch.zeros(count, dtype=torch.bool)
        data[key][torch.from_numpy(index)] = True
    unknown = int((y < 0).sum())
    notes = (f"{unknown} nodes have no words and no label",) if unknown else ()
    return Network.from_data(data, name=name, classes=CLASSES[name], notes=notes)


class _PlanetoidUnpickler(pickle.Unpickler):
    """Builds nothing but the arrays, matrices and lists these files are made of."""

    def __init__(self, file: Any, path: Path) -> None:
        super().__init__(file, encoding="latin1")
        self.path = path

    def find_class(self, module: str, name: str) -> Any:
        """What an allowed name stands for."""
        if (module, name) not in ALLOWED:
            raise DetError(
                f"{self.path}: refers to {module}.{name}, which no Planetoid file does; it was not loaded. "
                "Fetch the official file."
            )
        return ALLOWED[module, name]


def _reconstruct(kind: type, shape: tuple[int, ...], code: Any) -> NDArray[Any]:
    """What NumPy's private function of this name does: an empty array, which the unpickler then fills."""
    return np.ndarray(shape, np.int8)


# Every global name in the official files, as Python 2 wrote it.
ALLOWED = {
    ("scipy.sparse.csr", "csr_matrix"): sparse.csr_matrix,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
}


def _unpickle(path: Path) -> Any:
    require_file(path)
    with path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old names and layouts of NumPy and SciPy
        try:
            return _PlanetoidUnpickler(file, path).load()
        except DetError:
            raise
        except Exception as error:  # a broken pickle can raise anything
            raise DetError(f"{path}: is not a Planetoid file: {error}. Fetch the official file.") from None


def _read_test_index(path: Path) -> NDArray[np.int64]:
    require_file(path)
    try:
        index = np.array(path.read_text(encoding="utf-8").split(), dtype=np.int64)
    except ValueError as error:
        raise DetError(f"{path}: expected one node index a line: {error}.") from None
    if not len(index):
        raise DetError(f"{path}: is empty, expected one node index a line. Fetch the official file.")
    return index
