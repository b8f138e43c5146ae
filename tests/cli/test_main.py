import subprocess
import sys
from pathlib import Path

import pytest
from tiny_runs import det

from detgraph import __version__
from detgraph.cli.main import COMMANDS

# What the help of each command must teach.
TAUGHT = {
    "demo": ("--output", "--seeds", "structural-only"),
    "train": ("CONFIG", "KEY=VALUE", "--output", "model.tau", "det recipes list"),
    "resume": ("FOLDER", "run folder", "checkpoint"),
    "evaluate": ("FOLDER", "--split", "--json", "train|valid|test"),
    "predict": (
        "RUN",
        "TABLE",
        "--output",
        "--smiles-column",
        "--bad-rows",
        "nan|skip|fail",
        "predictions.csv",
    ),
    "neighbors": ("FOLDER", "ENTITY|NODE", "--top", "--output", "--json", "f_s", "Nintendo"),
    "submit": ("RUN", "--output", "leaderboard"),
    "compare": ("CONFIG", "KEY=VALUE", "--models", "--seeds", "--jobs", "--output", "paired t-test"),
    "reproduce": ("table-nodes", "figure-tau", "--recompute", "--runs", "--only", "--json", "not run"),
    "tune": ("SPACE.yaml", "KEY=VALUE", "--trials", "--minutes", "test split is never read", "model.tau"),
    "recipes": ("list", "show", "copy"),
    "data": ("list", "fetch", "info", "check"),
    "doctor": ("versions",),
}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    answer = det(capsys, "--help")
    assert answer.code == 0
    for name, text in COMMANDS.items():
        assert name in answer.out
        assert text in answer.out
    assert "First steps" in answer.out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_teaches(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = det(capsys, name, "--help")
    assert answer.code == 0
    assert f"det {name}" in answer.out
    for text in TAUGHT[name]:
        assert text.lower() in answer.out.lower()  # typer writes names of arguments in either case
    assert "completion" not in answer.out  # it works for `det` as a whole only


def test_nothing_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    answer = det(capsys)
    assert "evaluate" in answer.out + answer.err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert det(capsys, "--version") == (0, f"detgraph {__version__}\n", "")


def test_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    answer = det(capsys, "trian")
    assert answer.code == 2
    assert "trian" in answer.err
    assert answer.out == ""


@pytest.mark.parametrize(
    "arguments", [("train",), ("evaluate", "run", "--split", "most"), ("doctor", "--fast"), ("data", "lst")]
)
def test_wrong_usage(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    answer = det(capsys, *arguments)
    assert answer.code == 2
    assert f"det {arguments[0]}" in answer.err
    assert answer.out == ""


def test_data_passes_through(capsys: pytest.CaptureFixture[str]) -> None:
    answer = det(capsys, "data", "info", "papers")
    assert answer.code == 0
    assert "2,000" in answer.out
    assert det(capsys, "data", "info", "paper").err.startswith("error: unknown benchmark 'paper'. Did you")


def test_trouble_with_the_file_system_is_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine")
    answer = det(capsys, "recipes", "copy", "node/papers", tmp_path / "file/new.yaml")
    assert answer.code == 2
    assert answer.err.startswith("error: ")
    assert "file" in answer.err


def test_torch_does_not_call_its_sparse_tensors_a_beta() -> None:
    script = "import detgraph, torch; torch.eye(1).to_sparse_csr()"
    done = subprocess.run([sys.executable, "-W", "default", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0
    assert "beta" not in done.stderr


def test_the_installed_program() -> None:
    program = Path(sys.executable).with_name("det")
    if not program.exists():
        pytest.skip("needs detgraph installed beside this Python")
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"detgraph {__version__}\n")
    done = subprocess.run([program, "recipes", "show", "nodes/papers"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Did you mean 'node/papers'?" in done.stderr
    assert "Traceback" not in done.stderr
