import numpy as np
import pytest
import torch
from scipy import sparse

from detgraph.data.networks import Network
from detgraph.data.papers import generate_papers
from detgraph.errors import DetError


@pytest.fixture(scope="module")
def papers() -> Network:
    return generate_papers()


def words(network: Network) -> sparse.csr_matrix:
    x = network.graph.x
    parts = (x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
    return sparse.csr_matrix(parts, shape=tuple(x.shape))


def step(network: Network) -> sparse.csr_matrix:
    """(nodes, nodes): the mean over a node and its neighbours."""
    count = network.graph.num_nodes
    source, target = network.graph.edge_index.numpy()
    with_self = sparse.csr_matrix(
        (np.ones(len(source)), (target, source)), shape=(count, count)
    ) + sparse.eye(count)
    return sparse.diags(1 / np.asarray(with_self.sum(axis=1)).ravel()) @ with_self


def centroid_accuracy(network: Network, features: sparse.csr_matrix) -> float:
    """Test accuracy of the nearest class mean of the training nodes, by cosine."""
    graph = network.graph
    y, train, test = graph.y.numpy(), graph.train_mask.numpy(), graph.test_mask.numpy()
    dense = features.toarray()
    dense = dense - dense.mean(axis=0)
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    means = np.stack([dense[train & (y == topic)].mean(axis=0) for topic in range(len(network.classes))])
    return float(((dense[test] @ means.T).argmax(axis=1) == y[test]).mean())


def test_same_seed_same_network(papers: Network) -> None:
    again, other = generate_papers(), generate_papers(seed=1)
    assert torch.equal(papers.graph.edge_index, again.graph.edge_index)
    assert torch.equal(papers.graph.x.col_indices(), again.graph.x.col_indices())
    assert torch.equal(papers.graph.train_mask, again.graph.train_mask)
    assert not torch.equal(papers.graph.edge_index, other.graph.edge_index)


def test_shape_of_the_task(papers: Network) -> None:
    graph = papers.graph
    assert papers.name == "papers (generated)"
    assert "not real data" in papers.notes[0]
    assert [int(graph[key].sum()) for key in ("train_mask", "val_mask", "test_mask")] == [140, 400, 1000]
    assert torch.bincount(graph.y[graph.train_mask]).tolist() == [20] * 7
    assert graph.x.layout == torch.sparse_csr
    assert graph.x.values().unique().tolist() == [1.0]
    degree = torch.bincount(graph.edge_index[1], minlength=2000)
    assert 3.5 < degree.float().mean() < 4.0
    assert degree.max() > 25  # a heavy tail


def test_neighbours_help_and_distant_papers_too(papers: Network) -> None:
    graph, x, mean = papers.graph, words(papers), step(papers)
    y = graph.y.numpy()
    source, target = graph.edge_index.numpy()
    assert 0.72 < (y[source] == y[target]).mean() < 0.85

    own, near = centroid_accuracy(papers, x), centroid_accuracy(papers, mean @ x)
    assert 0.4 < own < 0.75
    assert near > own + 0.1

    context = (mean @ mean @ x).toarray()
    context /= np.linalg.norm(context, axis=1, keepdims=True)
    similarity = context @ context.T
    np.fill_diagonal(similarity, -1)
    similarity[target, source] = -1
    distant = np.argpartition(-similarity, 8, axis=1)[:, :8]
    assert (y[distant] == y[:, None]).mean() > 0.6  # chance: 1/7


def test_topics_are_spread_over_communities_that_do_not_cite_each_other() -> None:
    network = generate_papers(3000, homophily=1.0)
    source, target = network.graph.edge_index.numpy()
    adjacency = sparse.csr_matrix((np.ones(len(source)), (target, source)), shape=(3000, 3000))
    _, component = sparse.csgraph.connected_components(adjacency)
    for topic in range(7):
        sizes = np.bincount(component[network.graph.y.numpy() == topic])
        assert (sizes > 50).sum() == 4


@pytest.mark.parametrize("size", [112, 50_000])
def test_any_size(size: int) -> None:
    graph = generate_papers(size).graph
    assert graph.num_nodes == size
    assert graph.train_mask.any()
    assert graph.val_mask.any()
    assert graph.test_mask.any()


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(DetError, match="cannot generate 99 papers in 28 communities, expected 112 papers"):
        generate_papers(99)
    with pytest.raises(DetError, match="with 100 words, expected 2 topics, 1 community and 280 words"):
        generate_papers(words=100)
    with pytest.raises(DetError, match=r"got homophily=1\.5"):
        generate_papers(homophily=1.5)
