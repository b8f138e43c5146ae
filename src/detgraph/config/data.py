"""Where the data of a run comes from: a benchmark by name, or the user's files."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, model_validator

from detgraph.config.section import Count, Section, Seed

Names = Annotated[
    tuple[str, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)
]


class MoleculeData(Section):
    """A benchmark by name, or a table of SMILES."""

    name: str | None = None
    """A benchmark of `det data list`."""
    file: Path | None = None
    """CSV, TSV or Parquet with one molecule a row."""
    smiles_column: str = "smiles"
    targets: Names = ()
    """Columns to predict, one or several."""
    split_column: str | None = "split"
    """train / valid / test, blank = not used; without this column a split is made."""
    split: Literal["random", "scaffold"] = "random"
    """How to split where there is no column: at random with `split_seed`, or by Murcko scaffold."""
    kind: Literal["regression", "classification"] = "regression"
    """Classification is binary (0 or 1) for each target."""
    bad_rows: Literal["fail", "skip"] = "fail"
    """What to do with molecules that cannot be read."""
    split_seed: Seed = 0
    limit: Count | None = None
    """Use only so many molecules, a random sample."""

    @property
    def label(self) -> str:
        """What to call the data."""
        return self.name or Path(str(self.file)).stem

    @model_validator(mode="after")
    def _one_source(self) -> "MoleculeData":
        _one_of(self, name={"limit", "bad_rows"}, file={*MoleculeData.model_fields} - {"name"})
        if self.file and not self.targets:
            raise ValueError("data.targets must name the columns to predict")
        twice = [target for target in self.targets if self.targets.count(target) > 1]
        if twice:
            raise ValueError(f"data.targets names {twice[0]!r} twice: remove one")
        return self


class NetworkData(Section):
    """A benchmark by name, an edge list with a node table, or one .npz."""

    name: str | None = None
    """A benchmark of `det data list`."""
    nodes: Path | None = None
    """Node table (CSV, TSV, Parquet): id, label, split, features."""
    edges: Path | None = None
    """Edge list: two columns of node ids."""
    npz: Path | None = None
    """One .npz with edge_index, x, y and masks."""
    id_column: str = "id"
    label_column: str = "label"
    split_column: str = "split"
    features: Path | None = None
    """Features apart from the node table: SVMlight, .npy or .npz."""
    multi_label: bool = False
    """Labels are lists separated by ';'."""
    normalize: bool | None = None
    """Scale each node's features to sum to 1; default: sparse features (bags of words) only."""
    split_seed: Seed = 0
    num_nodes: Count | None = None
    """Size of the generated network `papers`."""

    @property
    def label(self) -> str:
        """What to call the data."""
        return self.name or Path(str(self.npz or self.nodes)).stem

    @model_validator(mode="after")
    def _one_source(self) -> "NetworkData":
        own = {*NetworkData.model_fields} - {"name", "npz", "num_nodes"}
        _one_of(self, name={"num_nodes", "normalize"}, nodes=own, npz={"normalize", "split_seed"})
        if (self.nodes is None) != (self.edges is None):
            raise ValueError("data.nodes and data.edges go together")
        return self


class TripleData(Section):
    """A benchmark by name, or TSV files of triples."""

    name: str | None = None
    """A benchmark of `det data list`."""
    train: Path | None = None
    """TSV: head, relation, tail."""
    valid: Path | None = None
    test: Path | None = None
    entity_names: Path | None = None
    """TSV: id, human name."""
    relation_names: Path | None = None
    split_seed: Seed = 0

    @property
    def label(self) -> str:
        """What to call the data."""
        return self.name or Path(str(self.train)).absolute().parent.name

    @model_validator(mode="after")
    def _one_source(self) -> "TripleData":
        _one_of(self, name=set(), train={*TripleData.model_fields} - {"name"})
        return self


def _one_of(section: Section, **reads: set[str]) -> None:
    """Exactly one source is given, and no key that this source does not read."""
    given = [source for source in reads if getattr(section, source) is not None]
    if len(given) != 1:
        got = " and ".join(f"data.{key}" for key in given) or "none"
        raise ValueError(f"give exactly one of {', '.join(f'data.{key}' for key in reads)} (got {got})")
    for key, field in type(section).model_fields.items():
        if key not in reads[given[0]] | {given[0]} and getattr(section, key) != field.default:
            raise ValueError(f"data.{key} has no effect with data.{given[0]}: remove it")
