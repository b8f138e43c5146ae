"""`det predict` and `det evaluate --by` on knowledge graphs."""

import csv
import json
from pathlib import Path

import pytest
from tiny_runs import det, tiny_yaml

from detgraph.config import load_config
from detgraph.training.launch import start


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("entities")
    path = tiny_yaml("entity", folder, epochs=2)
    text = path.read_text(encoding="utf-8")
    assert "model:\n" in text
    path.write_text(text.replace("model:\n", "model:\n  composition: complex\n"), encoding="utf-8")
    config = load_config(path)
    start(config, folder / "run").train()
    return folder / "run"


def test_one_question(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = det(capsys, "predict", str(run), "--head", "e1", "--relation", "r1", "--top", "3")
    assert (answer.code, answer.err) == (0, "")
    assert "e1 – r1 – ?" in answer.out
    answer = det(capsys, "predict", str(run), "--tail", "e1", "--relation", "r1", "--top", "3", "--json")
    records = [json.loads(line) for line in answer.out.splitlines()]
    assert [record["rank"] for record in records] == [1, 2, 3]
    assert set(records[0]) == {"rank", "id", "name", "score", "known"}


def test_a_table_of_questions(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, output = tmp_path / "asked.csv", tmp_path / "out.csv"
    table.write_text("note,head,relation,tail\na,e1,r1,\n,,,\nb,,r2,e3\n", encoding="utf-8")
    answer = det(capsys, "predict", str(run), str(table), "-o", str(output), "--top", "2")
    assert (answer.code, answer.err) == (0, "")
    with output.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["note"], row["rank"]) for row in rows] == [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]
    assert rows[0]["answer"].startswith("e")


def test_facts_about_a_new_entity(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("new\tr1\te4\ne2\tr2\tnew\n", encoding="utf-8")
    question = ("--head", "new", "--relation", "r2", "--top", "2")
    assert det(capsys, "predict", str(run), *question, "--facts", str(facts)).code == 0
    answer = det(capsys, "predict", str(run), *question)
    assert answer.code == 2
    assert "no entity is called 'new'" in answer.err
    facts.write_text("new r1 e4\n", encoding="utf-8")
    answer = det(capsys, "predict", str(run), *question, "--facts", str(facts))
    assert answer.code == 2
    assert "facts.tsv:1: expected head<TAB>relation<TAB>tail" in answer.err


def test_mistakes(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "asked.csv"
    for text, message in (
        ("head,relation\ne1,r1\n", "no column 'tail'"),
        ("head,relation,tail\ne1,r1,\ne1,r1,e2\n", "asked.csv:3: a question has a relation and either"),
        ("head,relation,tail\ne1,,\n", "asked.csv:2: the relation is empty"),
    ):
        table.write_text(text, encoding="utf-8")
        answer = det(capsys, "predict", str(run), str(table), "-o", str(tmp_path / "out.csv"))
        assert answer.code == 2
        assert message in answer.err
        assert not (tmp_path / "out.csv").exists()
    answer = det(capsys, "predict", str(run))
    assert (answer.code, "name what is asked for" in answer.err) == (2, True)


def test_evaluation_in_parts(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for by, parts in (("direction", {"tail", "head"}), ("relation", {"r1", "r2"})):
        answer = det(capsys, "evaluate", str(run), "--split", "train", "--by", by, "--json")
        records = [json.loads(line) for line in answer.out.splitlines()]
        assert "part" not in records[0]
        assert {record["part"] for record in records[1:]} == parts
    assert "head" in det(capsys, "evaluate", str(run), "--by", "direction").out
