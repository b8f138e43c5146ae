import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from scipy import sparse
from torch_geometric.data import Data

from detgraph.data.features import csr_tensor
from detgraph.data.networks import Network, read_network
from detgraph.errors import DetError

NODES = """id,label,split,age,height
a,red,train,1,2
b,blue,train,3,4
c,,,5,6
d,red,valid,7,8
e,blue,test,9,10
"""
EDGES = "source,target\na,b\nb,c\nd,e\n"


def write(folder: Path, edges: str = EDGES, nodes: str = NODES) -> tuple[Path, Path]:
    (folder / "edges.csv").write_text(edges, encoding="utf-8")
    (folder / "nodes.csv").write_text(nodes, encoding="utf-8")
    return folder / "edges.csv", folder / "nodes.csv"


def data(**changes: object) -> Data:
    parts: dict[str, object] = {
        "x": torch.arange(10.0).view(5, 2),
        "edge_index": torch.tensor([[0, 1, 2], [1, 2, 3]]),
        "y": torch.tensor([0, 1, 0, 1, 0]),
    }
    return Data(**{**parts, **changes})


def fails(text: str) -> "pytest.RaisesExc[DetError]":
    return pytest.raises(DetError, match=re.escape(text))


# --- from_data: the policies -------------------------------------------------------------------------


def test_edges_become_undirected_unique_and_sorted_by_target() -> None:
    network = Network.from_data(data(edge_index=torch.tensor([[3, 0, 0, 2, 1, 4], [1, 1, 1, 2, 0, 0]])))
    assert network.graph.edge_index.tolist() == [[1, 4, 0, 3, 1, 0], [0, 0, 1, 1, 3, 4]]
    assert network.graph.edge_index.dtype == torch.int64
    assert network.notes[:3] == (
        "1 self-loops dropped",
        "1 duplicate edges merged",
        "2 edges given in one direction: the other added",
    )


def test_input_is_not_changed() -> None:
    given = data(edge_index=torch.tensor([[3, 0], [3, 1]]))
    Network.from_data(given)
    assert given.edge_index.tolist() == [[3, 0], [3, 1]]
    assert "train_mask" not in given


def test_network_without_edges_is_allowed() -> None:
    network = Network.from_data(data(edge_index=torch.empty(2, 0, dtype=torch.int64)))
    assert network.graph.edge_index.shape == (2, 0)
    assert network.graph.num_nodes == 5


def test_random_split_is_seeded_disjoint_and_of_labelled_nodes() -> None:
    y = torch.arange(200) % 4 - 1  # a quarter unknown
    given = Data(edge_index=torch.empty(2, 0, dtype=torch.int64), y=y)
    first, again, other = (Network.from_data(given, split_seed=seed).graph for seed in (0, 0, 1))
    masks = torch.stack([first.train_mask, first.val_mask, first.test_mask])
    assert masks.sum(dim=1).tolist() == [90, 30, 30]
    assert torch.equal(masks.sum(dim=0), (y >= 0).long())
    assert torch.equal(first.train_mask, again.train_mask)
    assert not torch.equal(first.train_mask, other.train_mask)
    assert first.x is None
    assert first.num_nodes == 200


def test_sparse_features_stay_sparse() -> None:
    matrix = sparse.random(5, 40, density=0.2, random_state=0, format="csr")
    network = Network.from_data(data(x=csr_tensor(matrix)))
    assert network.graph.x.layout == torch.sparse_csr
    assert network.graph.x.dtype == torch.float32
    np.testing.assert_array_equal(network.graph.x.to_dense().numpy(), matrix.toarray().astype(np.float32))
    coo = torch.sparse_coo_tensor(
        torch.tensor([[0, 4], [1, 0]]), torch.ones(2), (5, 2), check_invariants=True
    )
    assert Network.from_data(data(x=coo)).graph.x.layout == torch.sparse_csr


def test_multi_label_with_an_unknown_row() -> None:
    y = torch.tensor([[1.0, 0], [0, 0], [torch.nan, torch.nan], [1, 1], [0, 1]])
    network = Network.from_data(data(y=y), classes=["p", "q"])
    assert network.multi_label
    masks = network.graph.train_mask | network.graph.val_mask | network.graph.test_mask
    assert masks.tolist() == [True, True, False, True, True]


def test_mask_on_unlabelled_node_is_dropped_with_a_note() -> None:
    train, valid, test = torch.eye(3, 5, dtype=torch.bool)
    network = Network.from_data(
        data(y=torch.tensor([0, 1, -1, 1, 0]), train_mask=train, val_mask=valid, test_mask=test)
    )
    assert not network.graph.test_mask.any()
    assert "1 nodes without a label left out of test_mask" in network.notes


def test_unused_edge_attributes_are_noted() -> None:
    assert "edge_attr is not used" in Network.from_data(data(edge_attr=torch.ones(3, 1))).notes


def mask(*nodes: int) -> torch.Tensor:
    return torch.isin(torch.arange(5), torch.tensor(nodes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": torch.tensor([[0.0, 1]] * 4 + [[2, torch.nan]])}, "feature 1 of node '4' (row 4) is nan"),
        (
            {"x": csr_tensor(sparse.csr_matrix(([1.0, np.inf], ([0, 3], [0, 6])), shape=(5, 7)))},
            "feature 6 of node '3' (row 3) is inf",
        ),
        (
            {"x": torch.ones(4, 2)},
            "x is torch.float32 (4, 2), expected a tensor of numbers (5 nodes, features)",
        ),
        ({"x": torch.ones(5)}, "x is torch.float32 (5,)"),
        ({"edge_index": torch.tensor([[0, 9], [1, 1]])}, "edge 1 joins [9, 1], expected node indices 0 to 4"),
        ({"edge_index": torch.tensor([[0], [-1]])}, "edge 0 joins [0, -1]"),
        ({"edge_index": torch.ones(2, 2)}, "edge_index is torch.float32 (2, 2), expected int64 (2, edges)"),
        ({"edge_index": None}, "edge_index is None"),
        ({"y": None}, "y is None, expected class indices"),
        ({"y": torch.ones(5)}, "y is torch.float32 (5,), expected class indices"),
        ({"y": torch.tensor([0, 1, -2, 0, 0])}, "row 2 of y is -2, expected -1 to 1"),
        ({"y": torch.full((5,), -1)}, "there are 0 classes"),
        ({"y": torch.zeros(5, dtype=torch.int64)}, "there are 1 classes"),
        ({"y": torch.full((5, 2), 0.5)}, "row 0 of y is [0.5, 0.5], expected 0 and 1, or a row of NaN"),
        ({"y": torch.empty(0, dtype=torch.int64)}, "the network is empty"),
        ({"y": torch.tensor([0, 1, 10**9, 0, 0])}, "y holds 1000000000, but there are 5 nodes only"),
        ({"train_mask": mask(0)}, "val_mask is None, expected bool (5 nodes,). Give all three masks or none"),
        (
            {"train_mask": mask(0), "val_mask": mask(1, 3), "test_mask": mask(3)},
            "node '3' is in more than one of train, valid and test",
        ),
        ({"train_mask": mask(), "val_mask": mask(1), "test_mask": mask(3)}, "no training node has a label"),
        ({"graph_id": torch.tensor([0, 0, 0, 1, 1])}, "the edge '3' - '2' joins two graphs"),
    ],
)
def test_bad_data_is_refused(changes: dict[str, object], message: str) -> None:
    with fails(message):
        Network.from_data(data(**changes))


def test_bad_ids_and_classes_are_refused() -> None:
    with fails("the node id 'b' is given twice"):
        Network.from_data(data(), nodes=["a", "b", "c", "b", "d"])
    with fails("2 node ids for 5 labels"):
        Network.from_data(data(), nodes=["a", "b"])
    with fails("row 1 of y is 2, expected -1 to 1"):
        Network.from_data(data(y=torch.tensor([0, 2, 0, 1, 0])), classes=["one", "two"])


# --- read_network ------------------------------------------------------------------------------------


def test_csv_network(tmp_path: Path) -> None:
    network = read_network(*write(tmp_path))
    graph = network.graph
    assert network.nodes == ("a", "b", "c", "d", "e")
    assert network.classes == ("blue", "red")
    assert graph.y.tolist() == [1, 0, -1, 1, 0]
    assert graph.x.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]
    assert graph.edge_index.tolist() == [[1, 0, 2, 1, 4, 3], [0, 1, 1, 2, 3, 4]]
    assert graph.train_mask.tolist() == [True, True, False, False, False]
    assert graph.val_mask.nonzero().item() == 3
    assert graph.test_mask.nonzero().item() == 4


def test_parquet_tsv_and_csv_give_the_same(tmp_path: Path) -> None:
    edges, nodes = write(tmp_path)
    table = pl.read_csv(nodes)
    table.write_parquet(tmp_path / "nodes.parquet")
    table.write_csv(tmp_path / "nodes.tsv", separator="\t")
    expected = read_network(edges, nodes)
    for name in ("nodes.parquet", "nodes.tsv"):
        got = read_network(edges, tmp_path / name)
        assert torch.equal(got.graph.x, expected.graph.x)
        assert torch.equal(got.graph.y, expected.graph.y)
        assert torch.equal(got.graph.val_mask, expected.graph.val_mask)


def test_edge_list_with_weights_comments_and_number_ids(tmp_path: Path) -> None:
    (tmp_path / "g.edgelist").write_text("# from to\n1 10 1.000000\n\n10\t2 0.5\n", encoding="utf-8")
    (tmp_path / "nodes.csv").write_text("id,label\n1,10\n2,9\n10,10\n", encoding="utf-8")
    network = read_network(tmp_path / "g.edgelist", tmp_path / "nodes.csv")
    assert network.graph.edge_index.tolist() == [[2, 2, 0, 1], [0, 1, 2, 2]]
    assert network.graph.x is None
    assert network.classes == ("9", "10")  # numbers in the order of numbers
    assert "columns of g.edgelist after the second not used: edges have no weight" in network.notes
    assert any(note.startswith("no split given: 60/20/20") for note in network.notes)


def test_multi_label_column(tmp_path: Path) -> None:
    network = read_network(
        *write(tmp_path, "source,target\n", "id,label\n1,x;y\n2,\n3, y ;z\n"), multi_label=True
    )
    assert network.classes == ("x", "y", "z")
    assert network.graph.y[0].tolist() == [1, 1, 0]
    assert network.graph.y[1].isnan().all()
    assert network.graph.y[2].tolist() == [0, 1, 1]


def test_sparse_text_column_and_text_left_out(tmp_path: Path) -> None:
    nodes = "id,label,title,features\na,1,Graphs,3 1\nb,2,Trees,\nc,1,Words,0:0.5 4:2\n"
    network = read_network(*write(tmp_path, "s,t\na,b\n", nodes))
    assert network.graph.x.layout == torch.sparse_csr
    expected = [[0, 1, 0, 1, 0], [0, 0, 0, 0, 0], [0.5, 0, 0, 0, 2]]
    assert network.graph.x.to_dense().tolist() == expected
    assert "not numbers, so not features: title" in network.notes


def test_feature_files_agree(tmp_path: Path) -> None:
    paths = write(tmp_path)
    dense = np.array([[0, 1, 0], [0, 0, 2.5], [0, 0, 0], [4, 0, 0], [0, 0, 1]], dtype=np.float32)
    np.save(tmp_path / "f.npy", dense)
    sparse.save_npz(tmp_path / "f.npz", sparse.csr_matrix(dense))
    (tmp_path / "f.svm").write_text("1 2:1\n0 3:2.5 # second\n-1\n1 1:4\n0 3:1\n", encoding="utf-8")
    (tmp_path / "zero.svm").write_text("1 1:1\n0 2:2.5\n1\n1 0:4\n0 2:1\n", encoding="utf-8")
    for name in ("f.npy", "f.npz", "f.svm", "zero.svm"):
        x = read_network(*paths, features=tmp_path / name).graph.x
        assert (x.layout == torch.strided) == (name == "f.npy")
        np.testing.assert_array_equal(x.to_dense().numpy(), dense, err_msg=name)


@pytest.mark.parametrize(
    ("edges", "nodes", "message"),
    [
        (EDGES + "a,zed\n", NODES, "edges.csv:5: the node 'zed' is not in"),
        ("a,b\nb,c\n", NODES, "edges.csv:1: is an edge, expected a header"),
        ("source\na\n", NODES, "edges.csv: has the columns ['source'], expected two"),
        (EDGES, "id,kind\na,1\n", "nodes.csv: has no column 'label'. Columns there: id, kind."),
        (EDGES, NODES + "b,red,test,1,1\n", "nodes.csv:7: the id 'b' was given before, at"),
        (EDGES, NODES + ",red,test,1,1\n", "nodes.csv:7: column 'id' is blank"),
        (
            EDGES,
            NODES + "f,red,test,tall,1\n",
            "nodes.csv:7: column 'age' has 'tall', expected a finite number",
        ),
        (EDGES, NODES + "f,red,test,,1\n", "nodes.csv:7: column 'age' has no value"),
        (EDGES, NODES + "f,red,test,1,nan\n", "nodes.csv:7: column 'height' has 'nan'"),
        (EDGES, NODES + "f,red,test,1\n", "nodes.csv:7: has 4 cells, expected 5 as in the header"),
        (EDGES, NODES + "f,red,test,1,2,3\n", "nodes.csv:7: has 6 cells, expected 5 as in the header"),
        (
            EDGES,
            NODES + '\n"f\ng",red,exam,1,2\n',
            "nodes.csv:8: unknown split 'exam', expected train, valid",
        ),
        (EDGES, "id,label\na,\n", "nodes.csv: column 'label' holds no label"),
        (EDGES, "id,label\na,x\nb,NA\n", "nodes.csv: column 'label' holds only the label 'x'"),
        (
            EDGES,
            "id,label\na,0.5\nb,2\nc,nan\n",
            "'label' holds 0.5, 2, …: it looks like a number to predict",
        ),
        (EDGES, "", "nodes.csv: cannot be read as a table"),
        ("s,t\n", "id,label,features\na,1,1 x\nb,2,\n", "nodes.csv:2: got the feature entry 'x'"),
        ("s,t\n", "id,label,features\na,1,1:inf\nb,2,\n", "nodes.csv:2: got the feature entry '1:inf'"),
        ("s,t\n", "id,label,features\na,1,-1\nb,2,\n", "nodes.csv:2: got the feature entry '-1'"),
        ("s,t\n", "id,label,features\na,1,2:1 2:3\nb,2,\n", "nodes.csv:2: feature 2 is given twice"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, edges: str, nodes: str, message: str) -> None:
    with fails(message):
        read_network(*write(tmp_path, edges, nodes))


@pytest.mark.parametrize("multi_label", [False, True])
def test_words_for_no_label(tmp_path: Path, multi_label: bool) -> None:
    rows = zip("abcdefgh", ["red", "nan", "NaN", "NA", "null", "", "Na", "blue"], strict=True)
    text = "id,label\n" + "".join(f"{name},{label}\n" for name, label in rows)
    network = read_network(*write(tmp_path, "s,t\na,b\n", text), multi_label=multi_label)
    assert network.classes == ("Na", "blue", "red")
    y = network.graph.y
    assert (y.isnan().any(dim=1) if multi_label else y < 0).tolist() == [False, *[True] * 5, False, False]
    assert "4 labels that are NaN, NA or null are unknown" in network.notes


def test_columns_of_parquet_that_are_neither_numbers_nor_text(tmp_path: Path) -> None:
    nodes, edges = tmp_path / "nodes.parquet", tmp_path / "edges.csv"
    edges.write_text("a,b\n1,2\n")
    table = pl.DataFrame({"id": ["1", "2"], "label": ["x", "y"], "size": [1.5, 2.5], "tags": [["a"], ["b"]]})
    extra = [pl.Series("kind", ["u", "v"], pl.Categorical), pl.Series("raw", [b"1", b"2"])]
    table.with_columns(extra).write_parquet(nodes)
    found = read_network(edges, nodes)
    assert found.graph.x.tolist() == [[1.5], [2.5]]
    assert "not numbers, so not features: tags, kind, raw" in found.notes
    table.with_columns(label=pl.Series([["x"], ["y"]])).write_parquet(nodes)
    with pytest.raises(DetError, match=r"column 'label' holds List\(String\), expected a name of a class"):
        read_network(edges, nodes)


def test_bad_paths_are_refused(tmp_path: Path) -> None:
    edges, nodes = write(tmp_path)
    with fails("none.csv: there is no such file"):
        read_network(edges, tmp_path / "none.csv")
    (tmp_path / "nodes.xls").write_text("x", encoding="utf-8")
    with fails("expected a table (.csv, .tsv or .parquet), got the ending '.xls'"):
        read_network(edges, tmp_path / "nodes.xls")
    (tmp_path / "bad.txt").write_text("a b\nc\n", encoding="utf-8")
    with fails("bad.txt:2: has one word, expected two"):
        read_network(tmp_path / "bad.txt", nodes)
    (tmp_path / "bad.txt").write_bytes(b"a b\n\xff\xfe b\n")
    with fails("bad.txt:2: is not UTF-8 text"):
        read_network(tmp_path / "bad.txt", nodes)


def test_bad_feature_files_are_refused(tmp_path: Path) -> None:
    paths = write(tmp_path)
    np.save(tmp_path / "short.npy", np.ones((3, 2)))
    with fails("short.npy: has 3 rows, but"):
        read_network(*paths, features=tmp_path / "short.npy")
    np.save(tmp_path / "flat.npy", np.ones(5))
    with fails("flat.npy: expected a numeric array (nodes, features), got float64 (5,)"):
        read_network(*paths, features=tmp_path / "flat.npy")
    np.save(tmp_path / "object.npy", np.array([["a"], [None]], dtype=object), allow_pickle=True)
    with fails("object.npy: is not what numpy.save writes"):
        read_network(*paths, features=tmp_path / "object.npy")
    np.savez(tmp_path / "plain.npz", a=np.ones(3))
    with fails("plain.npz: is not what scipy.sparse.save_npz writes"):
        read_network(*paths, features=tmp_path / "plain.npz")
    (tmp_path / "f.svm").write_text("1 1:1\n1 1:x\n", encoding="utf-8")
    with fails("f.svm:2: got the feature entry '1:x'"):
        read_network(*paths, features=tmp_path / "f.svm")
    (tmp_path / "f.mat").touch()
    with fails("f.mat: unknown kind of feature file '.mat'"):
        read_network(*paths, features=tmp_path / "f.mat")


def test_split_column_in_capitals_and_under_another_name(tmp_path: Path) -> None:
    nodes, edges = tmp_path / "nodes.csv", tmp_path / "edges.csv"
    nodes.write_text(NODES.replace("split", "Split"))
    edges.write_text(EDGES)
    found = read_network(edges, nodes)
    assert found.graph.train_mask.tolist() == [True, True, False, False, False]
    assert not any("Split" in note for note in found.notes)
    with fails("no column 'fold'"):
        read_network(edges, nodes, split_column="fold")
