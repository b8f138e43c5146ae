"""The architecture alone: works with plain tensors or a PyG `Data`, and imports nothing else of detgraph."""

from detgraph.nn.ego import EgoBatch, EgoDET
from detgraph.nn.grouped_ego import GroupBatch, GroupedEgoDET
from detgraph.nn.layer import DualAttention, DualEncoderLayer
from detgraph.nn.model import DET, DualEncoding
from detgraph.nn.molecule import MoleculeDET
from detgraph.nn.molecule_batch import MoleculeBatch
from detgraph.nn.neighborhood import Dense, Neighborhood, Sparse
from detgraph.nn.network import NetworkDET

__all__ = [
    "DET",
    "Dense",
    "DualAttention",
    "DualEncoderLayer",
    "DualEncoding",
    "EgoBatch",
    "EgoDET",
    "GroupBatch",
    "GroupedEgoDET",
    "MoleculeBatch",
    "MoleculeDET",
    "Neighborhood",
    "NetworkDET",
    "Sparse",
]
