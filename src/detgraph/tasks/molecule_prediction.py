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
    values = (
        value
        for graphs in MoleculeGraphs.in_pieces(task.data.featurizer, read.molecules)
        for value in task.predict_graphs(graphs, np.arange(len(graphs))).tolist()
    )
    problems, nothing = dict(read.bad), (nan,) * len(task.data.targets)
    return [
        Prediction(nothing, problems[row]) if row in problems else Prediction(tuple(next(values)))
        for row in range(len(read.molecules.atom_counts) + len(problems))
    ]
