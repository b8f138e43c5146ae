"""Numbers that are counted in the data, not trained; those of a target are kept in one file."""

import json
from pathlib import Path

from detgraph.data.benchmarks import BENCHMARKS
from detgraph.data.fetch import locate
from detgraph.errors import DetError
from detgraph.files import write_text
from detgraph.reproduce.target import Target
from detgraph.training.run import read_json, versions

Facts = dict[str, dict[str, float]]  # data set → row → number


def read_facts(file: Path) -> Facts:
    """What has been counted; nothing where there is no file."""
    if not file.is_file():
        return {}
    facts = read_json(file).get("facts")
    if not isinstance(facts, dict):
        raise DetError(f"{file} holds no facts. Move it away, or choose another folder with --results.")
    return facts


def count_facts(target: Target, file: Path) -> list[str]:
    """Count the numbers of all data sets at hand into ``file``; what is left out, and why."""
    assert target.facts is not None
    facts, reasons = read_facts(file), []
    for column in target.columns:
        try:
            benchmark = BENCHMARKS[column.dataset]
            if benchmark.files:
                locate(benchmark.name, benchmark.files)
            facts[column.dataset] = target.facts(column.dataset)
        except DetError as error:
            reasons.append(f"{column.dataset} is left out: {str(error).splitlines()[0]}")
    content = {"target": target.name, "facts": facts, "versions": versions()}
    write_text(file, json.dumps(content, indent=1) + "\n")
    return reasons
