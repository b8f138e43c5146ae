"""Tables of a Markdown page, rendered from results: ``python -m detgraph.report.readme PAGE``."""

import re
import sys
from pathlib import Path

from detgraph.files import write_text
from detgraph.report.comparison import load_pairs, markdown
from detgraph.reproduce import find_target
from detgraph.reproduce.entries import read_entries
from detgraph.reproduce.rendering import markdown_table
from detgraph.reproduce.results import Results

TABLE = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def render(page: Path) -> str:
    """The page's text with every marked table rendered: from a file, or from reproduce:TARGET."""

    def table(match: re.Match[str]) -> str:
        opening, source, closing = match.groups()
        kind, _, name = source.partition(":")
        content = (
            reproduced(name, page) if kind == "reproduce" else markdown(load_pairs(page.parent / source))
        )
        return f"{opening}\n{content}\n\n{closing}"

    return TABLE.sub(table, page.read_text(encoding="utf-8"))


def reproduced(name: str, page: Path) -> str:
    """What has been measured of a table of the paper."""
    results = Results(page.parent / "results", grouped=True)
    entries = [entry for entry in read_entries(find_target(name), results) if entry.scores]
    datasets = dict.fromkeys(entry.cell.dataset for entry in entries)
    return markdown_table(find_target(name).only(list(datasets)), entries)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write_text(Path(name), render(Path(name)))
