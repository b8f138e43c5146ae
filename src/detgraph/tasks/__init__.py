"""The three tasks behind one call."""

from detgraph.config import Config, EntityConfig, GraphConfig, NodeConfig
from detgraph.data.load import load_molecules, load_network, load_triples
from detgraph.tasks.base import Metrics, Split, Task
from detgraph.tasks.ego import EgoTask
from detgraph.tasks.entity import EntityTask
from detgraph.tasks.entity_baseline import EntityBaselineTask
from detgraph.tasks.graph import GraphTask
from detgraph.tasks.grouped import GroupedTask
from detgraph.tasks.node import NodeTask
from detgraph.tasks.node_baseline import NodeBaselineTask

__all__ = [
    "EgoTask",
    "EntityBaselineTask",
    "EntityTask",
    "GraphTask",
    "GroupedTask",
    "Metrics",
    "NodeBaselineTask",
    "NodeTask",
    "Split",
    "Task",
    "build_task",
]


def build_task(config: Config) -> Task:
    """Load the data that ``config`` names and build its model on it."""
    match config:
        case GraphConfig():
            return GraphTask(load_molecules(config.data), config)
        case NodeConfig():
            task = NodeTask if config.baseline is None else NodeBaselineTask
            return task(load_network(config.data), config)
        case EntityConfig():
            data = load_triples(config.data)
            if config.baseline is not None:
                return EntityBaselineTask(data, config)
            return (GroupedTask if config.model.composition == "complex" else EgoTask)(data, config)
