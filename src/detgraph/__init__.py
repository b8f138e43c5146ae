"""The dual-encoding Transformer (DET) for molecules, networks and knowledge graphs."""

import warnings

# Torch says so, once a process, of the layout of sparse features and links; a user can do nothing about it.
warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")

__version__ = "0.1.0"
