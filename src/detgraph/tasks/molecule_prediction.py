"""Predictions for any number of SMILES: they stream through, in order."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from math import nan
from typing import NamedTuple

import numpy as np

from detgraph.data.featurize import read_many
from detgraph.data.featurizers import ReadCodes, read_codes
from detgraph.data.molecule_graphs import MoleculeGraphs
from detgraph.tasks.graph import GraphTask

CHUNK = 2048  # SMILES that are read, and then predicted, together
MOST_ATOMS = 4000  # attention looks at all pairs of atoms


class Prediction(NamedTuple):
    """What the model says of a molecule, or why it says nothing."""

    values: tuple[float, ...]  # one for each target, NaN without a prediction
    problem: str = ""


def predict_smiles(task: GraphTask, smiles: Iterable[str]) -> Iterator[Prediction]:
    """A prediction for each SMILES; memory does not grow with their number."""
    remaining, name = iter(smiles), task.data.featurizer.name
    chunks = iter(lambda: list(islice(remaining, CHUNK)), [])
    first = next(chunks, [])
    if len(first) < CHUNK:  # starting processes would take longer
        yield from predict_read(task, read_codes(first, name))
        return
    for read in read_many(chain([first], chunks), name):
        yield from predict_read(task, read)


def predict_read(task: GraphTask, read: ReadCodes) -> list[Prediction]:
    """Predictions for a chunk, in its order; rows that could not be read have none."""
    graphs = MoleculeGraphs.of(task.data.featurizer, [read.molecules])
    small = np.flatnonzero(graphs.sizes <= MOST_ATOMS)
    values = np.full((len(graphs), len(task.data.targets)), nan)
    values[small] = task.predict_graphs(graphs, small).numpy()
    problems, good = dict(read.bad), iter(zip(values.tolist(), graphs.sizes.tolist(), strict=True))
    nothing = (nan,) * len(task.data.targets)
    predictions = []
    for row in range(len(graphs) + len(problems)):
        if row in problems:
            predictions.append(Prediction(nothing, problems[row]))
            continue
        numbers, size = next(good)
        problem = f"it has {size:,} atoms, at most {MOST_ATOMS:,} can be read" if size > MOST_ATOMS else ""
        predictions.append(Prediction(tuple(numbers), problem))
    return predictions
