"""Rings, with RDKit as referee."""

import numpy as np
import pytest

from detgraph.data.featurizers import get_featurizer, parse_smiles
from detgraph.data.rings import LARGEST, RING_CODES, ring_codes

SMILES = [
    "C",
    "CCO",
    "[Na+].[Cl-]",
    "C1CC1CC",
    "c1ccc2ccccc2c1",
    "C1CC2CCC1CC2",
    "CN1C=NC2=C1C(=O)N(C(=O)N2C)C",
    "C12C3C4C1C5C2C3C45",  # cubane
    "C1CCCCCCCCCCCCCCCCCCCCCCC1.CC",
]


def smallest_rings(smiles: str) -> list[int]:
    """By RDKit; 0 = in no ring."""
    mol = parse_smiles(smiles)
    info = mol.GetRingInfo()
    return [info.MinBondRingSize(bond.GetIdx()) for bond in mol.GetBonds()]


def codes_of(smiles: list[str]) -> list[int]:
    featurizer = get_featurizer("standard")
    codes = featurizer.encode([parse_smiles(text) for text in smiles])
    starts = [np.concatenate([[0], np.cumsum(counts)]) for counts in (codes.atom_counts, codes.bond_counts)]
    found: list[int] = ring_codes(starts[0], starts[1], codes.ends).tolist()
    return found


@pytest.mark.parametrize("smiles", SMILES)
def test_the_smallest_ring_of_each_bond(smiles: str) -> None:
    expected = [max(min(size, LARGEST) - 2, 0) for size in smallest_rings(smiles)]
    assert codes_of([smiles]) == expected
    assert max(expected, default=0) < RING_CODES


def test_many_molecules_at_once() -> None:
    assert codes_of(SMILES) == [code for smiles in SMILES for code in codes_of([smiles])]
