"""The paper's figure of semantic scores: two entities with their neighbours, by name.

Other targets are numbers of studies. This one shows what a single trained model reads, and has a file of its
own beside the studies.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from detgraph.config import load_config
from detgraph.errors import DetError
from detgraph.files import write_text
from detgraph.recipes import recipe_path
from detgraph.report.neighbors import Neighborhood, draw, markdown, neighborhood
from detgraph.reproduce.rendering import save_figure
from detgraph.reproduce.results import Results
from detgraph.tasks import EntityTask
from detgraph.training import RunFolder, Trainer
from detgraph.training.launch import load_run, resume, start
from detgraph.training.run import read_json, versions

NAME = "figure-neighbors"
TITLE = "Whom two entities attend to"
CAPTION = (
    "f_s is the semantic encoder's score of a pair; beside it the last layer's weights of both encoders. "
    "Connected neighbours are a sample, as in training; distant ones were found in the entity table."
)
# Data set, entity by id: Nintendo, and the verb travel.
EXAMPLES = (("fb15k-237", "/m/059wk"), ("wn18rr", "01835496"))

Examples = dict[str, Neighborhood]  # by data set


def read_examples(results: Results) -> Examples:
    """What has been found so far."""
    file = _file(results)
    if not file.is_file():
        return {}
    try:
        records = read_json(file)["examples"].items()
        return {name: Neighborhood.from_record(record) for name, record in records}
    except (KeyError, TypeError, AttributeError):
        raise DetError(
            f"{file} holds no examples. Move it away, or choose another folder with --results."
        ) from None


def missing(results: Results, runs: Path) -> Iterator[tuple[str, str, Path, Trainer | None]]:
    """Examples that are not there yet: data set, entity, the folder of a run, and its training if unfinished.

    An interrupted training goes on from its folder below ``runs``.
    """
    for dataset, entity in EXAMPLES:
        if dataset not in read_examples(results):
            folder = runs / f"{NAME}-{dataset}"
            if not folder.is_dir():
                yield (
                    dataset,
                    entity,
                    folder,
                    start(load_config(recipe_path(f"entity/{dataset}-cpu")), folder),
                )
            else:
                finished = RunFolder.open(folder).result() is not None
                yield dataset, entity, folder, None if finished else resume(folder)


def keep_example(results: Results, dataset: str, entity: str, folder: Path) -> None:
    """Add what a finished run shows of an entity to the file."""
    task = load_run(folder)
    if not isinstance(task, EntityTask) or task.data.name != dataset:
        raise DetError(f"{folder} is not a run on {dataset}.")
    examples = read_examples(results) | {dataset: neighborhood(task, entity)}
    content = {
        "target": NAME,
        "examples": {name: found.record() for name, found in examples.items()},
        "versions": versions(),
    }
    write_text(_file(results), json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def write_files(examples: Examples, output: Path) -> list[Path]:
    """Text, numbers and pictures in a folder."""
    page, data = output / f"{NAME}.md", output / f"{NAME}.json"
    parts = "\n\n".join(markdown(found) for found in examples.values())
    write_text(page, f"# {TITLE}\n\n{CAPTION}\n\n![{TITLE}]({NAME}.svg)\n\n{parts}\n")
    content = {"target": NAME, "examples": {name: found.record() for name, found in examples.items()}}
    write_text(data, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return [page, data, *save_figure(draw(list(examples.values())), NAME, output)]


def _file(results: Results) -> Path:
    return results.file(NAME, "examples", "entity")
