"""From study files to tables, notes and figures."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from study_files import write_study

from detgraph.errors import DetError
from detgraph.reproduce import TARGETS, find_target
from detgraph.reproduce.entries import Entry, read_entries
from detgraph.reproduce.rendering import markdown, notes, terminal_tables, write_files
from detgraph.reproduce.results import Results
from detgraph.reproduce.target import ACCURACY, Cell, Column, Plan, Published, Target
from detgraph.studies.statistics import paired
from detgraph.studies.study import Outcome
from detgraph.training import Result


def fill(folder: Path, name: str, dataset: str, **scores: list[float]) -> None:
    """Studies of a target by key, in which - is written _."""
    for one in find_target(name).cells:
        key = one.plan.key if one.plan else ""
        if one.plan and one.dataset == dataset and key.replace("-", "_") in scores:
            write_study(folder, dataset, key, one.plan.config(), scores[key.replace("-", "_")])


def entries(name: str, folder: Path) -> dict[tuple[str, str], Entry]:
    found = read_entries(find_target(name), Results(folder))
    return {(one.cell.dataset, one.cell.plan.key if one.cell.plan else one.cell.model): one for one in found}


def text(target: Target, found: list[Entry], width: int = 200) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(*terminal_tables(target, found, width))
    return capture.get()


def test_a_wide_table_is_several_and_no_word_is_broken(tmp_path: Path) -> None:
    target = find_target("table-kg")
    found = read_entries(target, Results(tmp_path))
    narrow, wide = text(target, found, width=80), text(target, found, width=300)
    assert (narrow.count("TuckER"), wide.count("TuckER")) == (3, 1)
    for words in ("DET, 100 minutes of one core", "FB15K-237", "mean rank ↓", "paper 1,706", "Kinships"):
        assert words in narrow
    assert max(len(line) for line in narrow.splitlines()) <= 80


def test_a_run_shows_its_ranks_with_and_without_votes(tmp_path: Path) -> None:
    target = find_target("table-kg")
    cells = [cell for cell in target.cells if cell.dataset == "wn18rr" and cell.metric == "mrr"]
    plan = next(cell.plan for cell in cells if cell.model == "DET")
    assert plan is not None
    found = {"mrr": 0.48, "mrr without votes": 0.47, "mr": 3000.0, "hits@1": 0.4}
    result = Result("mrr", True, found, found, 0.01, 4, 5, 100, 1.5)
    Results(tmp_path).study("wn18rr", plan).add(Outcome(0, result, (), "f" * 64))
    shown = read_entries(replace(target, cells=tuple(cells)), Results(tmp_path))
    assert {one.cell.model: one.mean for one in shown if one.scores} == {
        "DET": 0.48,
        "DET without votes": 0.47,
    }


def test_table_of_nodes(tmp_path: Path) -> None:
    det, twin = [0.85, 0.852, 0.86], [0.84, 0.853, 0.845]
    fill(tmp_path, "table-nodes", "cora", det=det, structural=twin, gcn=[0.815])
    found = entries("table-nodes", tmp_path)
    one = found["cora", "det"]
    assert one.mean == pytest.approx(85.4)
    assert one.std == pytest.approx(0.5291503)
    gap = paired(dict(enumerate(det)), dict(enumerate(twin)), higher_is_better=True)
    assert gap is not None
    assert f"{100 * gap.difference:+.2f} to its structural-only twin" in one.note
    assert f"(p = {gap.p:.3f}, better in 2 of 3)" in one.note
    assert "3 of 100 runs so far" in one.note
    assert found["cora", "gcn"].mean == pytest.approx(81.5)
    assert found["cora", "gcn"].std is None
    assert found["cora", "gat"].note == "not run yet"
    assert found["ppi", "gat"].note == "not run here: the data could not be had"
    assert "cannot be stated exactly" in found["cora", "CGAT"].note
    target, listed = find_target("table-nodes"), list(found.values())
    lines = markdown(target, listed).splitlines()
    row = next(line for line in lines if line.startswith("| DET |"))
    assert row.startswith("| DET | 85.40 ± 0.53 (3) | – | not run | – |")
    row = next(line for line in lines if line.startswith("| GCN |"))
    assert row.startswith("| GCN | 81.50 (1) | 81.5 | not run | 70.3 |")
    assert row.endswith("| not run | 61.5 ± 0.4 |")
    row = next(line for line in lines if line.startswith("| GCN+NS |"))
    assert row == "| GCN+NS | not run | 83.7 ± 1.4 | not run | 74.1 ± 1.4 | – | – | – | – |"
    assert any(line.startswith("| **later models") for line in lines)
    shown = text(target, listed)
    for part in ("85.40±0.53 (3)", "paper 83.0±0.7", "micro-F1 (%) ↑", "DET, tuned here", "not run"):
        assert part in shown


def test_every_target_renders_without_a_single_study(tmp_path: Path) -> None:
    for name in TARGETS:
        target = find_target(name)
        found = read_entries(target, Results(tmp_path / "nowhere"))
        assert all(one.mean is None and one.record()["runs"] == 0 and one.note for one in found)
        page = markdown(target, found)
        assert "not run" in page or "not counted" in page
        files = write_files(target, found, tmp_path / name)
        assert all(file.stat().st_size > 0 for file in files)
        assert text(target, found, width=80)


def test_table_of_the_ablation(tmp_path: Path) -> None:
    fill(tmp_path, "table-ablation", "pubmed", det=[0.8, 0.8], no_fetching=[0.78, 0.79], semantic=[0.8])
    target = find_target("table-ablation")
    page = markdown(target, read_entries(target, Results(tmp_path)))
    row = next(line for line in page.splitlines() if line.startswith("| both encoders without"))
    assert "| 78.50 ± 0.71 (2) | 78.1 |" in row
    assert row.endswith("| not run | 151 | not run | 2,305 |")
    assert "accuracy (%) -1.50 to DET on the same seeds (p = 0.205, better in 0 of 2)" in page
    assert "| – | – | not run | 84.6 |" in page


def test_figure_of_tau(tmp_path: Path) -> None:
    target = find_target("figure-tau")
    for one in target.cells:
        assert one.plan is not None
        if one.dataset == "cora":
            tau = float(one.model.removeprefix("τ = "))
            score = 0.85 - (tau - 0.6) ** 2 / 20
            write_study(tmp_path, "cora", one.plan.key, one.plan.config(), [score - 0.01, score + 0.01])
    found = read_entries(target, Results(tmp_path))
    page, data, svg, png = write_files(target, found, tmp_path / "out")
    assert [file.name for file in (page, data, svg, png)] == [
        f"figure-tau.{kind}" for kind in ("md", "json", "svg", "png")
    ]
    with Image.open(png) as image:
        assert image.format == "PNG"
        assert min(image.size) > 300
    drawing = svg.read_text(encoding="utf-8")
    assert drawing.startswith("<?xml")
    figure = target.figure and target.figure(target, found)
    assert figure is not None
    cora, citeseer, pubmed = figure.axes
    mean, paper, best = (np.asarray(line.get_xydata()) for line in cora.lines)  # (points, 2) each
    assert mean[:, 0].tolist() == [step / 20 for step in range(21)]
    assert mean[12, 1] == pytest.approx(85.0)
    assert paper.tolist() == [[0.0, 84.1], [0.15, 84.6], [1.0, 84.0]]
    assert best[0, 0] == 0.15
    assert np.asarray(pubmed.lines[-1].get_xydata())[0, 0] == 0.05
    assert [one.get_text() for one in citeseer.texts] == ["not run yet"]
    before = svg.read_bytes()
    write_files(target, found, tmp_path / "out")
    assert svg.read_bytes() == before, "the same numbers give the same file"


def test_the_json_file_says_where_numbers_come_from(tmp_path: Path) -> None:
    fill(tmp_path, "table-ablation", "cora", det=[0.84, 0.85])
    target = find_target("table-ablation")
    _, data = write_files(target, read_entries(target, Results(tmp_path)), tmp_path / "out")
    content = json.loads(data.read_text(encoding="utf-8"))
    assert content["target"] == "table-ablation"
    assert "torch" in content["versions"]
    (one,) = [record for record in content["cells"] if record["mean"] is not None]
    assert one["study"] == "cora-det.json"
    assert one["paper"] == 84.6
    assert len(content["cells"]) == len(target.cells)


PAPERS = Target(
    "tiny",
    "Tiny",
    "A caption.",
    (Column("papers", "Papers", ACCURACY),),
    (
        Cell(
            "papers",
            "DET",
            Plan("det", "node/papers", 2, overrides=("model.tau=0.7",)),
            paper=Published(84.6),
        ),
        Cell("papers", "other", Plan("other", "node/nowhere", 1)),
    ),
)


def test_what_must_be_said_with_a_number(tmp_path: Path) -> None:
    plan = Plan("det", "node/papers", 2, overrides=("model.tau=0.25",))
    write_study(tmp_path, "papers", "det", plan.config(), [0.5, 0.6], notes=("a substitute of the data",))
    write_study(tmp_path, "papers", "other", plan.config(), [0.5])
    det, other = read_entries(PAPERS, Results(tmp_path))
    assert "made with other settings than its recipe has now (model.tau is 0.25 there, 0.7 now)" in det.note
    assert "a substitute of the data" in det.note
    assert "runs so far" not in det.note
    assert (other.mean, other.note) == (50.0, ""), "a study can be shown without its recipe"
    assert notes(PAPERS, [det, other]) == [f"DET on Papers: {det.note}"]
    missing = read_entries(PAPERS, Results(tmp_path / "nowhere"))[1]
    assert missing.note == "not run yet: there is no recipe node/nowhere"


def test_a_study_without_a_test_split_says_so(tmp_path: Path) -> None:
    study = write_study(tmp_path, "papers", "other", Plan("", "node/papers", 1).config(), [0.5])
    content = json.loads(study.file.read_text(encoding="utf-8"))
    content["runs"][0] |= {"test": None, "valid": {"accuracy": 0.7}}
    study.file.write_text(json.dumps(content), encoding="utf-8")
    other = read_entries(PAPERS, Results(tmp_path))[1]
    assert (other.mean, other.note) == (70.0, "on the validation split")


def test_studies_that_cannot_be_shown(tmp_path: Path) -> None:
    config = Plan("", "node/papers", 1).config()
    study = write_study(tmp_path, "papers", "det", config, [0.5], metric="f1")
    with pytest.raises(DetError, match=r"papers-det\.json: the run of seed 0 has no 'accuracy', only f1"):
        read_entries(PAPERS, Results(tmp_path))
    study.file.write_text("{}")
    with pytest.raises(DetError, match="is not a study"):
        read_entries(PAPERS, Results(tmp_path))
