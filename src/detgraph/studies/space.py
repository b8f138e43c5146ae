"""A search space: which settings may vary, and over what."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import FiniteFloat, TypeAdapter, ValidationError, model_validator

from detgraph.config import Config
from detgraph.config.reading import UniqueKeys
from detgraph.config.section import Section
from detgraph.errors import DetError, unknown_name

Setting = bool | int | float | str | None
Settings = dict[str, Setting]  # by dotted key
DIGITS = 4  # significant, of a setting that is tried
EXAMPLE = (
    "For example `model.tau: {low: 0.1, high: 0.95}`, `training.learning_rate: {low: 1e-3, high: 5e-2, "
    "log: true}` or `neighbors.k: [4, 8, 16]`."
)


class Range(Section):
    """All numbers between two; whole ones if both are."""

    low: int | FiniteFloat
    high: int | FiniteFloat
    log: bool = False
    """Search the exponent."""

    @model_validator(mode="after")
    def _in_order(self) -> "Range":
        if not self.low < self.high:
            raise ValueError(f"low must be less than high (got {self.low} and {self.high})")
        if self.log and self.low <= 0:
            raise ValueError(f"log needs a low above 0 (got {self.low})")
        return self

    def __contains__(self, value: object) -> bool:
        kind = int if self.whole else int | float
        return isinstance(value, kind) and self.low <= value <= self.high

    @property
    def whole(self) -> bool:
        """Whether it is a range of integers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def tidy(self, value: float) -> float:
        """The value with few digits, to be written and pasted, and still within the range."""
        if isinstance(value, int):
            return value
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)


Dimension = Range | list[Setting]
_CHOICES: TypeAdapter[list[Setting]] = TypeAdapter(list[Setting])


@dataclass(frozen=True)
class Space:
    """A range or a list of choices for each dotted key."""

    dimensions: dict[str, Dimension]

    @classmethod
    def read(cls, path: Path) -> "Space":
        """Read a YAML file such as ``model.tau: {low: 0.1, high: 0.9}``."""
        if not path.is_file():
            raise DetError(f"no such search space: {path}. {EXAMPLE}")
        try:
            values = UniqueKeys(path.read_text(encoding="utf-8")).get_single_data()
        except (yaml.YAMLError, ValueError) as error:  # ValueError: no text, or an impossible date
            raise DetError(f"{path} is not valid YAML: {error}") from None
        if not isinstance(values, dict) or not values:
            raise DetError(f"{path}: expected settings with a range or a list of choices each. {EXAMPLE}")
        return cls({str(key): _dimension(str(key), value, path) for key, value in values.items()})

    def check(self, config: Config) -> None:
        """Refuse keys that are no settings of ``config``."""
        known = list(_leaves(config))
        for key in self.dimensions:
            if key not in known:
                raise unknown_name("setting to search", key, known)

    def own(self, config: Config) -> Settings | None:
        """What ``config`` has itself; None if one of its values is outside the space."""
        values = _leaves(config)
        own = {key: values[key] for key in self.dimensions}
        return own if all(own[key] in dimension for key, dimension in self.dimensions.items()) else None

    def content(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            key: dimension.model_dump() if isinstance(dimension, Range) else dimension
            for key, dimension in self.dimensions.items()
        }


def overrides(settings: Mapping[str, Setting]) -> list[str]:
    """Settings as the command line takes them."""
    return [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in settings.items()
    ]


def _dimension(key: str, value: Any, path: Path) -> Dimension:
    try:
        if isinstance(value, list) and value:
            return _CHOICES.validate_python(value)
        if isinstance(value, dict):
            return Range.model_validate(value)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}".removeprefix(": ")
            for problem in error.errors()
        )
        raise DetError(f"{path}: {key}: {problems}. {EXAMPLE}") from None
    raise DetError(f"{path}: {key}: expected a range or a list of choices (got {value!r}). {EXAMPLE}")


def _leaves(config: Config) -> Settings:
    """All that may be searched, by dotted key."""

    def walk(values: Mapping[str, Any], path: str) -> Iterator[tuple[str, Setting]]:
        for key, value in values.items():
            if isinstance(value, Mapping):
                yield from walk(value, f"{path}{key}.")
            else:
                yield f"{path}{key}", value

    return dict(walk(config.model_dump(mode="json", exclude={"task", "data", "seed"}), ""))
