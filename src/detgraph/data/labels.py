"""The label of the ZINC benchmark: logP, penalised for hard synthesis and for long cycles."""

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from rdkit import RDConfig
from rdkit.Chem import rdMolDescriptors

from detgraph.errors import DetError


def penalized_logp(mol: Any) -> float:
    """The penalised logP of an RDKit molecule, on ZINC's standardised scale.

    ``0.6976318·logP − 1.1981676·SA − 3.47513916·max(0, longest cycle − 6) + 2.11182997``. Each of the three
    terms was standardised over the ZINC-250k molecules, which is where the factors come from.
    """
    too_long = max(0, longest_cycle(mol) - 6)
    logp, _ = rdMolDescriptors.CalcCrippenDescriptors(mol)
    score = _synthetic_accessibility().calculateScore(mol)
    return float(0.6976318 * logp - 1.1981676 * score - 3.47513916 * too_long + 2.11182997)


def longest_cycle(mol: Any) -> int:
    """The length of the longest cycle in a cycle basis of the molecule, 0 without a ring.

    A basis is not unique. The official labels come from Paton's algorithm, which grows a spanning tree from
    the first atom, always from the atom reached last, and closes one cycle for every bond outside the tree.
    RDKit's smallest rings are another basis, and give the official label less often.
    """
    neighbors = [[other.GetIdx() for other in atom.GetNeighbors()] for atom in mol.GetAtoms()]
    visited: set[int] = set()
    longest = 0
    for root in range(len(neighbors)):  # more than one root only for molecules in several pieces
        if root in visited:
            continue
        parent = {root: root}
        joined: dict[int, set[int]] = {root: set()}  # atom -> atoms whose bond to it has been walked
        stack = [root]
        while stack:
            atom = stack.pop()
            for other in neighbors[atom]:
                if other not in parent:
                    parent[other] = atom
                    joined[other] = {atom}
                    stack.append(other)
                elif other not in joined[atom]:
                    longest = max(longest, _cycle_length(atom, joined[other], parent))
                    joined[other].add(atom)
        visited |= parent.keys()
    return longest


def _cycle_length(atom: int, ends: set[int], parent: dict[int, int]) -> int:
    """Atoms on the way up the tree from ``atom`` to the first of ``ends``, and the atom that closes it."""
    length = 2
    while (atom := parent[atom]) not in ends:
        length += 1
    return length + 1


@cache
def _synthetic_accessibility() -> ModuleType:
    """RDKit's own SA score, which its wheel carries as a contributed script outside the package."""
    script = Path(RDConfig.RDContribDir, "SA_Score", "sascorer.py")
    spec = importlib.util.spec_from_file_location("sascorer", script)
    if not script.is_file() or spec is None or spec.loader is None:
        raise DetError(
            f"RDKit's synthetic-accessibility score was not found: expected {script}. "
            "The wheel on PyPI carries it: pip install --force-reinstall rdkit."
        )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
