"""The connected neighbours that a query may see: never its own answer, never a held-out triple."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Mask = Literal["pair", "triple"]


def queries(triples: NDArray[np.int64], relations: int) -> NDArray[np.int64]:
    """Both questions of every triple: (h, r, ? = t) and (t, r + R, ? = h), (2 · triples, 3)."""
    backward = triples[:, [2, 1, 0]] + np.array([0, relations, 0])
    return np.concatenate([triples, backward])


def distinct_questions(
    asked: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Queries (source, relation, answer), sorted; the question of each; the first query of each question."""
    asked = asked[np.lexsort((asked[:, 1], asked[:, 0]))]
    new = np.any(np.diff(asked[:, :2], axis=0, prepend=-1) != 0, axis=1)
    return asked, np.cumsum(new) - 1, np.flatnonzero(new)


class Contexts:
    """Training edges by source entity.

    Args:
        train: (triples, 3), the only triples that are ever seen.
        entities: number of entities.
        relations: number of relations; r + relations is the inverse of r.
        size: neighbours given to a query at most.
        mask: in training, hide the query's own triple, or every edge between source and answer.
    """

    def __init__(
        self, train: NDArray[np.int64], entities: int, relations: int, size: int, mask: Mask
    ) -> None:
        edges = queries(train, relations)  # (source, relation, neighbour)
        edges = edges[np.argsort(edges[:, 0], kind="stable")]
        self.relation, self.neighbor = edges[:, 1], edges[:, 2]
        self.start = np.searchsorted(edges[:, 0], np.arange(entities + 1))
        self.fixed_key = np.random.default_rng(0).random(len(edges))  # the same sample at every evaluation
        self.size, self.mask, self.entities, self.relations = size, mask, entities, relations

    def of(
        self, asked: NDArray[np.int64], rng: np.random.Generator | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Neighbours and relations of each query's source, (queries, size), -1 = none.

        With ``rng`` (training) a random sample without the answer's edge; else a fixed sample.
        """
        source, relation, answer = asked.T
        count = self.start[source + 1] - self.start[source]
        row = np.repeat(np.arange(len(asked)), count)
        edge = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + self.start[source][row]
        if rng is None:
            key = self.fixed_key[edge]
        else:
            hidden = self.neighbor[edge] == answer[row]
            if self.mask == "triple":
                same = self.relation[edge] == relation[row]
                # A triple from an entity to itself is there twice, also as its own inverse.
                loop = (source == answer)[row] & ((self.relation[edge] - relation[row]) % self.relations == 0)
                hidden &= same | loop
            row, edge = row[~hidden], edge[~hidden]
            key = rng.random(len(edge))
        order = np.lexsort((key, row))
        row, edge = row[order], edge[order]
        place = np.arange(len(row)) - np.searchsorted(row, row)  # position among the row's edges
        kept = place < self.size
        neighbors, relations = (np.full((len(asked), self.size), -1, dtype=np.int64) for _ in range(2))
        neighbors[row[kept], place[kept]] = self.neighbor[edge[kept]]
        relations[row[kept], place[kept]] = self.relation[edge[kept]]
        return neighbors, relations
