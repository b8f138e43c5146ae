"""The neighbours of a node of a network: connected ones, and distant ones that the run has found."""

from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from detgraph.data.networks import Network
from detgraph.errors import DetError
from detgraph.tasks.node import NodeTask, graph_members


@dataclass(frozen=True)
class Node:
    """A node by the user's id and label."""

    id: str
    label: str


@dataclass(frozen=True)
class NodeNeighborhood:
    """What a run's model reads for a node; distant nodes in the order in which they were found."""

    node: Node
    connected: tuple[Node, ...]
    distant: tuple[Node, ...]

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self.node), "connected": _records(self.connected), "distant": _records(self.distant)}


def node_neighborhood(task: NodeTask, node: str) -> NodeNeighborhood:
    """The neighbours of a node, given by its id."""
    data = task.data
    if node not in data.nodes:
        near = get_close_matches(node, data.nodes, n=3)
        hint = f" Similar: {', '.join(near)}." if near else ""
        raise DetError(f"{data.name}: no node has the id {node!r}.{hint} Give an id of the node table.")
    number = data.nodes.index(node)
    source, target = data.graph.edge_index
    return NodeNeighborhood(
        _nodes(data, torch.tensor([number]))[0],
        _nodes(data, source[target == number]),
        _nodes(data, _found(task, number)),
    )


def tables(found: NodeNeighborhood, top: int | None = None) -> list[Table]:
    """Connected neighbours, then distant ones."""
    shown = []
    for kind, nodes in (("connected", found.connected), ("distant", found.distant)):
        title = f"{found.node.id}: {found.node.label or 'no label'}" if kind == "connected" else None
        table = Table(f"{kind} neighbour", "label", title=title)
        for node in nodes[:top]:
            table.add_row(node.id, node.label)
        shown.append(table)
    return shown


def _found(task: NodeTask, number: int) -> Tensor:
    """Numbers of the semantic neighbours, which are kept by their place in a graph of their own."""
    for part, members in zip(task.parts, graph_members(task.data), strict=True):
        own = torch.arange(len(part.y)) if members is None else members.nonzero()[:, 0]
        place = (own == number).nonzero()[:, 0]
        if len(place):
            found = part.neighbors.found[place[0]]
            return own[found[found >= 0]]
    raise AssertionError("every node is in a graph")


def _nodes(data: Network, numbers: Tensor) -> tuple[Node, ...]:
    return tuple(Node(data.nodes[number], data.label(number)) for number in numbers.tolist())


def _records(nodes: tuple[Node, ...]) -> list[dict[str, Any]]:
    return [asdict(node) for node in nodes]
