"""A generated citation network in which useful distant nodes exist by construction.

A topic is spread over several communities that hardly cite each other. Papers of one topic share words
wherever they are, so the best witnesses of a paper's topic are partly its neighbours and partly papers
of the same topic far away in the graph. Some papers cite without regard to topic: for them the distant
ones are all there is.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from detgraph.data.features import csr_parts
from detgraph.data.networks import MASKS, Network
from detgraph.errors import DetError

SMALLEST = 100
# Where a word of a paper comes from; the rest are general words of the field.
OWN_TOPIC, ANY_TOPIC, OWN_JARGON = 0.14, 0.36, 0.10
# How the vocabulary is divided: topic words, jargon of communities, and the rest general.
TOPIC_WORDS, JARGON = 0.35, 0.28


def generate_papers(
    num_nodes: int = 2000,
    *,
    topics: int = 7,
    communities_per_topic: int = 4,
    words: int = 1000,
    average_degree: float = 4.0,
    words_per_paper: int = 20,
    homophily: float = 0.72,
    seed: int = 0,
) -> Network:
    """Generate a citation network of any size; the same seed gives the same network.

    Args:
        num_nodes: Papers, 100 or more.
        topics: Classes.
        communities_per_topic: Groups that cite among themselves.
        words: Vocabulary, the columns of ``x``.
        average_degree: Neighbours of a paper, before duplicates merge.
        words_per_paper: Words drawn for each paper; one drawn twice counts once.
        homophily: Share of papers that cite their own community; the others cite any paper.
        seed: Seed of everything.
    """
    communities = topics * communities_per_topic
    if num_nodes < max(SMALLEST, 4 * communities):
        raise DetError(
            f"cannot generate {num_nodes} papers in {communities} communities, "
            f"expected {max(SMALLEST, 4 * communities)} papers or more."
        )
    if topics < 2 or communities_per_topic < 1 or words < 10 * communities:
        raise DetError(
            f"cannot generate {topics} topics of {communities_per_topic} communities with {words} words, "
            f"expected 2 topics, 1 community and {10 * communities} words or more."
        )
    if not 0 <= homophily <= 1 or average_degree <= 0 or words_per_paper < 1:
        raise DetError(
            f"got homophily={homophily}, average_degree={average_degree}, words_per_paper={words_per_paper}; "
            "expected a share from 0 to 1, a positive degree and 1 word or more."
        )
    rng = np.random.default_rng(seed)
    community = rng.permutation(num_nodes) % communities  # (nodes,)
    topic = community % topics
    data = Data(
        x=_words(rng, community, topics, communities, words, words_per_paper),
        edge_index=_citations(rng, community, communities, average_degree, homophily),
        y=torch.from_numpy(topic),
    )
    for key, nodes in zip(MASKS, _split(rng, topic, topics), strict=True):
        data[key] = torch.zeros(num_nodes, dtype=torch.bool)
        data[key][torch.from_numpy(nodes)] = True
    return Network.from_data(
        data,
        name="papers (generated)",
        nodes=[f"paper {number}" for number in range(num_nodes)],
        classes=[f"topic {number}" for number in range(topics)],
        notes=(f"generated with seed {seed}: {communities} communities of {topics} topics, not real data",),
    )


def _citations(
    rng: np.random.Generator, community: NDArray[np.int64], communities: int, degree: float, homophily: float
) -> torch.Tensor:
    """Most papers cite popular ones of their community, some of any; popularity has a heavy tail."""
    num_nodes = len(community)
    source = np.arange(round(num_nodes * degree / 2)) % num_nodes  # (citations,)
    members = np.argsort(community, kind="stable")  # papers, community by community
    # Square roots are the same on every machine, general powers are not.
    popularity = np.cumsum(1.0 / np.sqrt(1.0 - rng.random(num_nodes)))  # of members, summed up
    ends = np.cumsum(np.bincount(community, minlength=communities))
    bounds = np.concatenate([[0.0], popularity[ends - 1]])

    outside = (rng.random(num_nodes) >= homophily)[source]
    low = np.where(outside, 0.0, bounds[community[source]])
    high = np.where(outside, bounds[-1], bounds[community[source] + 1])
    drawn = np.searchsorted(popularity, low + rng.random(len(source)) * (high - low), side="right")
    target = members[np.minimum(drawn, num_nodes - 1)]
    return torch.from_numpy(np.stack([source, target]))


def _words(
    rng: np.random.Generator,
    community: NDArray[np.int64],
    topics: int,
    communities: int,
    words: int,
    words_per_paper: int,
) -> torch.Tensor:
    """Sparse 0/1 (nodes, words): general words, words of the topic or of a stray one, and jargon."""
    per_topic = int(words * TOPIC_WORDS) // topics
    per_community = int(words * JARGON) // communities
    first_jargon = per_topic * topics
    first_general = first_jargon + per_community * communities

    num_nodes = len(community)
    paper = np.repeat(np.arange(num_nodes), words_per_paper)  # (drawn words,)
    kind = rng.random(len(paper))
    topic = np.where(kind < OWN_TOPIC, community[paper] % topics, rng.integers(topics, size=len(paper)))
    is_topic = kind < OWN_TOPIC + ANY_TOPIC
    is_jargon = ~is_topic & (kind < OWN_TOPIC + ANY_TOPIC + OWN_JARGON)
    start = np.select(
        [is_topic, is_jargon],
        [topic * per_topic, first_jargon + community[paper] * per_community],
        first_general,
    )
    size = np.select([is_topic, is_jargon], [per_topic, per_community], words - first_general)
    rank = np.square(rng.random(len(paper)))  # the first words of each group are frequent, the last rare
    drawn = (start + (rank * size).astype(np.int64)).reshape(num_nodes, words_per_paper)
    drawn.sort(axis=1)
    first = np.diff(drawn, axis=1, prepend=-1) > 0  # a word drawn twice counts once
    indptr = np.concatenate([[0], np.cumsum(first.sum(axis=1))])
    return csr_parts(indptr, drawn[first], np.ones(indptr[-1], dtype=np.float32), (num_nodes, words))


def _split(rng: np.random.Generator, topic: NDArray[np.int64], topics: int) -> list[NDArray[np.int64]]:
    """20 papers a topic to train, 500 to validate, 1000 to test; fewer of each in a small network."""
    num_nodes = len(topic)
    per_topic = min(20, num_nodes // (4 * topics))
    order = rng.permutation(num_nodes)
    by_topic = order[np.argsort(topic[order], kind="stable")]
    first = np.concatenate([[0], np.cumsum(np.bincount(topic, minlength=topics))[:-1]])
    train = by_topic[(first[:, None] + np.arange(per_topic)).ravel()]
    rest = order[~np.isin(order, train)]
    valid = min(500, num_nodes // 5)
    return [train, rest[:valid], rest[valid : valid + 1000]]
