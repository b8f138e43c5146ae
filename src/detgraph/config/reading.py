"""Configurations in and out: YAML, dotted overrides, and errors in the words of the file."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import override

from detgraph.config.data import MoleculeData, NetworkData, TripleData
from detgraph.config.schema import Config, EntityConfig, GraphConfig, NodeConfig
from detgraph.errors import DetError

_SCHEMA: TypeAdapter[Config] = TypeAdapter(Annotated[Config, Field(discriminator="task")])

PATH_KEYS = {
    f"data.{key}"
    for section in (MoleculeData, NetworkData, TripleData)
    for key, field in section.model_fields.items()
    if "Path" in str(field.annotation)
}


class UniqueKeys(yaml.SafeLoader):
    """YAML's safe loader, which would silently keep only the last of two equal keys, made to refuse them."""

    @override
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    problem = f"the key {key.value!r} is given twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Read a YAML file and apply overrides such as ``model.tau=0.3``."""
    if not path.is_file():
        raise DetError(f"no such configuration file: {path}. `det recipes list` shows the ready ones.")
    try:
        values = UniqueKeys(path.read_text(encoding="utf-8")).get_single_data()
    except (yaml.YAMLError, ValueError) as error:  # ValueError: no text, or an impossible date
        raise DetError(f"{path} is not valid YAML: {error}") from None
    if not isinstance(values, dict):
        raise DetError(f"{path}: expected keys and values at the top level, got {type(values).__name__}.")
    values = {key: value for key, value in values.items() if value is not None}
    for change in overrides:
        _apply(values, change)  # a path given here starts where the user stands, not at the file
    return parse_config(values, where=str(path), folder=path.parent)


def parse_config(values: dict[str, Any], *, where: str = "configuration", folder: Path = Path()) -> Config:
    """Validate plain values; relative data paths are read from ``folder``."""
    try:
        config = _SCHEMA.validate_python(values)
    except ValidationError as error:
        raise DetError("\n".join(_explain(problem, where) for problem in error.errors())) from None
    paths = {
        key: (folder / value).resolve() for key, value in dict(config.data).items() if isinstance(value, Path)
    }
    return config.model_copy(update={"data": config.data.model_copy(update=paths)})


def dump_config(config: Config) -> str:
    """A configuration as YAML, every key written out."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _apply(values: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals or not key:
        raise DetError(f"override {change!r} is not of the form key=value, e.g. model.tau=0.3.")
    *sections, last = key.split(".")
    for section in sections:
        values[section] = values.get(section) or {}  # a section left blank is an empty one
        values = values[section]
        if not isinstance(values, dict):
            raise DetError(f"override {change!r}: {section!r} is a value, not a section.")
    try:
        values[last] = (
            str(Path(text).absolute()) if key in PATH_KEYS and text != "null" else yaml.safe_load(text)
        )
    except (yaml.YAMLError, ValueError):
        raise DetError(f"override {change!r}: {text!r} is not a valid YAML value.") from None


def _explain(problem: Any, where: str) -> str:
    """One of pydantic's errors in the words of the file: dotted key, what was got, what was expected."""
    task, *keys = [str(part) for part in problem["loc"]] or [""]
    if problem["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return f"{where}: `task` must be graph, node or entity (got {problem['input'].get('task')!r})."
    # The parts of a union ("constrained-float", "literal[...]") are no keys of the file.
    key = ".".join(part for part in keys if part.isidentifier() and part not in ("float", "int", "str"))
    if problem["type"] == "extra_forbidden":
        known = _known_keys(task, keys[:-1])
        near = get_close_matches(keys[-1], known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"{where}: unknown key {key!r}.{hint} Known here: {', '.join(known)}."
    if problem["type"] == "invalid_key":
        wrong = ".".join([*keys[:-1], str(problem["input"])])
        return (
            f"{where}: the key {wrong!r} is not text. Known here: {', '.join(_known_keys(task, keys[:-1]))}."
        )
    if problem["type"] in ("model_type", "model_attributes_type"):
        return f"{where}: {key}: expected a section of keys and values (got {problem['input']!r})."
    if problem["type"] == "missing":
        return f"{where}: {key!r} is missing."
    if problem["type"] == "value_error":  # our own words, with full keys
        return f"{where}: {problem['msg'].removeprefix('Value error, ')}."
    return f"{where}: {key}: {problem['msg']} (got {problem['input']!r})."


def _known_keys(task: str, path: Sequence[str]) -> list[str]:
    section: Any = {"graph": GraphConfig, "node": NodeConfig, "entity": EntityConfig}[task]
    for key in path:
        section = section.model_fields[key].annotation
    return list(section.model_fields)
