"""The dual-encoding Transformer (DET) for molecules, networks and knowledge graphs."""

__version__ = "0.1.0"
