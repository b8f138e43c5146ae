"""The page docs/paper-to-code.md: what it names exists, and what it counts is so."""

import ast
import re
from pathlib import Path

import pytest

from detgraph.config import EntityConfig, GraphConfig, NodeConfig, Section
from detgraph.nn import DualEncoding, MoleculeDET

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "paper-to-code.md"
REFERENCE = re.compile(r"`([\w/]+\.py)`:\s+`([\w.]+)`")
OPTION = re.compile(r"`((?:model|neighbors|training)\.\w+)`")


def references(page: str) -> list[tuple[str, str]]:
    """Every `file`: `symbol` of the page."""
    return sorted(set(REFERENCE.findall(page)))


def defined_symbols(path: Path) -> set[str]:
    """Names that a module defines: functions, classes, variables, and `Class.member` one level down."""

    def names(body: list[ast.stmt]) -> set[str]:
        found = set()
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            elif isinstance(node, ast.Assign):
                found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
            if isinstance(node, ast.ClassDef):
                found |= {f"{node.name}.{member}" for member in names(node.body)}
        return found

    return names(ast.parse(path.read_text(encoding="utf-8")).body)


def options() -> set[str]:
    """Every option of the three sections that the page may name."""
    found = set()
    for config in (GraphConfig, NodeConfig, EntityConfig):
        for name, field in config.model_fields.items():
            section = field.annotation
            if isinstance(section, type) and issubclass(section, Section):
                found |= {f"{name}.{option}" for option in section.model_fields}
    return found


def test_page_refers_to_many_symbols() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert len(references(page)) > 40
    # A path in backquotes that is not followed by a symbol would escape the next test.
    assert len(REFERENCE.findall(page)) == len(re.findall(r"`[\w/]+\.py`", page))


@pytest.mark.parametrize(("file", "symbol"), references(PAGE.read_text(encoding="utf-8")))
def test_reference_exists(file: str, symbol: str) -> None:
    path = ROOT / "src" / "detgraph" / file
    assert path.is_file(), f"the page names {file}, which does not exist"
    assert symbol in defined_symbols(path), f"{file} does not define {symbol}"


def test_options_exist() -> None:
    named = set(OPTION.findall(PAGE.read_text(encoding="utf-8")))
    assert len(named) > 15
    assert named <= options(), f"unknown options: {sorted(named - options())}"


def test_links_inside_the_page_lead_somewhere() -> None:
    page = PAGE.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", page, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    links = set(re.findall(r"\]\(#([^)]+)\)", page))
    assert links, "the page links its decisions"
    assert links <= anchors, f"broken links: {sorted(links - anchors)}"


def test_defined_symbols_sees_members_and_no_more(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("A = 1\nB: int = 2\nclass C:\n    d: int\n    def e(self): f = 1\ndef g(): h = 1\n")
    assert defined_symbols(module) == {"A", "B", "C", "C.d", "C.e", "g"}


@pytest.mark.parametrize(("tau", "count"), [(1.0, "489,481"), (0.5, "489,562")])
def test_parameter_counts_of_the_page(tau: float, count: str) -> None:
    model = MoleculeDET(
        atom_sizes=(63,), bond_sizes=(63,), targets=1, encoding=DualEncoding(tau=tau, share_layers=True)
    )
    assert f"{sum(parameter.numel() for parameter in model.parameters()):,}" == count
    assert count in PAGE.read_text(encoding="utf-8")
