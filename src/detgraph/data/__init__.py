"""Data: a user's files and the benchmarks, as PyG graphs or triples with the names behind the numbers."""
