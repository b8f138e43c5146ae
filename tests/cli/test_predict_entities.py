"""`det predict` and `det evaluate --by` on knowledge graphs."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from builders import grouped_task
from tiny_runs import det, tiny_yaml

from detgraph.cli.evaluate import Part, SplitName, parts
from detgraph.config import load_config
from detgraph.tasks import EntityTask, Split
from detgraph.tasks.ranking import Ranking
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
    answered = [row for row in rows if not row["problem"]]
    expected = [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]
    assert [(row["note"], row["rank"]) for row in answered] == expected
    assert [(place, row["problem"]) for place, row in enumerate(rows) if row["problem"]] == [
        (2, "the relation is empty.")
    ]
    assert rows[0]["answer"].startswith("e")


def test_rows_that_cannot_be_answered(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, output = tmp_path / "asked.csv", tmp_path / "out.csv"
    table.write_text("head,relation,tail\ne1,r1,\nnobody,r2,\n,r2,e3\n", encoding="utf-8")
    command = ("predict", run, table, "-o", output, "--top", "1", "--bad-rows")
    assert "2 of 3 questions answered; 1 could not" in det(capsys, *command, "nan").out
    with output.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [bool(row["answer"]) for row in rows] == [True, False, True]
    assert [bool(row["problem"]) for row in rows] == [False, True, False]
    assert "no entity is called 'nobody'" in rows[1]["problem"]
    assert det(capsys, *command, "skip").code == 0
    assert [line.split(",")[0] for line in output.read_text().splitlines()] == ["head", "e1", ""]
    output.unlink()
    answer = det(capsys, *command, "fail")
    assert (answer.code, output.exists()) == (2, False)
    assert "asked.csv:3: no entity is called 'nobody'" in answer.err


def test_answers_to_a_question_can_be_written(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.csv"
    answer = det(capsys, "predict", run, "--head", "e1", "--relation", "r1", "--top", "2", "-o", output)
    assert (answer.code, answer.err) == (0, "")
    with output.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["head"], row["tail"], row["rank"]) for row in rows] == [("e1", "", "1"), ("e1", "", "2")]


def test_what_has_no_effect_is_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "asked.csv"
    table.write_text("head,relation,tail\ne1,r1,\n", encoding="utf-8")
    question = ("--head", "e1", "--relation", "r1")
    for arguments, message in (
        ((table, "--head", "e1"), "for a table of questions: --head"),
        ((table, "--json"), "for a table of questions: --json"),
        ((table, "--prefix", "x"), "for a table of questions: --prefix"),
        ((table, "-o", tmp_path / "." / "asked.csv"), "is the file to read"),
        ((*question, "--bad-rows", "skip"), "for one question: --bad-rows"),
        ((*question, "--json", "-o", tmp_path / "out.csv"), "for one question: --output"),
    ):
        answer = det(capsys, "predict", run, *arguments)
        assert answer.code == 2
        assert message in answer.err
    assert table.read_text() == "head,relation,tail\ne1,r1,\n"


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
    facts.write_text("new\tr1\te4\nnew\tr7\te4\n", encoding="utf-8")
    answer = det(capsys, "predict", str(run), *question, "--facts", str(facts))
    assert "facts.tsv:2: no relation is called 'r7'" in answer.err


def test_mistakes(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "asked.csv"
    for text, message in (
        ("head,relation\ne1,r1\n", "no column 'tail'"),
        ("head,relation,tail\ne1,r1,\ne1,r1,e2\n", "asked.csv:3: a question has a relation and either"),
        ("head,relation,tail\ne1,,\n", "asked.csv:2: the relation is empty"),
    ):
        table.write_text(text, encoding="utf-8")
        answer = det(capsys, "predict", run, table, "-o", tmp_path / "out.csv", "--bad-rows", "fail")
        assert answer.code == 2
        assert message in answer.err
        assert not (tmp_path / "out.csv").exists()
    answer = det(capsys, "predict", str(run))
    assert (answer.code, "name what is asked for" in answer.err) == (2, True)


def test_evaluation_in_parts(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rankings: list[str] = []
    rank = EntityTask.ranking

    def counted(self: EntityTask, split: Split) -> Ranking:
        rankings.append(split)
        return rank(self, split)

    monkeypatch.setattr(EntityTask, "ranking", counted)
    whole = det(capsys, "evaluate", run, "--split", "train", "--json").out
    for by, expected in (("direction", {"tail", "head"}), ("relation", {"r1", "r2"})):
        answer = det(capsys, "evaluate", str(run), "--split", "train", "--by", by, "--json")
        records = [json.loads(line) for line in answer.out.splitlines()]
        assert records[0] == json.loads(whole)
        assert {record["part"] for record in records[1:]} == expected
    assert rankings == ["train"] * 3, "once a command"
    assert "head" in det(capsys, "evaluate", str(run), "--by", "direction").out


def test_relations_of_one_name_are_told_apart() -> None:
    task = grouped_task()
    task.data = replace(task.data, relation_names=("likes", "likes"))
    rows = parts(task, SplitName.test, Part.relation)
    assert set(rows) == {"test", *(f"likes ({relation})" for relation in task.data.relations)}


def test_tables_of_like_names_and_columns(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("my.a.csv", "my.b.csv"):
        (tmp_path / name).write_text("head,relation,tail\ne1,r1,\n")
        assert det(capsys, "predict", str(run), str(tmp_path / name)).code == 0
    assert sorted(path.name for path in tmp_path.glob("*predicted*")) == [
        "my.a-predicted.csv",
        "my.b-predicted.csv",
    ]
    table = tmp_path / "scored.csv"
    table.write_text("head,relation,tail,score\ne1,r1,,3\n")
    answer = det(capsys, "predict", str(run), str(table))
    assert answer.code == 2
    assert "has a column 'score', which the answers are to have. Rename it first" in answer.err
