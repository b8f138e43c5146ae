"""Node features from a user's files: numeric columns, sparse text, SVMlight, NumPy and SciPy arrays."""

import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from detgraph.data.tables import read_lines, require_file, where
from detgraph.errors import DetError

SVMLIGHT = (".svm", ".svmlight", ".libsvm")

DAMAGED = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error)  # what NumPy raises of its files


def csr_tensor(matrix: Any) -> Tensor:
    """A SciPy sparse matrix as a float32 ``sparse_csr`` tensor with sorted columns and no duplicates."""
    matrix = sparse.csr_matrix(matrix, dtype=np.float32, copy=True)
    matrix.sum_duplicates()
    return csr_parts(matrix.indptr, matrix.indices, matrix.data, matrix.shape)


def csr_parts(
    indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], shape: tuple[int, int]
) -> Tensor:
    """The three arrays of a CSR matrix, checked by torch, as a float32 ``sparse_csr`` tensor."""
    return torch.sparse_csr_tensor(
        torch.from_numpy(indptr.astype(np.int64)),
        torch.from_numpy(indices.astype(np.int64)),
        torch.from_numpy(values.astype(np.float32)),
        size=(int(shape[0]), int(shape[1])),
        check_invariants=True,
    )


def read_feature_file(path: Path) -> tuple[Tensor, tuple[str, ...]]:
    """Read ``.svm``/``.svmlight``/``.libsvm``, ``.npy`` or ``.npz``, one row a node; features and notes."""
    require_file(path)
    if path.suffix in SVMLIGHT:
        return _read_svmlight(path)
    if path.suffix not in (".npy", ".npz"):
        raise DetError(
            f"{path}: unknown kind of feature file {path.suffix!r}. "
            f"Expected {', '.join(SVMLIGHT)}, .npy or .npz (scipy.sparse.save_npz)."
        )
    try:
        if path.suffix == ".npz":
            return csr_tensor(sparse.load_npz(path)), ()  # SciPy reads with allow_pickle=False
        dense = np.load(path, allow_pickle=False)
    except (*DAMAGED, KeyError) as error:
        layout = "scipy.sparse.save_npz" if path.suffix == ".npz" else "numpy.save"
        raise DetError(f"{path}: is not what {layout} writes: {error}.") from None
    if dense.ndim != 2 or dense.dtype.kind not in "fiub":
        raise DetError(
            f"{path}: expected a numeric array (nodes, features), got {dense.dtype} {dense.shape}. "
            "Save a two-dimensional array of numbers."
        )
    return torch.from_numpy(dense.astype(np.float32)), ()


def table_features(
    table: pl.DataFrame, columns: list[str], path: Path
) -> tuple[Tensor | None, tuple[str, ...]]:
    """Features from the given columns of a node table: one sparse text column, or every numeric one."""
    if "features" in columns and table["features"].dtype == pl.String:
        matrix = _parse_entries(table["features"].fill_null(""), partial(where, path))
        others = [column for column in columns if column != "features"]
        return csr_tensor(matrix), _unused(others)

    numeric: dict[str, pl.Series] = {}
    for column in columns:
        kind = table[column].dtype
        if not (kind.is_numeric() or kind in (pl.String, pl.Boolean)):
            continue  # lists, dates, categories
        values = table[column].cast(pl.Float32, strict=False)
        if values.null_count() == table.height:
            continue  # words only: a title, say, is not a feature
        bad = (values.is_null() | ~values.is_finite().fill_null(True)).arg_true()
        if len(bad):
            value = table[column][bad[0]]
            got = "no value" if value is None else repr(str(value))
            raise DetError(
                f"{where(path, bad[0])}: column {column!r} has {got}, "
                "expected a finite number. Fill it in, or remove the column."
            )
        numeric[column] = values
    notes = _unused([column for column in columns if column not in numeric])
    if not numeric:
        return None, notes
    return torch.from_numpy(pl.DataFrame(numeric).to_numpy(writable=True)), notes


def _unused(columns: list[str]) -> tuple[str, ...]:
    return (f"not numbers, so not features: {', '.join(columns)}",) if columns else ()


def _read_svmlight(path: Path) -> tuple[Tensor, tuple[str, ...]]:
    lines = read_lines(path)
    # "label i:v i:v # comment"; the label is not needed
    entries = lines["text"].str.replace(r"#.*$", "").str.replace(r"^\s*[^\s:]+(\s+|$)", "")
    matrix = _parse_entries(entries, lambda row: f"{path}:{lines['line'][row]}")
    if matrix.nnz and matrix.indices.min() > 0:  # the format counts from 1, some writers from 0
        return csr_tensor(matrix[:, 1:]), (f"feature indices of {path.name} count from 1",)
    return csr_tensor(matrix), (f"feature indices of {path.name} count from 0",)


def _parse_entries(texts: pl.Series, place: Callable[[int], str]) -> Any:
    """Rows such as ``3 17`` or ``3:0.5 17:1`` as a SciPy CSR matrix; ``place(row)`` is for errors."""
    entries = (
        pl.DataFrame({"entry": texts.str.extract_all(r"\S+")})
        .with_row_index("row")
        .explode("entry")
        .filter(pl.col("entry").is_not_null())
    )
    pair = pl.col("entry").str.splitn(":", 2)
    entries = entries.with_columns(
        index=pair.struct[0].cast(pl.Int64, strict=False),
        value=pl.when(pl.col("entry").str.contains(":", literal=True))
        .then(pair.struct[1].cast(pl.Float32, strict=False))
        .otherwise(pl.lit(1.0, pl.Float32)),
    )
    good = pl.col("index").is_between(0, np.iinfo(np.int32).max - 1).fill_null(False) & pl.col(
        "value"
    ).is_finite().fill_null(False)
    bad = entries.filter(~good)
    if bad.height:
        raise DetError(
            f"{place(bad['row'][0])}: got the feature entry {bad['entry'][0]!r}, expected an index from 0 "
            "or index:value with a finite value, such as 17 or 17:0.5."
        )
    twice = entries.filter(pl.struct("row", "index").is_duplicated())
    if twice.height:
        raise DetError(
            f"{place(twice['row'][0])}: feature {twice['index'][0]} is given twice. Keep one of them."
        )
    width = int(entries["index"].max()) + 1 if entries.height else 0  # type: ignore[arg-type]  # max of integers
    return sparse.csr_matrix(
        (entries["value"].to_numpy(), (entries["row"].to_numpy(), entries["index"].to_numpy())),
        shape=(len(texts), width),
    )
