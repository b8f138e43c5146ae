"""Configuration: one typed schema for YAML files and overrides on the command line."""

from detgraph.config.data import MoleculeData, NetworkData, TripleData
from detgraph.config.reading import dump_config, load_config, parse_config
from detgraph.config.schema import Config, EntityConfig, GraphConfig, NodeConfig, TrainingConfig
from detgraph.config.section import Section

__all__ = [
    "Config",
    "EntityConfig",
    "GraphConfig",
    "MoleculeData",
    "NetworkData",
    "NodeConfig",
    "Section",
    "TrainingConfig",
    "TripleData",
    "dump_config",
    "load_config",
    "parse_config",
]
