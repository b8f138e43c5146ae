"""Shortest paths against a search one atom at a time."""

from collections import deque

import numpy as np
import pytest
from numpy.typing import NDArray

from detgraph.data.featurizers import get_featurizer
from detgraph.data.paths import return_probabilities, shortest_paths

Graph = tuple[NDArray[np.int64], NDArray[np.int64], int]  # edge_index in both directions, kinds, nodes

SMILES = [
    "C",
    "CC",
    "[Na+].[Cl-]",
    "CCO.c1ccccc1.C",
    "CC(=O)Oc1ccccc1C(=O)O",
    "CN1C=NC2=C1C(=O)N(C(=O)N2C)C",
    "C1CC2CCC1CC2",
    "C#CC=CC(Cl)(Br)S",
    "C" * 30,
]


def molecule(smiles: str) -> Graph:
    """The bond type is the kind."""
    graph = get_featurizer("standard")(smiles)
    return graph.edge_index.numpy(), graph.edge_attr[:, 0].numpy(), graph.num_nodes


def random_graph(seed: int) -> Graph:
    """Few edges, so that most graphs fall apart; kinds are random."""
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(1, 14))
    linked = np.triu(rng.random((nodes, nodes)) < rng.uniform(0.05, 0.5), k=1)
    one_way = np.stack(np.nonzero(linked)).astype(np.int64)
    kinds = rng.integers(0, 5, one_way.shape[1])
    return np.concatenate([one_way, one_way[::-1]], axis=1), np.tile(kinds, 2), nodes


def slow_distances(edge_index: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    """Breadth first from every node; -1 = no path."""
    near: list[list[int]] = [[] for _ in range(nodes)]
    for source, target in edge_index.T:
        near[source].append(int(target))
    found = np.full((nodes, nodes), -1)
    for start in range(nodes):
        found[start, start] = 0
        queue = deque([start])
        while queue:
            here = queue.popleft()
            for other in near[here]:
                if found[start, other] < 0:
                    found[start, other] = found[start, here] + 1
                    queue.append(other)
    return found


def walks(graph: Graph, path: NDArray[np.uint8], start: int, end: int) -> bool:
    """Whether bonds of exactly these kinds, in this order, lead from ``start`` to ``end``."""
    edge_index, kinds, _ = graph
    places = {start}
    for code in path:
        places = {
            int(target)
            for (source, target), kind in zip(edge_index.T, kinds, strict=True)
            if source in places and kind + 1 == code
        }
    return end in places


GRAPHS = {smiles: molecule(smiles) for smiles in SMILES} | {f"random {i}": random_graph(i) for i in range(25)}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_distances_and_paths(graph: Graph) -> None:
    edge_index, kinds, nodes = graph
    distance, paths = shortest_paths(edge_index, kinds, nodes, max_hops=40)
    expected = slow_distances(edge_index, nodes)
    assert distance.shape == (nodes, nodes)
    assert np.array_equal(distance, expected + 1)
    assert paths.shape == (nodes, nodes, expected.max())
    # As many bonds as the distance says, then nothing.
    length = np.maximum(expected, 0)
    assert np.array_equal(paths > 0, np.arange(paths.shape[2]) < length[:, :, None])
    for start in range(nodes):
        for end in range(nodes):
            if expected[start, end] > 0:
                assert walks(graph, paths[start, end, : length[start, end]], start, end)


def test_the_test_set_has_what_it_should_have() -> None:
    apart = [
        key for key, (edge_index, _, nodes) in GRAPHS.items() if (slow_distances(edge_index, nodes) < 0).any()
    ]
    assert "[Na+].[Cl-]" in apart
    assert len(apart) > 8
    assert any(nodes == 1 for *_, nodes in GRAPHS.values())


def test_order_is_from_the_first_atom_toward_the_second() -> None:
    edge_index = np.array([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])  # a chain with bonds of kinds 5, 6, 7
    kinds = np.array([5, 5, 6, 6, 7, 7])
    _, paths = shortest_paths(edge_index, kinds, 4, max_hops=10)
    assert paths[0, 3].tolist() == [6, 7, 8]
    assert paths[3, 0].tolist() == [8, 7, 6]
    assert paths[1, 3].tolist() == [7, 8, 0]
    assert paths[2, 2].tolist() == [0, 0, 0]


def test_long_paths_keep_their_first_bonds() -> None:
    edge_index, kinds, nodes = molecule("O=CCC#CC")
    distance, whole = shortest_paths(edge_index, kinds, nodes, max_hops=20)
    cut_distance, cut = shortest_paths(edge_index, kinds, nodes, max_hops=2)
    assert cut.shape == (6, 6, 2)
    assert np.array_equal(cut, whole[:, :, :2])
    assert np.array_equal(cut_distance, distance)


def test_distances_beyond_a_byte_are_cut_off() -> None:
    chain = np.stack([np.arange(299), np.arange(1, 300)])
    edge_index = np.concatenate([chain, chain[::-1]], axis=1)
    distance, _ = shortest_paths(edge_index, np.zeros(598, dtype=np.int64), 300, max_hops=3)
    assert distance[0, [0, 1, 253, 254, 299]].tolist() == [1, 2, 254, 254, 254]


def test_a_single_atom_has_no_path() -> None:
    distance, paths = shortest_paths(*molecule("C"), max_hops=20)
    assert distance.tolist() == [[1]]
    assert paths.shape == (1, 1, 0)


def test_return_probabilities() -> None:
    ring = np.array([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])  # and an atom without bonds
    chances = return_probabilities(ring, 4, 4)
    assert chances[:3] == pytest.approx(np.tile([0, 1 / 2, 1 / 4, 3 / 8], (3, 1)))
    assert not chances[3].any()
