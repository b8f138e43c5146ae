"""A run is a folder: its configuration, metrics, weights, neighbours and names."""

import json
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from detgraph.config import Config, dump_config, load_config
from detgraph.errors import DetError
from detgraph.files import atomic_path, write_text

PACKAGES = ("detgraph", "torch", "torch_geometric", "numpy", "rdkit", "numba", "lightning-fabric")

NOT_WHOLE = "{path} is missing: the run folder is not whole. Put the file back, or train anew."


class InUse(DetError):
    """Another process is training the run."""


class RunFolder:
    """The files of one run; all are plain text or safetensors."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.yaml"
        self.metrics_file = path / "metrics.jsonl"
        self.weights_file = path / "model.safetensors"
        self.neighbors_file = path / "neighbors.safetensors"
        self.vocabulary_file = path / "vocabulary.json"
        self.versions_file = path / "versions.json"
        self.result_file = path / "result.json"
        self.checkpoint_file = path / "checkpoint.safetensors"
        self.report_file = path / "report.html"
        self.lock_file = path / ".lock"

    @classmethod
    def create(cls, path: Path, config: Config) -> "RunFolder":
        """A new folder; one that holds a run already is left alone."""
        run = cls(path)
        run.check_free()
        write_text(run.versions_file, json.dumps(versions(), indent=1))
        write_text(run.config_file, dump_config(config))  # last: it is what makes the folder a run
        return run

    def check_free(self) -> None:
        """Refuse a folder that holds a run, or a path that can be no folder."""
        if self.config_file.exists():
            raise DetError(
                f"{self.path} already holds a run. Continue it with `det resume {self.path}`, "
                "or choose another folder with --output."
            )
        if self.path.is_dir() and any(self.path.iterdir()):
            raise DetError(f"{self.path} is not empty. Choose another folder with --output.")
        for path in (self.path, *self.path.parents):
            if path.exists() and not path.is_dir():
                raise DetError(f"{path} is a file, not a folder. Choose another one with --output.")

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """An existing run."""
        run = cls(path)
        if not run.config_file.is_file():
            raise DetError(f"{path} is not a run folder: it has no config.yaml.")
        return run

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from training the same run meanwhile.

        Raises:
            InUse: if one does so already.
        """
        lock = FileLock(self.lock_file)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise InUse(
                f"another process is training {self.path}. Wait for it to end, or stop it first."
            ) from None
        try:
            yield
        finally:
            lock.release()
            if self.result_file.exists():  # nobody trains a finished run
                self.lock_file.unlink(missing_ok=True)

    def check_unfinished(self) -> None:
        """Refuse to train a run that has its result."""
        if self.result() is not None:
            raise DetError(
                f"{self.path} has finished already; see {self.result_file} or run `det evaluate {self.path}`."
            )

    def config(self) -> Config:
        """The configuration the run was made with."""
        return load_config(self.config_file)

    def metrics(self) -> list[dict[str, Any]]:
        """One record an epoch."""
        if not self.metrics_file.exists():
            return []
        records = []
        for line in self.metrics_file.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:  # the process was killed while it wrote its last line
                break
            if not isinstance(record, dict) or not isinstance(record.get("epoch"), int):
                break
            records.append(record)
        return records

    def append_metrics(self, record: dict[str, Any]) -> None:
        """Add the record of an epoch."""
        with self.metrics_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def keep_metrics_before(self, epoch: int) -> None:
        """Drop records of epochs that will be trained again after an abrupt end."""
        kept = [record for record in self.metrics() if record["epoch"] < epoch]
        write_text(self.metrics_file, "".join(json.dumps(record) + "\n" for record in kept))

    def save_vocabulary(self, vocabulary: dict[str, Any], fingerprint: str) -> None:
        """The names behind the numbers, and the checksum of the data they come from."""
        content = {"fingerprint": fingerprint, **vocabulary}
        write_text(self.vocabulary_file, json.dumps(content, ensure_ascii=False))

    def check_data(self, fingerprint: str) -> None:
        """Refuse data that is not what the run was trained on."""
        if not self.vocabulary_file.exists():
            return
        known = read_json(self.vocabulary_file).get("fingerprint")
        if known not in (None, fingerprint):
            raise DetError(
                f"the data of {self.path} has changed since the run was started: its numbers would mean "
                "something else. Put the old data back, or train anew."
            )

    def save_weights(self, weights: dict[str, Tensor], neighbors: dict[str, Tensor]) -> None:
        """The chosen weights and the semantic neighbours they go with."""
        save_tensors(self.weights_file, weights)
        save_tensors(self.neighbors_file, neighbors)

    def load_weights(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What `save_weights` kept."""
        if not self.weights_file.is_file():
            if self.result_file.exists():
                raise DetError(NOT_WHOLE.format(path=self.weights_file))
            raise DetError(
                f"{self.path} has no weights yet: the run has not finished. Continue it with "
                f"`det resume {self.path}`."
            )
        return load_tensors(self.weights_file), load_tensors(self.neighbors_file)

    def save_result(self, result: dict[str, Any]) -> None:
        """The outcome."""
        write_text(self.result_file, json.dumps(result, indent=1))

    def result(self) -> dict[str, Any] | None:
        """The outcome, if the run has finished."""
        if not self.result_file.is_file():
            return None
        return read_json(self.result_file)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; a damaged file is an error that says so."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DetError(NOT_WHOLE.format(path=path)) from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        content = None
    if not isinstance(content, dict):
        raise DetError(f"{path} is damaged: it is not a JSON object. Restore it, or train anew.")
    return content


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file atomically."""
    with atomic_path(path) as temporary:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary, metadata)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file."""
    try:
        return load_file(path)
    except FileNotFoundError:
        raise DetError(NOT_WHOLE.format(path=path)) from None
    except SafetensorError as error:
        raise DetError(f"{path} is damaged ({error}). Train the run again in a new folder.") from None


def versions() -> dict[str, str | None]:
    """What a result depends on beside the configuration."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    found["commit"] = commit()
    return found


@cache
def commit() -> str | None:
    """The commit of the source tree, if detgraph runs from one; it may move on, the code in use does not."""
    tree = Path(__file__).parents[3]
    if not (tree / "pyproject.toml").is_file():
        return None
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=tree,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
