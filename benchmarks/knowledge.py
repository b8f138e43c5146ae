"""Knowledge graphs at FB15K-237's size: filtered ranks beside PyKEEN's evaluator, on the same scores."""

import warnings
from typing import Any

import numpy as np
import torch
from timing import in_turns

from detgraph.data.benchmarks import load_benchmark
from detgraph.data.triples import Triples
from detgraph.tasks.contexts import queries
from detgraph.tasks.ranking import KnownAnswers, ranks, summarize

TRIPLES, REPEATS = 1000, 3


def evaluation() -> dict[str, Any]:
    """Both directions of some test triples, filtering included."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pykeen.evaluation import RankBasedEvaluator
        from pykeen.evaluation.evaluator import create_sparse_positive_filter_, filter_scores_

    data = load_benchmark("fb15k-237")
    assert isinstance(data, Triples)
    relations = len(data.relations)
    everything = np.concatenate([data.train, data.valid, data.test])
    chosen = data.test[:TRIPLES]
    asked, known = queries(chosen, relations), KnownAnswers(everything, relations)
    scores = torch.randn(len(asked), len(data.entities), generator=torch.Generator().manual_seed(0))
    batch, rows, positives = torch.from_numpy(chosen), torch.arange(TRIPLES), torch.from_numpy(everything)

    def ours() -> float:
        return summarize(ranks(scores, asked, known))["mrr"]

    def peer() -> float:
        evaluator = RankBasedEvaluator()
        for target, column, part in zip(("tail", "head"), (2, 0), scores.chunk(2), strict=True):
            wrong, _ = create_sparse_positive_filter_(batch, positives, None, column)
            own = part[rows, batch[:, column]]
            filtered = filter_scores_(part.clone(), wrong)
            filtered[rows, batch[:, column]] = own
            evaluator.process_scores_(batch, target, filtered, own[:, None])
        return float(evaluator.finalize().get_metric("both.realistic.inverse_harmonic_mean_rank"))

    agree = abs(ours() - peer()) < 1e-6
    return {**in_turns(ours, peer, REPEATS, bar=0.5), "holds": agree}
