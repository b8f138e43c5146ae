"""The targets: the paper's numbers, the keys of their studies, and configurations that are valid."""

import tomllib
from pathlib import Path

import pytest

from detgraph.config import NodeConfig
from detgraph.config.baselines import NETWORK_BASELINES
from detgraph.errors import DetError
from detgraph.reproduce import TARGETS, find_target
from detgraph.reproduce import results as results_module
from detgraph.reproduce.results import Results, committed_results, new_results
from detgraph.reproduce.target import Cell, Plan, Published, Target


def cell(target: Target, dataset: str, key: str) -> Cell:
    """The cell with that study."""
    found = [one for one in target.cells if one.dataset == dataset and one.plan and one.plan.key == key]
    assert len(found) == 1
    return found[0]


def config(target: Target, dataset: str, key: str) -> NodeConfig:
    plan = cell(target, dataset, key).plan
    assert plan is not None
    found = plan.config()
    assert isinstance(found, NodeConfig)
    return found


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_is_whole(name: str) -> None:
    target = find_target(name)
    assert target.name == name
    places = [(one.model, target.column(one)) for one in target.cells]
    assert len(set(places)) == len(places), "no two cells in one place"
    assert {target.column(one) for one in target.cells} == set(target.columns)
    for one in target.cells:
        assert one.plan is not None or one.note or target.column(one).missing
        if one.plan is not None and one.plan.has_recipe():
            assert one.plan.config().data.label == one.dataset


def test_unknown_target() -> None:
    with pytest.raises(DetError, match=r"unknown target 'figure-tua'\. Did you mean 'figure-tau'\? Known: "):
        find_target("figure-tua")


def test_table_of_nodes() -> None:
    target = find_target("table-nodes")
    rows = list(dict.fromkeys(one.model for one in target.cells))
    assert rows[:6] == ["GCN", "GraphSage", "GCN+NS", "GAT", "CGAT", "SuperGAT_SD"]
    assert rows[6].startswith("DET")
    assert rows[-2:] == ["DET", "structural only"]
    assert cell(target, "cora", "det-paper").paper == Published(84.6, 0.4)
    assert cell(target, "citeseer", "supergat-sd").paper == Published(72.5, 0.8)
    assert cell(target, "ppi", "gcn").paper == Published(61.5, 0.4)
    assert cell(target, "pubmed", "structural-paper").paper == Published(80.9)
    assert cell(target, "pubmed", "gcnii").paper is None
    cited = {one.model: one.dataset for one in target.cells if one.plan is None}
    assert set(cited) == {"GCN+NS", "CGAT"}
    assert {one.dataset for one in target.cells if one.model == "GCN+NS"} == {"cora", "citeseer"}
    keys = {one.plan.key for one in target.cells if one.plan}
    assert set(NETWORK_BASELINES) <= keys
    runs = {one.plan.key: one.plan.runs for one in target.cells if one.plan}
    assert (runs["det"], runs["structural"], runs["gps"], runs["det-paper"]) == (100, 100, 20, 20)
    found = config(target, "cora", "gcn")
    assert found.baseline is not None
    assert found.baseline.name == "gcn"
    assert config(target, "cora", "structural").model.tau == 1


def test_table_of_the_ablation() -> None:
    target = find_target("table-ablation")
    assert [one.title for one in target.columns] == [
        "ZINC",
        "Cora",
        "CiteSeer",
        "PubMed",
        "FB15K-237",
        "WN18RR",
    ]
    assert len({one.model for one in target.cells}) == 6
    full = config(target, "cora", "det")
    no_nodes = config(target, "cora", "no-nodes")
    assert (no_nodes.neighbors.k, no_nodes.training) == (0, full.training)
    assert no_nodes.model == full.model
    settings = {
        key: config(target, "cora", key) for key in ("no-fetching", "semantic", "semantic-no-fetching")
    }
    for key, found in settings.items():
        fetches = "no-fetching" not in key
        assert (found.neighbors.k > 0, found.training.sn_weight > 0) == (fetches, fetches)
        assert found.model.tau == (0 if "semantic" in key else full.model.tau)
        same = {"neighbors": {"k"}, "training": {"sn_weight"}, "model": {"tau"}}
        assert found.model_dump(exclude=same) == full.model_dump(exclude=same)
    assert cell(target, "pubmed", "no-fetching").paper == Published(78.1)
    numbers = {(one.dataset, one.paper.mean) for one in target.cells if one.paper}
    assert {("zinc", 0.515), ("fb15k-237", 150), ("wn18rr", 2305)} <= numbers
    assert len([one for one in target.cells if one.dataset == "fb15k-237"]) == 3, "the paper has no others"


def test_figure_of_tau() -> None:
    target = find_target("figure-tau")
    keys = [one.plan.key for one in target.cells if one.plan and one.dataset == "cora"]
    assert len(keys) == 21
    assert (keys[0], keys[3], keys[-1]) == ("semantic", "tau-0.15", "structural")
    ablation = find_target("table-ablation")
    for key in ("semantic", "structural"):  # one study, shown twice
        assert config(target, "cora", key) == config(ablation, "cora", key)
    assert config(target, "pubmed", "tau-0.35").model.tau == 0.35
    assert {one.plan.runs for one in target.cells if one.plan} == {7}
    marked = [(one.dataset, one.model, one.paper.mean) for one in target.cells if one.paper]
    assert ("pubmed", "τ = 0.05", 81.8) in marked
    assert ("cora", "τ = 1.00", 84.0) in marked
    assert len(marked) == 9


def test_only_some_data_sets() -> None:
    target = find_target("table-nodes").only(["cora", "ppi"])
    assert [column.dataset for column in target.columns] == ["cora", "ppi"]
    assert {one.dataset for one in target.cells} == {"cora", "ppi"}
    with pytest.raises(DetError, match=r"unknown data set of table-nodes 'corra'\. Did you mean 'cora'"):
        find_target("table-nodes").only(["corra"])


def test_results_of_a_source_tree_and_of_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Path(__file__).parents[2]
    assert committed_results() == new_results() == Results(tree / "results", grouped=True)
    file = committed_results().file("cora", "det", "node")
    assert file == tree / "results" / "node" / "cora-det.json"
    assert Results(tmp_path).file("cora", "det", "node") == tmp_path / "cora-det.json"
    package = tmp_path / "lib" / "site" / "detgraph"
    (package / "results").mkdir(parents=True)
    monkeypatch.setattr(results_module, "__file__", str(package / "reproduce" / "results.py"))
    assert committed_results() == Results(package / "results", grouped=True)
    assert new_results() == Results(Path("results"), grouped=True)


def test_what_a_wheel_includes_is_there() -> None:
    tree = Path(__file__).parents[2]
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included["results/node"] == "detgraph/results/node"
    assert all((tree / source).exists() for source in included)


def test_a_recipe_that_does_not_exist() -> None:
    assert not Plan("det", "node/nowhere", 1).has_recipe()
    assert Plan("det", "node/papers", 1).has_recipe()
