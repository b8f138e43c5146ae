"""Models of others that DET is compared with, built from PyG's parts."""

from detgraph.baselines.networks import NetworkModel, build_network_model

__all__ = ["NetworkModel", "build_network_model"]
