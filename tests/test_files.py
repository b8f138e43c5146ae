"""Files are whole or not there, and mistakes have one kind of message."""

import hashlib
from pathlib import Path

import pytest

from detgraph.errors import unknown_name
from detgraph.files import atomic_path, sha256, write_text


def test_a_new_file_and_its_folders_are_made(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "new.txt"
    with atomic_path(target) as temporary:
        assert temporary.parent == target.parent  # a rename between file systems would not be atomic
        temporary.write_text("all of it", encoding="utf-8")
        assert not target.exists()
    assert target.read_text(encoding="utf-8") == "all of it"
    assert list(target.parent.iterdir()) == [target]


def test_others_may_read_the_file(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "text")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("old", [None, "old"])
def test_a_failure_leaves_all_as_it_was(error: type[BaseException], old: str | None, tmp_path: Path) -> None:
    target = tmp_path / "file"
    if old is not None:
        target.write_text(old, encoding="utf-8")

    def write_half() -> None:
        with atomic_path(target) as temporary:
            temporary.write_text("half", encoding="utf-8")
            raise error

    with pytest.raises(error):
        write_half()
    left = [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()]
    assert left == ([] if old is None else [("file", old)])


def test_write_text_replaces_and_keeps_unicode(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_text(target, "a longer text than the next one")
    write_text(target, "τ ⊖\n")
    assert target.read_bytes() == "τ ⊖\n".encode()


@pytest.mark.parametrize("content", [b"", b"detgraph", bytes(range(256)) * 4096])
def test_sha256(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert sha256(path) == hashlib.sha256(content).hexdigest()


def test_unknown_name_tells_the_nearest_and_all() -> None:
    assert (
        str(unknown_name("colour", "gren", ["red", "green"]))
        == "unknown colour 'gren'. Did you mean 'green'? Known: green, red."
    )
    assert (
        str(unknown_name("colour", "xyz", iter(["red", "green"])))
        == "unknown colour 'xyz'. Known: green, red."
    )
