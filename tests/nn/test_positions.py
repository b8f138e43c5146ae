"""Positions: degree, distance, bonds along the path (against a loop), and the triple encoder."""

import torch

from detgraph.nn.positions import DegreeEncoding, DistanceBias, PathBias
from detgraph.nn.triple import TripleEncoder

HEADS = 4


def test_degree_reads_both_tables_and_nothing_for_padding() -> None:
    degree = DegreeEncoding(8, max_degree=5)
    out = degree(torch.tensor([[0, 1, 4, 9]]))
    assert (out[0, 0] == 0).all()
    torch.testing.assert_close(out[0, 1], degree.incoming.weight[1] + degree.outgoing.weight[1])
    torch.testing.assert_close(out[0, 3], out[0, 2])  # larger degrees share the last row


def test_distance_is_one_number_a_head_and_none_for_unreachable_pairs() -> None:
    bias = DistanceBias(HEADS, max_distance=6)
    distance = torch.tensor([[[1, 2, 0], [2, 1, 0], [0, 0, 99]]])
    out = bias(distance)
    assert out.shape == (1, HEADS, 3, 3)
    torch.testing.assert_close(out[0, :, 0, 1], bias.table.weight[2])
    torch.testing.assert_close(out[0, :, 2, 2], bias.table.weight[5])
    assert (out[0, :, 2, :2] == 0).all()


def random_paths(batch: int, nodes: int, hops: int, kinds: int) -> torch.Tensor:
    """Kinds + 1 along random paths of random lengths, 0 after the end."""
    length = torch.randint(hops + 1, (batch, nodes, nodes, 1))
    return torch.randint(1, kinds + 1, (batch, nodes, nodes, hops)) * (torch.arange(hops) < length)


def test_path_bias_equals_a_loop() -> None:
    bias = PathBias(codes=9, heads=HEADS, hops=5).double()
    bias.hop.data.normal_()
    kinds = torch.tensor([[1, 4], [2, 5], [3, 0]])  # the last bond has one code, and a padding code
    paths = random_paths(2, 3, 5, len(kinds))
    expected = torch.zeros(2, HEADS, 3, 3, dtype=torch.double)
    for b in range(2):
        for i in range(3):
            for j in range(3):
                steps = [kind - 1 for kind in paths[b, i, j].tolist() if kind > 0]
                for t, kind in enumerate(steps):
                    bond = torch.stack([bias.bond.weight[code] for code in kinds[kind].tolist()]).mean(dim=0)
                    expected[b, :, i, j] += bond @ bias.hop[t] / len(steps)
    torch.testing.assert_close(bias(kinds, paths), expected)


def test_path_bias_reads_no_further_than_its_hops() -> None:
    bias = PathBias(codes=4, heads=HEADS, hops=2)
    kinds = torch.tensor([[1], [2]])
    paths = random_paths(1, 3, 6, 2)
    torch.testing.assert_close(bias(kinds, paths), bias(kinds, paths[..., :2]))


def test_path_bias_reaches_every_used_parameter() -> None:
    bias = PathBias(codes=4, heads=HEADS, hops=2)
    bias(torch.tensor([[1], [2]]), torch.tensor([[[[1, 2]]]])).sum().backward()
    assert bias.hop.grad is not None
    assert bias.bond.weight.grad is not None
    assert (bias.hop.grad != 0).all()
    assert (bias.bond.weight.grad[1:3] != 0).all()
    assert (bias.bond.weight.grad[[0, 3]] == 0).all()


def test_triples_are_encoded_one_by_one_and_in_order() -> None:
    encoder = TripleEncoder(8, 2, layers=2, ffn_channels=16).eval()
    head, relation, tail = torch.randn(3, 6, 8)
    out = encoder(head, relation, tail)
    assert out.shape == (6, 8)
    order = torch.randperm(6)
    torch.testing.assert_close(encoder(head[order], relation[order], tail[order]), out[order])
    torch.testing.assert_close(encoder(head[:1], relation[:1], tail[:1]), out[:1])
    assert not torch.allclose(encoder(tail, relation, head), out, atol=1e-4)  # (a, r, b) is not (b, r, a)


def test_a_triple_encoder_is_structural_only() -> None:
    names = [name for name, _ in TripleEncoder(8, 2, layers=1, ffn_channels=16).named_parameters()]
    assert not any("operator" in name for name in names)
