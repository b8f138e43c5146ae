"""`det predict`: rows and columns as they were, any molecule survived, the numbers those of the training."""

import csv
import gzip
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import polars as pl
import pytest
from tiny_runs import tiny_yaml

from detgraph.cli.main import main
from detgraph.tasks import GraphTask, molecule_prediction
from detgraph.training.launch import load_predictor, load_run

Found = TypeVar("Found")

ODD = ["CCO", "", "not a molecule", "[Na+].[Cl-]", "C", "[Fe+2]", "[H][H]", "C" * 400, "C(C)(C)(C)(C)C", "*C"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predict")
    main_quietly("train", str(tiny_yaml("graph", folder, epochs=2)), "--output", str(folder / "run"))
    return folder / "run"


def main_quietly(*arguments: str) -> int:
    try:
        main([*arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def write(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def table_of(smiles: list[str], path: Path) -> Path:
    return write(
        path, [["name", "SMILES", "note"], *([f"m{i}", s, 'a "b", c'] for i, s in enumerate(smiles))]
    )


def targets(run: Path) -> list[str]:
    names: list[str] = json.loads((run / "vocabulary.json").read_text())["targets"]
    return names


def test_numbers_are_those_of_the_run(run: Path, tmp_path: Path) -> None:
    task = load_run(run)
    assert isinstance(task, GraphTask)
    smiles = [task.data.smiles[row] for row in task.data.splits["valid"].tolist()]
    expected = task.predict("valid")
    table, output = table_of(smiles, tmp_path / "in.csv"), tmp_path / "out.csv"
    assert main_quietly("predict", str(run), str(table), "-o", str(output)) == 0
    for row, values in zip(read(output), expected.tolist(), strict=True):
        found = [float(row[f"predicted_{target}"]) for target in targets(run)]
        assert found == pytest.approx(values, rel=1e-4, abs=1e-5)


def test_odd_rows_keep_their_place_and_say_why(run: Path, tmp_path: Path) -> None:
    table, output = table_of(ODD, tmp_path / "in.csv"), tmp_path / "out.csv"
    assert main_quietly("predict", str(run), str(table), "-o", str(output)) == 0
    rows = read(output)
    assert [row["name"] for row in rows] == [f"m{i}" for i in range(len(ODD))]
    assert {row["note"] for row in rows} == {'a "b", c'}
    column = f"predicted_{targets(run)[0]}"
    bad = [i for i, row in enumerate(rows) if row["predicted_problem"]]
    assert bad == [1, 2, 8]
    assert all((row[column] == "") == bool(row["predicted_problem"]) for row in rows)
    assert "valence" in rows[8]["predicted_problem"]


def test_rows_can_be_left_out_or_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, output = table_of(ODD, tmp_path / "in.csv"), tmp_path / "out.csv"
    assert main_quietly("predict", str(run), str(table), "-o", str(output), "--bad-rows", "skip") == 0
    assert [row["name"] for row in read(output)] == ["m0", "m3", "m4", "m5", "m6", "m7", "m9"]
    output.unlink()
    assert main_quietly("predict", str(run), str(table), "-o", str(output), "--bad-rows", "fail") == 2
    assert f"{table}:3" in capsys.readouterr().err
    assert not output.exists()


def test_too_large_a_molecule_has_a_reason(run: Path, tmp_path: Path) -> None:
    table, output = table_of(["CCO", "C" * 40_000, "CC"], tmp_path / "in.csv"), tmp_path / "out.csv"
    assert main_quietly("predict", str(run), str(table), "-o", str(output)) == 0
    assert [row["predicted_problem"] for row in read(output)] == [
        "",
        "it has 40,000 atoms, at most 1,000 can be read",
        "",
    ]


def test_many_rows_stream_in_order(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smiles = ["C" * (1 + i % 9) if i % 5 else "bad" for i in range(60)]
    whole = [row.values for row in molecule_prediction.predict_smiles(load_predictor(run), smiles)]
    monkeypatch.setattr(molecule_prediction, "CHUNK", 8)
    parts = list(molecule_prediction.predict_smiles(load_predictor(run), smiles))
    assert len(parts) == len(whole) == 60
    for i, (part, values) in enumerate(zip(parts, whole, strict=True)):
        assert bool(part.problem) == (i % 5 == 0)
        assert part.values == pytest.approx(values, rel=1e-4, abs=1e-5, nan_ok=True)


PEAKS = """
import os, resource, sys
os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])  # so few chunks are read ahead
from detgraph.cli.main import main
from detgraph.tasks import molecule_prediction
molecule_prediction.CHUNK = 8
for table in sys.argv[2:]:
    try:
        main(["predict", sys.argv[1], table])
    except SystemExit:
        print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the unit is another")
def test_memory_does_not_grow_with_the_rows(run: Path, tmp_path: Path) -> None:
    long = "x" * 100_000  # a column that is carried along: 80 MB more in the second table
    tables = [
        write(tmp_path / f"{rows}.csv", [["smiles", "note"], *[["CC", long]] * rows]) for rows in (200, 1000)
    ]
    command = [sys.executable, "-c", PEAKS, str(run), *map(str, tables)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    few, many = (int(line.split()[1]) for line in said.splitlines() if line.startswith("peak"))
    assert "1,000 of 1,000 molecules predicted" in said
    assert many - few < 20 * 1024  # KiB


@pytest.mark.parametrize("ending", [".tsv", ".csv.gz", ".parquet"])
def test_other_formats(run: Path, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"in{ending}"
    frame = pl.DataFrame({"smiles": ["CC", "CCO"], "id": [1, 2]})
    if ending == ".parquet":
        frame.write_parquet(path)
    else:
        text = frame.write_csv(separator="\t" if ending == ".tsv" else ",")
        path.write_bytes(gzip.compress(text.encode()) if ending.endswith("gz") else text.encode())
    output = tmp_path / f"out{'.csv' if ending == '.parquet' else ending}"
    assert main_quietly("predict", str(run), str(path), "-o", str(output)) == 0
    found = pl.read_csv(output, separator="\t" if ending == ".tsv" else ",")
    assert found["id"].to_list() == [1, 2]
    assert found[f"predicted_{targets(run)[0]}"].is_not_null().all()


def test_rows_of_empty_cells_keep_their_place(run: Path, tmp_path: Path) -> None:
    table, output = tmp_path / "in.csv", tmp_path / "out.csv"
    table.write_text("smiles,note\nC,a\n,\n\nCC,b\n")  # the third line has empty cells, the fourth has none
    assert main_quietly("predict", str(run), str(table), "-o", str(output)) == 0
    rows = read(output)
    assert [(row["smiles"], row["note"]) for row in rows] == [("C", "a"), ("", ""), ("CC", "b")]
    assert [row["predicted_problem"] for row in rows] == ["", "it is empty", ""]


def test_a_column_alone_keeps_its_blank_rows(run: Path, tmp_path: Path) -> None:
    table, output = tmp_path / "in.csv", tmp_path / "out.csv"
    table.write_text("smiles\nC\n\nCC\n")  # as polars writes a missing value
    assert main_quietly("predict", str(run), str(table), "-o", str(output)) == 0
    assert [row["predicted_problem"] for row in read(output)] == ["", "it is empty", ""]


def test_rows_of_another_width_have_a_reason(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, output = tmp_path / "in.csv", tmp_path / "out.csv"
    table.write_text("smiles,note\nC\nCC,a,b\nCCC,c\n")
    assert main_quietly("predict", str(run), str(table), "-o", str(output)) == 0
    rows = read(output)
    assert [(row["smiles"], row["note"]) for row in rows] == [("C", ""), ("CC", "a"), ("CCC", "c")]
    assert [row["predicted_problem"] for row in rows] == [
        "the row has 1 cells, expected 2 as in the header",
        "the row has 3 cells, expected 2 as in the header, left out: b",
        "",
    ]
    assert main_quietly("predict", str(run), str(table), "--bad-rows", "fail") == 2
    assert f"{table}:2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'id,smiles\n1,CCO\n2,"C\n3,CC\n', "in.csv:3: cannot be read: unexpected end of data"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff\xff", "in.csv.gz:1: cannot be read"),
    ],
)
def test_damaged_tables(
    run: Path, tmp_path: Path, content: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / ("in.csv.gz" if content[:1] == b"\x1f" else "in.csv")
    table.write_bytes(content)
    assert main_quietly("predict", str(run), str(table), "-o", str(tmp_path / "out.csv")) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [table.name]


def test_columns_of_parquet_that_are_no_text(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, output = tmp_path / "in.parquet", tmp_path / "out.csv"
    command = ("predict", str(run), str(table), "-o", str(output))
    frame = pl.DataFrame({"smiles": ["C", "CC"], "tags": [["a", "é"], None], "size": [{"n": 1}, {"n": 2}]})
    frame.write_parquet(table)
    assert main_quietly(*command) == 0
    assert [row["tags"] for row in read(output)] == ['["a", "é"]', ""]
    assert [row["size"] for row in read(output)] == ['{"n": 1}', '{"n": 2}']
    output.unlink()
    frame.with_columns(pl.Series("raw", [b"ok", b"\xff"])).write_parquet(table)
    assert main_quietly(*command) == 2
    assert "column 'raw' holds Binary" in capsys.readouterr().err
    table.write_text("not Parquet")
    assert main_quietly(*command) == 2
    assert f"{table}: cannot be read as a table" in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["a", "b"], ["1", "2"]], "--smiles-column"),
        ([], "is empty"),
        ([["smiles", "predicted_problem"], ["C", "x"]], "--prefix"),
    ],
)
def test_mistakes(
    run: Path, tmp_path: Path, rows: list[list[str]], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write(tmp_path / "in.csv", rows)
    assert main_quietly("predict", str(run), str(table), "-o", str(tmp_path / "out.csv")) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_command_that_is_ended(run: Path, tmp_path: Path, kind: signal.Signals) -> None:
    table = write(tmp_path / "in.csv", [["smiles"], *[["C" * 30]] * 200_000])
    program = Path(sys.executable).with_name("det")
    command = [str(program), "predict", str(run), str(table)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    workers = wait_for(lambda: children(process.pid), "no process was started")
    process.send_signal(kind)
    assert process.wait(60) == (143 if kind == signal.SIGTERM else -9)
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "a process is left")
    if kind == signal.SIGTERM:
        assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def children(parent: int) -> list[int]:
    """Processes that read molecules for another one."""
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    found = [int(pid) for pid in text.split()]
    return [pid for pid in found if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def wait_for(condition: Callable[[], Found], message: str) -> Found:
    for _ in range(3000):  # five minutes, on a machine with other work
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(message)


def test_what_has_no_effect_is_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = table_of(["C"], tmp_path / "in.csv")
    for arguments in (("--top", "3"), ("--json",), ("--known",), ("--head", "a")):
        assert main_quietly("predict", str(run), str(table), *arguments) == 2
        assert f"is a run on molecules: {arguments[0]} has no effect" in capsys.readouterr().err
    assert main_quietly("predict", str(run), str(table), "-o", str(tmp_path / "x" / ".." / "in.csv")) == 2
    assert "is the file to read" in capsys.readouterr().err
    assert main_quietly("predict", str(run)) == 2
    assert "give it a table of SMILES" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
