"""Random molecules as codes, and batches of them."""

from collections.abc import Sequence

import numpy as np

from detgraph.data.featurizers import Featurizer, MoleculeCodes
from detgraph.data.molecule_graphs import MoleculeGraphs
from detgraph.nn import MoleculeBatch
from detgraph.tasks.molecule_batches import make_batch

FEATURES = Featurizer(
    "test",
    atom_sizes=(5, 3),
    bond_sizes=(2, 2),
    atom_codes=lambda tables: tables.atoms.astype(np.int64),
    bond_codes=lambda tables: tables.bonds.astype(np.int64),
)


def random_molecule(size: int, *, seed: int, rings: int = 2) -> MoleculeCodes:
    """A random tree of atoms with some more bonds."""
    rng = np.random.default_rng(seed)
    tree = [(int(rng.integers(atom)), atom) for atom in range(1, size)]
    free = [(i, j) for j in range(size) for i in range(j) if (i, j) not in tree]
    extra = [free[at] for at in rng.permutation(len(free))[:rings]]
    ends = np.array([*tree, *extra], np.uint16).reshape(-1, 2)
    atoms = np.stack([rng.integers(count, size=size) for count in FEATURES.atom_sizes], axis=1)
    kinds = rng.integers(FEATURES.bond_kinds, size=len(ends)).astype(np.uint8)
    return MoleculeCodes(np.array([size]), np.array([len(ends)]), atoms.astype(np.uint8), ends, kinds)


def shuffled(molecule: MoleculeCodes, seed: int = 0) -> MoleculeCodes:
    """The same molecule with its atoms and bonds in another order."""
    rng = np.random.default_rng(seed)
    order, bonds = rng.permutation(len(molecule.atoms)), rng.permutation(len(molecule.ends))
    new = np.argsort(order).astype(np.uint16)
    return molecule._replace(
        atoms=molecule.atoms[order], ends=new[molecule.ends[bonds]], kinds=molecule.kinds[bonds]
    )


def batch_of(molecules: Sequence[MoleculeCodes], walk_steps: int = 0) -> MoleculeBatch:
    graphs = MoleculeGraphs.of(FEATURES, molecules)
    y, index = np.zeros((len(molecules), 2), np.float32), np.arange(len(molecules))
    return make_batch(graphs, y, index, walk_steps, rings=True)
