"""Dense and Sparse: the same pair primitives, and the policy on loops, repeats and isolated nodes."""

import pytest
import torch
from reference import neighbor_sets
from torch import Tensor

from detgraph.nn import Dense, Sparse

HEADS, CHANNELS = 2, 3


def everything(nodes: int) -> Sparse:
    """All pairs of a graph, in the order of a dense matrix."""
    target, source = torch.cartesian_prod(torch.arange(nodes), torch.arange(nodes)).t()
    return Sparse.from_edges(torch.stack([source, target])[:, source != target], nodes)


def as_matrix(pairs: Sparse, scores: Tensor) -> Tensor:
    """(pairs, heads) to (1, heads, nodes, nodes)."""
    matrix = scores.new_zeros((pairs.num_nodes, pairs.num_nodes, scores.size(1)))
    matrix[pairs.target, pairs.source] = scores
    return matrix.permute(2, 0, 1)[None]


@pytest.mark.parametrize("primitive", ["dot", "l1", "outer_sum"])
def test_pair_primitives_equal_a_loop(primitive: str) -> None:
    shape = (5, HEADS) if primitive == "outer_sum" else (5, HEADS, CHANNELS)
    a, b = torch.randn(shape), torch.randn(shape)
    expected = torch.empty(1, HEADS, 5, 5)
    for head in range(HEADS):
        for i in range(5):
            for j in range(5):
                u, v = a[i, head], b[j, head]
                expected[0, head, i, j] = {
                    "dot": (u * v).sum(),
                    "l1": (u - v).abs().sum(),
                    "outer_sum": (u + v).sum(),
                }[primitive]
    sparse, dense = everything(5), Dense.from_mask(torch.ones(1, 5, dtype=torch.bool))
    torch.testing.assert_close(as_matrix(sparse, getattr(sparse, primitive)(a, b)), expected)
    torch.testing.assert_close(getattr(dense, primitive)(a[None], b[None]), expected)


def test_softmax_and_aggregate_agree() -> None:
    members = torch.rand(5, 5) < 0.5
    members.fill_diagonal_(True)
    target, source = members.nonzero().t()
    sparse = Sparse.from_edges(torch.stack([source, target])[:, source != target], 5)
    dense = Dense(members[None, None], members[None, None])
    scores, values = torch.randn(1, HEADS, 5, 5), torch.randn(5, HEADS, CHANNELS)
    dense_weights = dense.softmax(scores, dense.structural)
    sparse_weights = sparse.softmax(scores[0, :, sparse.target, sparse.source].t(), sparse.structural)
    torch.testing.assert_close(as_matrix(sparse, sparse_weights), dense_weights)
    torch.testing.assert_close(
        sparse.aggregate(sparse_weights, values), dense.aggregate(dense_weights, values[None])[0]
    )


@pytest.mark.parametrize("scale", [1e4, -1e4])
def test_softmax_of_large_scores_is_finite(scale: float) -> None:
    sparse, dense = everything(4), Dense.from_mask(torch.tensor([[True, True, True, False]]))
    scores = torch.randn(1, HEADS, 4, 4) * scale
    assert dense.softmax(scores, dense.structural).isfinite().all()
    assert sparse.softmax(torch.randn(16, HEADS) * scale, sparse.structural).isfinite().all()


def test_a_row_without_any_member_gets_no_weight() -> None:
    dense = Dense.from_mask(torch.zeros(1, 3, dtype=torch.bool))
    assert (dense.softmax(torch.randn(1, 1, 3, 3), dense.structural) == 0).all()


def test_pairs_are_sorted_and_hold_the_sets(edge_index: Tensor) -> None:
    fetched = torch.tensor([[11, 10, 8], [0, 11, 9]])
    pairs = Sparse.from_edges(edge_index, 12, fetched)
    assert (pairs.target.diff() >= 0).all()
    near, far = neighbor_sets(edge_index, 12), neighbor_sets(fetched, 12)
    for node in range(12):
        mine = pairs.target == node
        structural = pairs.source[mine & pairs.structural[:, 0]].tolist()
        semantic = pairs.source[mine & pairs.semantic[:, 0]].tolist()
        assert sorted(structural) == sorted({node} | near[node])  # lists: nothing twice
        assert sorted(semantic) == sorted({node} | near[node] | far[node])
        assert pairs.source[mine & pairs.loop].tolist() == [node]


def test_fetched_only_leaves_the_1_hop_set_out(edge_index: Tensor) -> None:
    pairs = Sparse.from_edges(edge_index, 12, torch.tensor([[11], [0]]), "fetched")
    members = pairs.source[(pairs.target == 0) & pairs.semantic[:, 0]]
    assert sorted(members.tolist()) == [0, 11]
    assert not pairs.one_set


def test_without_edges_every_node_has_itself() -> None:
    pairs = Sparse.from_edges(torch.empty(2, 0, dtype=torch.long), 3)
    assert pairs.source.tolist() == pairs.target.tolist() == [0, 1, 2]
    assert pairs.structural.all()
    values = torch.randn(3, 1, 2)
    weights = pairs.softmax(torch.randn(3, 1), pairs.structural)
    torch.testing.assert_close(pairs.aggregate(weights, values), values)


def test_one_set_is_known_by_identity() -> None:
    mask = torch.ones(1, 3, dtype=torch.bool)
    assert Dense.from_mask(mask).one_set
    assert not Dense.from_mask(mask, mask.clone()).one_set
    assert everything(3).one_set


def test_another_device_keeps_the_pairs_and_the_one_set(edge_index: Tensor) -> None:
    pairs = Sparse.from_edges(edge_index, 12).to(torch.device("meta"))
    assert pairs.one_set
    assert pairs.target.device.type == "meta"
    fetched = Sparse.from_edges(edge_index, 12, torch.tensor([[11], [0]]))
    same = fetched.to(torch.device("cpu"))
    assert not same.one_set
    for name in ("target", "source", "structural", "semantic", "loop"):
        assert torch.equal(getattr(same, name), getattr(fetched, name))
