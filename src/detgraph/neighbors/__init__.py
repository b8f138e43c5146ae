"""Finding S(i): nearest-neighbour searches behind one interface, and when to search again."""

from detgraph.neighbors.search import Backend, as_edges, find_neighbors
from detgraph.neighbors.semantic_neighbors import Schedule, SemanticNeighbors, Source

__all__ = ["Backend", "Schedule", "SemanticNeighbors", "Source", "as_edges", "find_neighbors"]
