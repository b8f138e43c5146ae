"""Splits by scaffold: molecules with the same rings and linkers are never in two splits."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

from detgraph.data.featurizers import parse_smiles
from detgraph.data.progress import with_progress
from detgraph.errors import DetError


def scaffold_splits(smiles: Sequence[str], name: str) -> dict[str, NDArray[np.int64]]:
    """80/10/10 % of the rows, in groups of one Murcko scaffold, the largest to train, as DeepChem does.

    Molecules without rings are one group. A SMILES that cannot be read is a group of its own. Nothing is
    random: of groups of one size the one with the later first row goes first.

    Args:
        smiles: one a row.
        name: of the data set, for messages.
    """
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(with_progress(smiles, f"Scaffolds of {name}")):
        groups.setdefault(_scaffold(text, row), []).append(row)
    train, valid, test = list[int](), list[int](), list[int]()
    for group in sorted(groups.values(), key=lambda group: (len(group), group[0]), reverse=True):
        if len(train) + len(group) <= 0.8 * len(smiles):
            train += group
        elif len(train) + len(valid) + len(group) <= 0.9 * len(smiles):
            valid += group
        else:
            test += group
    rows = {"train": train, "valid": valid, "test": test}
    empty = [split for split, members in rows.items() if not members]
    if empty:
        raise DetError(
            f"{name}: a split by scaffold leaves {empty[0]} empty; the largest of {len(groups)} scaffolds "
            f"has {max(map(len, groups.values()))} of {len(smiles)} molecules. Take data.split=random."
        )
    return {split: np.sort(np.array(members, dtype=np.int64)) for split, members in rows.items()}


def _scaffold(smiles: str, row: int) -> str:
    try:
        return str(MurckoScaffoldSmiles(mol=parse_smiles(smiles)))  # type: ignore[no-untyped-call]  # RDKit
    except ValueError:
        return f"unreadable {row}"
