"""Tables of a Markdown page, rendered from results: ``python -m detgraph.report.readme PAGE``."""

import re
import sys
from pathlib import Path

from detgraph.files import write_text
from detgraph.report.comparison import load_pairs, markdown

TABLE = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def render(page: Path) -> str:
    """The page's text with every marked table rendered from the file that its marker names."""

    def table(match: re.Match[str]) -> str:
        opening, source, closing = match.groups()
        return f"{opening}\n{markdown(load_pairs(page.parent / source))}\n\n{closing}"

    return TABLE.sub(table, page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write_text(Path(name), render(Path(name)))
