"""Every speed figure beside its peer, as one JSON line each: ``make bench``, ``make bench ONLY=dual-layer``.

Ours and the peer run in turns in one process with the same threads; a figure is the median of the ratios of
neighbouring turns, so that a busy machine slows both alike. Exit code 1 where a bar is missed; a figure whose
data set is missing is skipped with its reason.
"""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

import knowledge
import layers
import molecules
import networks
import search

from detgraph.errors import DetError

FIGURES: dict[str, Callable[[], dict[str, Any]]] = {
    "structural-layer": layers.structural_layer,
    "dual-layer": layers.dual_layer,
    "dual-layer-supergat": layers.dual_layer_supergat,
    "neighbor-refresh": search.neighbor_refresh,
    "cora-run": networks.cora_run,
    "million-nodes": networks.million_nodes,
    "molecule-step-graphormer": molecules.step_beside_graphormer,
    "molecule-step-gps": molecules.step_beside_gps,
    "molecule-semantic": molecules.semantic_encoder,
    "reading-smiles": molecules.reading_smiles,
    "ranking": knowledge.evaluation,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=FIGURES, help="one figure")
    only = parser.parse_args().only
    missed = 0
    for name in [only] if only else FIGURES:
        try:
            figure = {"name": name, **FIGURES[name]()}
        except DetError as error:  # a data set that cannot be had
            print(json.dumps({"name": name, "skipped": str(error).splitlines()[0]}), flush=True)
            continue
        figure["holds"] = bool(figure["ratio"] <= figure["bar"]) and figure.get("holds", True)
        missed += not figure["holds"]
        print(json.dumps(figure), flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
