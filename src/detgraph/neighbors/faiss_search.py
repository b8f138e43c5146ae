"""FAISS indexes (flat, inverted lists, HNSW) with the metric of the semantic operator."""

from typing import Any

import faiss
import numpy as np
import torch
from torch import Tensor

from detgraph.neighbors.exact import Exclusions, exact_search, metric_scores

METRICS = {"l1": faiss.METRIC_L1, "l2": faiss.METRIC_L2, "dot": faiss.METRIC_INNER_PRODUCT}

FEWEST_TO_CLUSTER = 1_000  # nodes; fewer are scanned faster than they are put into lists


def build_index(vectors: np.ndarray[Any, np.dtype[np.float32]], metric: str, kind: str) -> Any:
    """A filled FAISS index over ``vectors`` (nodes, dim)."""
    nodes, dim = vectors.shape
    measure = METRICS[metric]
    index: Any
    if kind == "flat" or (kind == "ivf" and nodes < FEWEST_TO_CLUSTER):
        index = faiss.IndexFlat(dim, measure)
    elif kind == "hnsw":
        index = faiss.IndexHNSWFlat(dim, 32, measure)
        index.hnsw.efConstruction, index.hnsw.efSearch = 80, 128
    else:
        lists = max(1, min(int(4 * nodes**0.5), nodes // 39))  # FAISS wants 39 training points a list
        index = faiss.IndexIVFFlat(faiss.IndexFlat(dim, measure), dim, lists, measure)
        index.nprobe = max(1, lists // 16)
        index.train(vectors)
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1 if kind == "hnsw" else threads)  # a threaded HNSW build is not repeatable
    try:
        index.add(vectors)
    finally:
        faiss.omp_set_num_threads(threads)
    return index


def faiss_search(vectors: Tensor, metric: str, k: int, excluded: Exclusions, kind: str) -> Tensor:
    """The ``k`` nearest nodes of each node that are not excluded, (nodes, k), -1 where there are fewer.

    The index knows nothing of exclusions, so more than k are asked for; the few nodes with so many
    neighbours that fewer than k remain are searched exactly.
    """
    nodes = len(vectors)
    if metric == "l2":  # FAISS expands (a - b)², which rounds small distances away far from the origin
        vectors = vectors - vectors.mean(dim=0)
    array = np.ascontiguousarray(vectors.numpy(), dtype=np.float32)
    index = build_index(array, metric, kind)
    spare = int(torch.quantile(excluded.count[: 2**20].float(), 0.95).ceil())
    _, found = index.search(array, min(nodes, k + spare))
    candidates = torch.from_numpy(found)
    rows = torch.arange(nodes)
    # Stable sort moves excluded candidates behind the others and keeps these in order of distance.
    refused = excluded.contains(rows, candidates)
    order = refused.long().argsort(dim=1, stable=True)
    width = min(k, candidates.size(1))
    result = torch.full((nodes, k), -1, dtype=torch.long)
    kept = candidates.masked_fill(refused, -1).gather(1, order)[:, :width]
    result[:, :width] = kept
    available = (nodes - excluded.count).clamp(max=k)
    short = ((result >= 0).sum(dim=1) < available).nonzero()[:, 0]
    if len(short):
        result[short] = exact_search(metric_scores(vectors, metric), short, nodes, k, excluded)
    return result
