"""What questions reach in a graph, hop by hop, without the edges that would give an answer away."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from detgraph.kernels.lanes import PARALLEL, use_threads
from detgraph.kernels.path_step import Hop

Integers = NDArray[np.int64]


class Graph(NamedTuple):
    """Edges by the entity that they leave, each there and back."""

    first: Integers  # (entities + 1,) first edge of each
    neighbor: NDArray[np.int32]  # (edges,)
    relation: NDArray[np.int32]  # (edges,)
    inverse: NDArray[np.int32]  # (relations,) the relation of the way back

    @classmethod
    def of(
        cls, source: Integers, relation: Integers, neighbor: Integers, entities: int, relations: int
    ) -> "Graph":
        """A graph of edges in any order; r + ``relations`` is the inverse of r."""
        order = np.argsort(source, kind="stable")
        first = np.searchsorted(source[order], np.arange(entities + 1))
        inverse = np.roll(np.arange(2 * relations, dtype=np.int32), relations)
        return cls(first, neighbor[order].astype(np.int32), relation[order].astype(np.int32), inverse)


class Rule(NamedTuple):
    """What is asked, and the edges between source and answers that are not to be seen."""

    source: Integers  # (questions,)
    forward: Integers  # (questions,) relation of hidden edges from the source to an answer; -1: any
    backward: Integers  # (questions,) the same from an answer to the source
    start: Integers  # (questions + 1,) where each question's hidden answers begin
    answer: Integers  # (answers,)


class Reached(NamedTuple):
    """The goals that questions reach, and the edges to them, hop by hop."""

    hops: list[Hop]
    question: Integers  # (goals,) ascending
    entity: Integers  # (goals,) ascending within a question
    node: Integers  # (goals,) the same entity among all that send at the last hop; -1 = none


def reach(graph: Graph, rule: Rule, hops: int, goals: NDArray[np.bool_]) -> Reached:
    """What questions reach.

    Args:
        graph: the edges.
        rule: what is asked, and what is hidden.
        hops: edges of a path.
        goals: (entities,) where paths may end, beside hidden answers.
    """
    size = len(rule.source)
    use_threads(size * len(graph.neighbor))
    nodes, edges = np.ones((size, hops), np.int64), np.zeros((size, hops), np.int64)
    nothing = np.zeros((size + 1, 2), np.int64), np.empty(0, np.int32), np.empty((3, 0), np.int32)
    walk(graph, rule, nodes, edges, *nothing, False)
    places = _begins(np.column_stack([nodes[:, -1], edges[:, -1]]))
    reached, inner = np.empty(places[-1, 0], np.int32), np.empty((3, places[-1, 1]), np.int32)
    walk(graph, rule, nodes, edges, places, reached, inner, True)

    # Edges to goals are listed at once, with gaps: there is room for all edges of all goals.
    degree = np.diff(graph.first)
    more = _begins(np.column_stack([np.ones_like(rule.answer), degree[rule.answer]]))[rule.start]
    room = more + np.arange(size + 1)[:, None] * [goals.sum(), degree[goals].sum()]
    ended, last = np.empty((2, room[-1, 0]), np.int32), np.empty((3, room[-1, 1]), np.int32)
    found = np.zeros((size, 2), np.int64)
    arrive(graph, rule, places, reached, goals, room, found, ended, last)

    begins = [_begins(count) for count in nodes.T]
    begin = places[:-1, 1]
    inner_hops = [
        Hop(begins[number], begins[number + 1], begin, begin + edges[:, number + 1], *inner)
        for number in range(hops - 1)
    ]
    end = _begins(found[:, 0])
    last_hop = Hop(begins[-1], end, room[:-1, 1], room[:-1, 1] + found[:, 1], *last)
    question = np.repeat(np.arange(size), found[:, 0])
    place = np.arange(len(question)) + np.repeat(room[:-1, 0] - end[:-1], found[:, 0])
    entity, node = ended[:, place].astype(np.int64)
    return Reached(
        [*inner_hops, last_hop], question, entity, np.where(node < 0, -1, node + begins[-1][question])
    )


def _begins(count: Integers) -> Integers:
    """Where each of consecutive parts begins, and the end."""
    return np.concatenate([np.zeros((1, *count.shape[1:]), np.int64), np.cumsum(count, axis=0)])


@njit
def is_hidden(rule: Any, q: int, u: int, v: int, along: int) -> bool:
    """Whether the edge of u that leads to v is one between the source and a hidden answer."""
    unseen = rule.answer[rule.start[q] : rule.start[q + 1]]
    if u == rule.source[q] and (rule.forward[q] < 0 or rule.forward[q] == along):
        for answer in unseen:
            if v == answer:
                return True
    if v == rule.source[q] and (rule.backward[q] < 0 or rule.backward[q] == along):
        for answer in unseen:
            if u == answer:
                return True
    return False


@njit(**PARALLEL)
def walk(
    graph: Graph, rule: Rule, nodes: Any, edges: Any, places: Any, reached: Any, inner: Any, write: bool
) -> None:
    """All hops but the last, breadth-first: count nodes and edges, then (``write``) list them.

    Args:
        graph: the edges.
        rule: what is asked, and what is hidden.
        nodes: (questions, hops) reached by 0, 1, … hops; counted here.
        edges: (questions, hops) that leave from what is reached by less hops; counted here.
        places: (questions + 1, 2) where the nodes and edges of each question begin.
        reached: (nodes,) entities in the order in which they are reached.
        inner: (3, edges) senders, receivers and relations.
        write: list as well.
    """
    for q in prange(len(rule.source)):
        number = np.full(len(graph.first) - 1, -1, np.int32)  # of each entity among the question's nodes
        seen = np.empty(len(graph.first) - 1, np.int32)
        source = rule.source[q]
        number[source], seen[0] = 0, source
        begin, end, edge = 0, 1, places[q, 1]
        for hop in range(1, nodes.shape[1]):
            count = end
            for i in range(begin, end):
                u = seen[i]
                for e in range(graph.first[u], graph.first[u + 1]):
                    v, along = graph.neighbor[e], graph.relation[e]
                    if (u == source or v == source) and is_hidden(rule, q, u, v, along):
                        continue
                    if number[v] < 0:
                        number[v], seen[count] = count, v
                        count += 1
                    if write:
                        inner[0, edge], inner[1, edge], inner[2, edge] = i, number[v], along
                    edge += 1
            begin, end = end, count
            nodes[q, hop], edges[q, hop] = end, edge - places[q, 1]
        if write:
            reached[places[q, 0] : places[q + 1, 0]] = seen[:end]


@njit(**PARALLEL)
def arrive(
    graph: Graph,
    rule: Rule,
    places: Any,
    reached: Any,
    goals: Any,
    room: Any,
    found: Any,
    ended: Any,
    last: Any,
) -> None:
    """The last hop, from its ends, of which there may be few.

    An edge from one of them back to what is reached is the inverse of one that leads there.

    Args:
        graph: the edges.
        rule: what is asked, and what is hidden.
        places: as `walk` has it.
        reached: as `walk` has it.
        goals: (entities,) where paths may end, beside hidden answers.
        room: (questions + 1, 2) where the goals and last edges of each question begin.
        found: (questions, 2) how many there are; counted here.
        ended: (2, goals) entity, and number among the nodes or -1.
        last: (3, edges) senders, receivers and relations.
    """
    for q in prange(len(rule.source)):
        number = np.full(len(graph.first) - 1, -1, np.int32)
        for i in range(places[q, 0], places[q + 1, 0]):
            number[reached[i]] = i - places[q, 0]
        wanted = goals.copy()
        for answer in rule.answer[rule.start[q] : rule.start[q + 1]]:
            wanted[answer] = True
        source, goal, edge = rule.source[q], 0, room[q, 1]
        for v in range(len(wanted)):
            if not wanted[v]:
                continue
            before = edge
            for e in range(graph.first[v], graph.first[v + 1]):
                u, along = graph.neighbor[e], graph.relation[e]
                if number[u] < 0 or ((u == source or v == source) and is_hidden(rule, q, v, u, along)):
                    continue
                last[0, edge], last[1, edge], last[2, edge] = number[u], goal, graph.inverse[along]
                edge += 1
            if edge > before or number[v] >= 0:
                ended[0, room[q, 0] + goal], ended[1, room[q, 0] + goal] = v, number[v]
                goal += 1
        found[q, 0], found[q, 1] = goal, edge - room[q, 1]
