"""From many SMILES to graphs: in parallel, with progress, kept in files that are mapped into memory.

A set of molecules has a folder named after their SMILES, featurizer and RDKit: it never goes stale.
"""

import hashlib
import json
import multiprocessing
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rdkit
from numpy.typing import NDArray

from detgraph.data.featurizers import ReadCodes, get_featurizer, read_codes
from detgraph.data.fetch import cache_folder
from detgraph.data.molecule_graphs import MoleculeGraphs
from detgraph.data.paths import Bonds, Paths, starts
from detgraph.data.progress import with_progress
from detgraph.errors import DetError
from detgraph.processes import end_with_parent

VERSION = 1  # of codes and files: to be raised when either changes
CHUNK = 512  # SMILES that a process reads at a time
FEW = 4096  # so many are read at once, without processes and files

ARRAYS: dict[str, tuple[type[np.generic], int]] = {  # type and columns; 0 = as many as the featurizer has
    "atoms": (np.uint8, 0),
    "sizes": (np.int64, 1),
    "bond_counts": (np.int64, 1),
    "ends": (np.uint16, 2),
    "kinds": (np.uint8, 1),
    "path_atom": (np.uint16, 1),
    "path_before": (np.uint16, 1),
    "path_bond": (np.uint8, 1),
    "path_distance": (np.uint8, 1),
}
Arrays = dict[str, NDArray[Any]]


class Featurized(NamedTuple):
    """The molecules that could be read, and (row, reason) of the others."""

    graphs: MoleculeGraphs
    bad: list[tuple[int, str]]


def featurize(smiles: Sequence[str], featurizer: str, description: str) -> Featurized:
    """Graphs of all SMILES; those of many are computed once and then mapped from the cache."""
    if len(smiles) <= FEW:
        read = read_codes(with_progress(smiles, description), featurizer)
        return Featurized(MoleculeGraphs.of(get_featurizer(featurizer), [read.molecules]), read.bad)
    folder = cache_folder() / "molecules" / content_key(smiles, featurizer)
    if not folder.is_dir():
        write_cache(folder, smiles, featurizer, description)
    return read_cache(folder, featurizer)


def read_many(chunks: Iterable[Sequence[str]], featurizer: str) -> Iterator[ReadCodes]:
    """The codes of any number of chunks of SMILES, in order, read by as many processes as there are cores.

    No more chunks are taken than the processes need to stay busy, so memory does not grow with their number.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ahead = deque[Future[ReadCodes]]()
    try:
        with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn"), end_with_parent) as pool:
            for chunk in chunks:
                ahead.append(pool.submit(read_codes, chunk, featurizer))
                if len(ahead) > 2 * cores:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
    except BrokenProcessPool:
        raise DetError(
            "a process that reads molecules has ended before its work was done. Such processes import the "
            "script that started them: in your own script, put all that it does under "
            '`if __name__ == "__main__":`. If that is there already, memory has run out.'
        ) from None


def content_key(smiles: Sequence[str], featurizer: str) -> str:
    """A name for these molecules under this featurizer."""
    digest = hashlib.sha256(f"{VERSION} {rdkit.__version__} {featurizer}".encode())
    for text in smiles:
        digest.update(b"\n" + text.encode())
    return digest.hexdigest()[:32]


def write_cache(folder: Path, smiles: Sequence[str], featurizer: str, description: str) -> None:
    """Fill a folder; it gets its name only when all is there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=folder.parent))
    try:
        write_arrays(unfinished, smiles, featurizer, description)
        unfinished.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was quicker, and its folder is as good
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write_arrays(folder: Path, smiles: Sequence[str], featurizer: str, description: str) -> None:
    """One file for each array, and one for the rows that could not be read."""
    bad = list[tuple[int, str]]()
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / f"{name}.bin").open("wb")) for name in ARRAYS}
        firsts = range(0, len(smiles), CHUNK)
        reads = read_many((smiles[start : start + CHUNK] for start in firsts), featurizer)
        for start, read in zip(with_progress(firsts, description), reads, strict=True):
            for graphs in MoleculeGraphs.in_pieces(get_featurizer(featurizer), read.molecules):
                for name, array in to_arrays(graphs).items():
                    files[name].write(np.ascontiguousarray(array, ARRAYS[name][0]).tobytes())
            bad += [(start + row, reason) for row, reason in read.bad]
    (folder / "bad.json").write_text(json.dumps(bad), encoding="utf-8")


def read_cache(folder: Path, featurizer: str) -> Featurized:
    """Map a folder into memory."""
    encode = get_featurizer(featurizer)

    def read(name: str) -> NDArray[Any]:
        kind, columns = ARRAYS[name]
        width = columns or len(encode.atom_sizes)
        file = folder / f"{name}.bin"
        rows = file.stat().st_size // (width * np.dtype(kind).itemsize)
        shape = (rows, width) if width > 1 or columns == 0 else (rows,)
        return np.memmap(file, kind, "r", shape=shape) if rows else np.empty(shape, kind)

    bonds = Bonds(starts(read("sizes")), starts(read("bond_counts")), read("ends"), read("kinds"))
    paths = Paths(*(read(f"path_{field}") for field in Paths._fields))
    bad = json.loads((folder / "bad.json").read_text(encoding="utf-8"))
    return Featurized(
        MoleculeGraphs(encode, read("atoms"), bonds, paths), [(row, reason) for row, reason in bad]
    )


def to_arrays(graphs: MoleculeGraphs) -> Arrays:
    """What a file holds of each part."""
    return {
        "atoms": graphs.atoms,
        "sizes": graphs.sizes,
        "bond_counts": np.diff(graphs.bonds.start),
        "ends": graphs.bonds.ends,
        "kinds": graphs.bonds.kinds,
        **{f"path_{name}": array for name, array in graphs.paths._asdict().items()},
    }
