import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tiny_runs import tiny_config

from detgraph.report.html import write_report
from detgraph.training import RunFolder
from detgraph.training.launch import start

VOID = {"meta", "link", "img", "br"}
ODD_NAME = "a <b>bold & odd run"


class Page(HTMLParser):
    """Checks that every tag is closed where it should be, and collects what the page shows and refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.references: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunFolder]:
    """A finished network run, its structural twin, an unfinished molecule run."""
    folder = tmp_path_factory.mktemp("runs")
    start(tiny_config("node", folder, epochs=2), folder / "first").train()
    start(tiny_config("node", folder, {"model": {"tau": 1}}, epochs=2), folder / "twin").train()
    unfinished = RunFolder.create(folder / ODD_NAME, tiny_config("graph", folder))
    return [RunFolder.open(folder / "first"), RunFolder.open(folder / "twin"), unfinished]


def test_the_page_is_whole_and_needs_nothing_else(runs: list[RunFolder], tmp_path: Path) -> None:
    write_report(runs, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    page = Page(text)
    assert all(reference.startswith("#") for reference in page.references)
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


def test_runs_on_the_same_data_share_a_plot(runs: list[RunFolder], tmp_path: Path) -> None:
    write_report(runs, tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.tags.count("h2") == page.tags.count("svg") == 2
    assert page.tags.count("details") == 3
    for shown in ("first", "twin", "node: papers", "graph: molecules", "structural", "unfinished", "torch"):
        assert shown in page.text


def test_the_outcome_is_shown(runs: list[RunFolder], tmp_path: Path) -> None:
    write_report(runs[:1], tmp_path / "report.html")
    result = runs[0].result()
    assert result is not None
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert f"{result['test']['accuracy']:.4f}" in page.text
    assert f"{result['best_epoch'] + 1} of 2" in page.text
    assert f"{result['parameters']:,}" in page.text


def test_names_are_escaped(runs: list[RunFolder], tmp_path: Path) -> None:
    write_report(runs, tmp_path / "report.html", title="one < two")
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "b" not in page.tags
    assert ODD_NAME in page.text
    assert "one < two" in page.text


def test_a_run_without_a_test_part(runs: list[RunFolder], tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", runs[0].config())
    run.save_result({**(runs[0].result() or {}), "test": None})
    write_report([run], tmp_path / "report.html")
    assert "run" in Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
