"""Positions: degree, distance and bonds along the path (against a loop), walks, and the triple encoder."""

import networkx  # type: ignore[import-untyped]  # it has no types
import numpy as np
import pytest
import torch
from molecule_batches import FEATURES, batch_of, random_molecule

from detgraph.nn.positions import DegreeEncoding, PathBias, code_offsets
from detgraph.nn.triple import TripleEncoder

HEADS = 4


def test_degree_reads_both_tables() -> None:
    degree = DegreeEncoding(8, max_degree=5)
    out = degree(torch.tensor([0, 3, 9]))
    torch.testing.assert_close(out[0], degree.incoming.weight[1] + degree.outgoing.weight[1])
    torch.testing.assert_close(out[2], out[1])  # larger degrees share the last row


def test_columns_have_codes_of_their_own() -> None:
    rows, offset = code_offsets((5, 3, 2))
    assert (rows, offset.tolist()) == (11, [1, 6, 9])
    rows, offset = code_offsets((5, 3), column_codes=512)
    assert (rows, offset.tolist()) == (1025, [1, 513])


def bias_of(hops: int = 3, max_distance: int = 5) -> PathBias:
    torch.manual_seed(0)
    bias = PathBias(FEATURES.bond_sizes, HEADS, hops, max_distance)
    with torch.no_grad():
        for parameter in bias.parameters():
            parameter.normal_()
    return bias


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_path_bias_equals_a_loop(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DETGRAPH_KERNELS", kernels)
    bias, sizes = bias_of(), (6, 1, 9)
    several = [random_molecule(size, seed=size, rings=0) for size in sizes]
    batch = batch_of(several)
    out = bias(batch.paths, int((batch.sizes**2).sum()))
    start = 0
    for molecule, size in zip(several, sizes, strict=True):
        square = out[start : start + (size + 1) ** 2].view(size + 1, size + 1, HEADS)
        start += (size + 1) ** 2
        torch.testing.assert_close(square[0], bias.virtual.expand(size + 1, -1))
        torch.testing.assert_close(square[:, 0], bias.virtual.expand(size + 1, -1))
        graph = networkx.Graph()
        graph.add_nodes_from(range(size))
        for (i, j), kind in zip(molecule.ends.tolist(), molecule.kinds.tolist(), strict=True):
            graph.add_edge(i, j, kind=kind)
        for i, others in networkx.all_pairs_shortest_path(graph):
            for j, way in others.items():
                length = len(way) - 1
                expected = bias.distance.weight[min(length + 1, 4)].clone()
                for t in range(min(length, 3)):
                    first, second = np.unravel_index(
                        graph.edges[way[t], way[t + 1]]["kind"], FEATURES.bond_sizes
                    )
                    bond = (bias.bond.weight[1 + first] + bias.bond.weight[3 + second]) / 2
                    expected += bond @ bias.hop[t] / min(length, 3)
                torch.testing.assert_close(square[i + 1, j + 1], expected)


def test_both_forms_have_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    bias = bias_of()
    batch = batch_of([random_molecule(size, seed=size) for size in (7, 2, 12)])
    upstream = torch.randn(int((batch.sizes**2).sum()), HEADS)

    def gradients() -> list[torch.Tensor]:
        out = bias(batch.paths, len(upstream))
        return list(torch.autograd.grad((out * upstream).sum(), list(bias.parameters())))

    fused = gradients()
    monkeypatch.setenv("DETGRAPH_KERNELS", "torch")
    for ours, expected in zip(fused, gradients(), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hops", [3, 252])
def test_both_forms_agree_on_paths_longer_than_distances_tell(
    hops: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = random_molecule(300, seed=0, rings=0)
    chain = chain._replace(ends=np.stack([np.arange(299), np.arange(1, 300)], axis=1).astype(np.uint16))
    batch, bias = batch_of([chain]), bias_of(hops)
    fused = bias(batch.paths, 301**2)
    monkeypatch.setenv("DETGRAPH_KERNELS", "torch")
    torch.testing.assert_close(bias(batch.paths, 301**2), fused, rtol=1e-4, atol=1e-4)
    first, last = fused.view(301, 301, HEADS)[1, [254, 300]]  # 253 bonds, and 299
    torch.testing.assert_close(first, last)  # only the first bonds tell


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
