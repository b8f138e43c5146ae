"""Shortest paths against a search one atom at a time."""

from collections import deque

import numpy as np
import pytest
from numpy.typing import NDArray

from detgraph.data.featurizers import get_featurizer
from detgraph.data.paths import Bonds, shortest_paths, walk

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
    codes = get_featurizer("standard")(smiles)
    ends = codes.ends.astype(np.int64).T
    kinds = get_featurizer("standard").bond_columns(codes.kinds)[:, 0]
    return np.concatenate([ends, ends[::-1]], axis=1), np.tile(kinds, 2), len(codes.atoms)


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


def walks(graph: Graph, path: list[int], start: int, end: int) -> bool:
    """Whether bonds of exactly these kinds, in this order, lead from ``start`` to ``end``."""
    edge_index, kinds, _ = graph
    places = {start}
    for code in path:
        places = {
            int(target)
            for (source, target), kind in zip(edge_index.T, kinds, strict=True)
            if source in places and kind == code
        }
    return end in places


GRAPHS = {smiles: molecule(smiles) for smiles in SMILES} | {f"random {i}": random_graph(i) for i in range(25)}


def paths_of(*graphs: Graph) -> list[tuple[NDArray[np.int64], list[list[list[int]]]]]:
    """Of each graph the distances (nodes, nodes), -1 = none, and the kinds of bonds from i to j."""
    sizes = np.array([nodes for *_, nodes in graphs])
    one_way = [edge_index[:, edge_index[0] < edge_index[1]].T for edge_index, *_ in graphs]
    kinds = [kind[edge_index[0] < edge_index[1]] for edge_index, kind, _ in graphs]
    bonds = Bonds(
        np.concatenate([[0], np.cumsum(sizes)]),
        np.concatenate([[0], np.cumsum([len(part) for part in one_way])]),
        np.concatenate(one_way).astype(np.uint16).reshape(-1, 2),
        np.concatenate(kinds).astype(np.uint8),
    )
    atom, before, bond, distance = shortest_paths(bonds)
    found, start = [], 0
    for size in sizes.tolist():
        lengths = np.full((size, size), -1)
        ways: list[list[list[int]]] = [[[] for _ in range(size)] for _ in range(size)]
        for i in range(size):
            row = slice(start + i * size, start + (i + 1) * size)
            assert sorted(atom[row].tolist()) == list(range(size))
            seen: list[list[int]] = []
            for t, (j, shorter, kind, code) in enumerate(
                zip(
                    atom[row].tolist(),
                    before[row].tolist(),
                    bond[row].tolist(),
                    distance[row].tolist(),
                    strict=True,
                )
            ):
                lengths[i, j] = code - 1
                assert t == 0 or code <= 1 or shorter < t  # the shorter path comes first
                seen.append([*seen[shorter], kind] if code > 1 else [])
                ways[i][j] = seen[t]
        found.append((lengths, ways))
        start += size**2
    return found


def test_distances_and_paths() -> None:
    for graph, (lengths, ways) in zip(GRAPHS.values(), paths_of(*GRAPHS.values()), strict=True):
        edge_index, _, nodes = graph
        assert np.array_equal(lengths, slow_distances(edge_index, nodes))
        for start in range(nodes):
            for end in range(nodes):
                assert len(ways[start][end]) == max(lengths[start, end], 0)
                if lengths[start, end] > 0:
                    assert walks(graph, ways[start][end], start, end)


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
    [(_, ways)] = paths_of((edge_index, kinds, 4))
    assert ways[0][3] == [5, 6, 7]
    assert ways[3][0] == [7, 6, 5]
    assert ways[1][3] == [6, 7]
    assert ways[2][2] == []


def test_distances_beyond_a_byte_are_cut_off() -> None:
    chain = np.stack([np.arange(299), np.arange(1, 300)])
    edge_index = np.concatenate([chain, chain[::-1]], axis=1)
    [(lengths, _)] = paths_of((edge_index, np.zeros(598, dtype=np.int64), 300))
    assert lengths[0, [0, 1, 252, 253, 254, 299]].tolist() == [0, 1, 252, 253, 253, 253]


def test_walks_are_powers_of_the_step_matrix() -> None:
    sizes = np.array([4, 1, 3])  # a triangle with an atom apart, a single atom, a chain
    ends = np.array([[0, 1], [1, 2], [2, 0], [0, 1], [1, 2]], np.uint16)
    chances = np.empty((16 + 1 + 9, 6), np.float32)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    walk(starts, np.array([0, 3, 3, 5]), ends, np.array([0, 16, 17, 26]), chances)
    for size, bonds, first in ((4, ends[:3], 0), (1, ends[:0], 16), (3, ends[3:], 17)):
        step = np.zeros((size, size))
        step[bonds[:, 0], bonds[:, 1]] = step[bonds[:, 1], bonds[:, 0]] = 1
        step /= np.maximum(step.sum(axis=1, keepdims=True), 1)
        for count in range(6):
            expected = np.linalg.matrix_power(step, count + 1).ravel()
            assert chances[first : first + size**2, count] == pytest.approx(expected, abs=1e-6)
