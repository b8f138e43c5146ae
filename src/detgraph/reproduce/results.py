"""Where studies are: those that come with detgraph, those trained anew, or a folder the user names."""

from dataclasses import dataclass
from pathlib import Path

from detgraph.errors import DetError
from detgraph.reproduce.target import Plan
from detgraph.studies import Study
from detgraph.studies.models import BASELINES


@dataclass(frozen=True)
class Results:
    """A folder of studies, or a tree with a folder for each group."""

    path: Path
    grouped: bool = False

    def file(self, dataset: str, key: str, group: str) -> Path:
        """The file of a study."""
        folder = self.path / group if self.grouped else self.path
        return folder / f"{dataset}-{key}.json"

    def facts(self, target: str) -> Path:
        """The file of a target whose numbers are counted."""
        return (self.path / "facts" if self.grouped else self.path) / f"{target}.json"

    def study(self, dataset: str, plan: Plan) -> Study:
        """A study with its file and the configuration its recipe has now."""
        return Study(dataset, plan.key, plan.config(), self.file(dataset, plan.key, plan.group), plan.logs)


def named_results(path: Path, *, new: bool) -> Results:
    """A folder that the user names, with all studies in it or a folder for each group.

    Args:
        path: the folder.
        new: whether it is to be filled, so that it need not be there.
    """
    if not new and not path.is_dir():
        raise DetError(f"--results {path}: no such folder. Check the path, or train with --recompute.")
    return Results(path, grouped=any((path / group).is_dir() for group in BASELINES))


def committed_results() -> Results:
    """The results that come with detgraph: in the package of a wheel, at the top of a source tree."""
    package = Path(__file__).parents[1]
    installed = package / "results"
    return Results(installed if installed.is_dir() else package.parents[1] / "results", grouped=True)


def new_results() -> Results:
    """Where new studies go: to the committed ones in a source tree, else below the present folder."""
    tree = Path(__file__).parents[3]
    return Results(tree / "results" if (tree / "pyproject.toml").is_file() else Path("results"), grouped=True)
