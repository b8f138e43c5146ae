"""The data a configuration names: a benchmark, or a user's own files."""

from typing import Any, TypeVar

from detgraph.config import MoleculeData, NetworkData, TripleData
from detgraph.data.benchmarks import Dataset, load_benchmark
from detgraph.data.molecules import Molecules, read_molecules
from detgraph.data.networks import Network, read_network
from detgraph.data.npz import read_npz
from detgraph.data.triples import Triples, read_triples
from detgraph.errors import DetError

Kind = TypeVar("Kind", Molecules, Network, Triples)


def load_data(config: MoleculeData | NetworkData | TripleData) -> Dataset:
    """Whatever a configuration names."""
    if isinstance(config, MoleculeData):
        return load_molecules(config)
    return load_network(config) if isinstance(config, NetworkData) else load_triples(config)


def load_molecules(config: MoleculeData) -> Molecules:
    """Molecules of a benchmark or of a table of SMILES."""
    if config.file is None:
        skip = "skip" if config.bad_rows == "skip" else None
        return _benchmark(config.name, Molecules, "graph", limit=config.limit, bad_rows=skip)
    return read_molecules(
        config.file,
        smiles_column=config.smiles_column,
        targets=config.targets,
        split_column=config.split_column,
        split=config.split,
        kind=config.kind,
        bad_rows=config.bad_rows,
        split_seed=config.split_seed,
        limit=config.limit,
    )


def load_network(config: NetworkData) -> Network:
    """A benchmark network, or one from an edge list and a node table, or from one .npz."""
    if config.npz is not None:
        return read_npz(config.npz, split_seed=config.split_seed)
    if config.nodes is None or config.edges is None:
        return _benchmark(config.name, Network, "node", num_nodes=config.num_nodes)
    return read_network(
        config.edges,
        config.nodes,
        id_column=config.id_column,
        label_column=config.label_column,
        split_column=config.split_column,
        features=config.features,
        multi_label=config.multi_label,
        split_seed=config.split_seed,
    )


def load_triples(config: TripleData) -> Triples:
    """Triples of a benchmark or of TSV files."""
    if config.train is None:
        return _benchmark(config.name, Triples, "entity")
    return read_triples(
        config.train,
        config.valid,
        config.test,
        entity_names=config.entity_names,
        relation_names=config.relation_names,
        name=config.label,
        split_seed=config.split_seed,
    )


def _benchmark(name: str | None, kind: type[Kind], task: str, **options: Any) -> Kind:
    assert name is not None, "the configuration was validated"
    data = load_benchmark(name, **{key: value for key, value in options.items() if value is not None})
    if not isinstance(data, kind):
        raise DetError(f"data.name: {name!r} is no benchmark for the task {task!r}; see `det data list`.")
    return data
