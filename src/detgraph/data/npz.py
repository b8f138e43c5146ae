"""Networks as one ``.npz`` of plain arrays: the way of a PyG `Data` to the command line."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from detgraph.data.features import DAMAGED, csr_parts
from detgraph.data.networks import MASKS, Network
from detgraph.data.tables import require_file
from detgraph.errors import DetError
from detgraph.files import atomic_path

TENSORS = ("edge_index", "y", *MASKS, "graph_id")


def read_npz(path: Path, *, split_seed: int = 0) -> Network:
    """Read one ``.npz`` archive.

    It holds ``edge_index``, ``y``, and ``x`` or ``x_data, x_indices, x_indptr, x_shape`` (CSR) or neither;
    optional are ``train_mask``, ``val_mask``, ``test_mask`` and the texts ``nodes`` and ``classes``. Without
    masks a random split is made with ``split_seed``.
    """
    require_file(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (*DAMAGED, TypeError, AttributeError) as error:
        raise DetError(f"{path}: is not an archive of plain arrays as numpy.savez writes: {error}.") from None
    for key in ("edge_index", "y"):
        if key not in arrays:
            raise DetError(
                f"{path}: has no array {key!r}. Its arrays: {', '.join(sorted(arrays)) or 'none'}."
            )
    data = Data()
    try:
        for key in ("x", *TENSORS):
            if key in arrays:
                data[key] = torch.from_numpy(arrays[key])
        if "x_data" in arrays:
            data.x = csr_parts(*(arrays[f"x_{part}"] for part in ("indptr", "indices", "data", "shape")))
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        raise DetError(f"{path}: {error}. Expected arrays of numbers, sparse x as a CSR matrix.") from None
    texts = {
        key: [str(text) for text in np.atleast_1d(arrays[key])]
        for key in ("nodes", "classes")
        if key in arrays
    }
    return Network.from_data(
        data,
        name=path.stem,
        nodes=texts.get("nodes"),
        classes=texts.get("classes"),
        split_seed=split_seed,
    )


def write_npz(
    data: Data, path: Path, *, nodes: Sequence[str] | None = None, classes: Sequence[str] | None = None
) -> None:
    """Write a PyG `Data` as `read_npz` reads it; sparse features stay sparse.

    Args:
        data: ``edge_index`` and ``y``; optional ``x``, ``train_mask``, ``val_mask``, ``test_mask``.
        path: the new file, ending in ``.npz``.
        nodes: a name for each node.
        classes: a name for each class.
    """
    arrays = {key: data[key].cpu().numpy() for key in TENSORS if key in data}
    if data.x is not None and data.x.layout == torch.strided:
        arrays["x"] = data.x.cpu().numpy()
    elif data.x is not None:
        x = data.x.cpu().to_sparse_csr()
        arrays |= {"x_indptr": x.crow_indices().numpy(), "x_indices": x.col_indices().numpy()}
        arrays |= {"x_data": x.values().numpy(), "x_shape": np.array(x.shape)}
    arrays |= {
        key: np.array(names) for key, names in (("nodes", nodes), ("classes", classes)) if names is not None
    }
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
