"""Tables and figures of molecules: the paper's numbers, and curves from the logs of runs."""

import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from study_files import write_study

from detgraph.config import GraphConfig
from detgraph.config.baselines import MOLECULE_BASELINES
from detgraph.reproduce import find_target
from detgraph.reproduce.entries import read_entries
from detgraph.reproduce.rendering import markdown, terminal_tables
from detgraph.reproduce.results import Results
from detgraph.reproduce.target import Plan, Published, Target


def plans(target: Target, dataset: str = "zinc") -> dict[str, Plan]:
    return {cell.plan.key: cell.plan for cell in target.cells if cell.plan and cell.dataset == dataset}


def test_table_of_zinc() -> None:
    target = find_target("table-zinc")
    papers = {cell.plan.key: (cell.paper, cell.parameters) for cell in target.cells if cell.plan}
    assert papers["det-paper"] == (Published(0.113), 489_562)
    assert papers["structural-paper"] == (Published(0.122), 489_321)
    assert papers["gin"] == (Published(0.526), 509_549)
    assert papers["gps"] == (None, None)
    own = {"det", "det-paper", "structural-paper", "short-no-fetching", "short-structural"}
    assert set(MOLECULE_BASELINES) | own == set(papers)
    for key, plan in plans(target).items():
        config = plan.config()
        assert isinstance(config, GraphConfig)
        assert (config.baseline is not None) == (key in MOLECULE_BASELINES)
        assert config.training.minutes == (30 if config.baseline or key.endswith("-paper") else None)


def test_table_of_pcqm4m() -> None:
    target = find_target("table-pcqm4m")
    papers = [cell.paper.mean for cell in target.cells if cell.dataset == "pcqm4m" and cell.paper]
    assert papers == [0.1691, 0.1398, 0.1537, 0.1408, 0.1234, 0.1212]
    ours = ["structural-no-messages", "det-no-messages", "structural", "det"]
    assert list(plans(target, "qm9-gap")) == ["gin", *ours]
    configs = [plans(target, "qm9-gap")[key].config() for key in ours]
    assert [c.model.messages for c in configs if isinstance(c, GraphConfig)] == [False, False, True, True]
    assert {plan.config().training.minutes for plan in plans(target, "qm9-gap").values()} == {30}
    assert list(plans(target, "pcqm4m-v2-sample")) == ["structural", "det"]
    assert not plans(target, "pcqm4m")


def test_ablation_on_zinc_fetches_nothing_and_is_short() -> None:
    found = plans(find_target("table-ablation"))
    assert list(found) == ["short-no-fetching", "short-structural", "short-semantic-no-fetching"]
    configs = [plan.config() for plan in found.values()]
    assert [config.model.tau for config in configs] == [0.5, 1, 0]
    messages = [config.model.messages for config in configs if isinstance(config, GraphConfig)]
    assert messages == [True, True, False]
    assert {config.training.epochs for config in configs} == {30}
    assert {plan.runs for plan in found.values()} == {3}


@pytest.mark.parametrize(("name", "dataset"), [("figure-zinc", "zinc"), ("figure-pcqm4m", "qm9-gap")])
def test_curves_come_from_logs(name: str, dataset: str, tmp_path: Path) -> None:
    target = find_target(name)
    for key, plan in plans(target, dataset).items():
        assert plan.logs
        study = write_study(tmp_path, dataset, key, plan.config(), [0.2], metric="mae")
        records = [{"epoch": epoch, "valid": {"mae": 0.5 - 0.1 * epoch}} for epoch in range(3)]
        log = study.log(0)
        log.parent.mkdir(exist_ok=True)
        log.write_text("".join(json.dumps({**one, "seconds": 1}) + "\n" for one in records), encoding="utf-8")
    entries = read_entries(target, Results(tmp_path))
    assert entries[0].curves == {0: [(1, 0.5), (2, 0.4), (3, pytest.approx(0.3))]}
    assert target.figure is not None
    figure: Figure = target.figure(target, entries)
    assert len(figure.axes[0].lines) == len(entries)
    legend = figure.axes[0].get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == [entry.cell.model for entry in entries]


def test_parameters_stand_beside_the_papers(tmp_path: Path) -> None:
    target = find_target("table-zinc")
    plan = plans(target)["det-paper"]
    write_study(tmp_path, "zinc", "det-paper", plan.config(), [0.2], metric="mae")
    entries = read_entries(target, Results(tmp_path))
    page = markdown(target, entries)
    assert "| DET, paper's configuration | 100 | 489,562 | 0.2000 (1) | 0.113 |" in page
    assert "| GCN | – | 505,079 | not run | 0.367 |" in page
    assert [str(column.header) for column in terminal_tables(target, entries, 80)[0].columns][
        1
    ] == "parameters"
