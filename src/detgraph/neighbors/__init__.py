"""Finding S(i): nearest-neighbour searches behind one interface, and when to search again."""

from detgraph.neighbors.search import Backend, find_neighbors
from detgraph.neighbors.semantic_neighbors import SemanticNeighbors

__all__ = ["Backend", "SemanticNeighbors", "find_neighbors"]
