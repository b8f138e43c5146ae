"""Fused CPU kernels (numba) for sparse graphs; every one has a plain-torch form as its reference."""

from detgraph.kernels.choice import fused_on

__all__ = ["fused_on"]
