"""Answers by name: what is known is marked, what is new is read from facts, what is unclear is asked back."""

import pytest
import torch
from builders import entity_task, grouped_task, train, triples

from detgraph.errors import DetError
from detgraph.tasks import EntityTask, GroupedTask
from detgraph.tasks.entity_names import Names
from detgraph.tasks.entity_prediction import Answer, Fact, Oracle, Question


@pytest.fixture(params=[entity_task, grouped_task], scope="module")
def task(request: pytest.FixtureRequest) -> EntityTask:
    torch.manual_seed(0)
    built: EntityTask = request.param()
    train(built, 5)
    return built


def told(task: EntityTask, *facts: Fact) -> Oracle:
    oracle = Oracle(task)
    for fact in facts:
        oracle.learn(fact)
    return oracle


def ask(oracle: Oracle, question: Question, top: int, *, known: bool = False) -> list[Answer]:
    return oracle.answers([oracle.understand(question)], top, known=known)[0]


def test_answers_are_sorted_and_those_of_training_left_out(task: EntityTask) -> None:
    oracle = Oracle(task)
    answers = ask(oracle, Question("entity 3", "relation 0", None), top=99)
    assert [answer.rank for answer in answers] == list(range(1, 12))
    scores = [answer.score for answer in answers]
    assert scores == sorted(scores, reverse=True)
    assert "e4" not in {answer.id for answer in answers}, "e3 – r0 – e4 is a training triple"
    everything = ask(oracle, Question("e3", "r0", None), top=99, known=True)
    assert len(everything) == 12
    assert {answer.id: answer.known for answer in everything}["e4"] == "train"
    assert len(ask(oracle, Question("e3", "r0", None), top=2)) == 2


def test_scores_are_those_of_the_evaluation(task: EntityTask) -> None:
    answers = ask(Oracle(task), Question(None, "r0", "e8"), top=99, known=True)
    with torch.no_grad():
        ranking = task.eval().ranking("test")
    asked = [tuple(row) for row in ranking.asked.tolist()]
    place = asked.index((8, 0 + 2, 2))
    filtered = [answer for answer in answers if answer.known in ("", "test")]
    assert {answer.id: answer.known for answer in answers}["e2"] == "test"
    rank = 1 + [answer.id for answer in filtered].index("e2")
    assert rank == pytest.approx(float(ranking.ranks[place]))


@pytest.mark.parametrize("question", [Question(None, "r0", None), Question("e1", "r0", "e2")])
def test_one_end_is_asked_for(task: EntityTask, question: Question) -> None:
    with pytest.raises(DetError, match="either a head or a tail"):
        ask(Oracle(task), question, 1)


def test_a_new_entity_is_read_from_its_facts() -> None:
    torch.manual_seed(0)
    task = grouped_task(training={"batch_size": 64, "label_smoothing": 0, "sn_weight": 0.01})
    train(task, 150)
    # e2's own triples, told of an entity without an embedding, but for the one that is asked for.
    facts = [("new", "r1", "e4"), ("e1", "r0", "new"), ("e0", "r1", "new")]
    oracle = told(task, *facts)
    answers = ask(oracle, Question("new", "r0", None), top=3)
    assert answers == ask(told(task, *facts, facts[0]), Question("new", "r0", None), top=3)  # said twice
    assert "e3" in {answer.id for answer in answers}
    assert "e4" not in {answer.id for answer in ask(oracle, Question("new", "r1", None), top=99)}


def test_facts_that_say_nothing(task: EntityTask) -> None:
    with pytest.raises(DetError, match="both of its entities are known"):
        told(task, ("e1", "r0", "e5"))
    with pytest.raises(DetError, match=r"none of its entities are known.*Similar: entity 5 \(e5\)"):
        told(task, ("new", "r0", "entty 5"))
    with pytest.raises(DetError, match="no relation is called 'r9'"):
        told(task, ("new", "r9", "e1"))
    with pytest.raises(DetError, match=r"no entity is called 'new'.*tell of it with --facts"):
        ask(Oracle(task), Question("new", "r0", None), 1)


def test_a_relation_that_no_training_triple_has(task: EntityTask) -> None:
    oracle = Oracle(task)
    oracle.asked_before.discard(1)
    with pytest.raises(DetError, match="no training triple has 'r1', so the run knows nothing of it"):
        ask(oracle, Question("e1", "r1", None), 1)


def test_an_entity_that_no_training_triple_has_is_new(task: EntityTask) -> None:
    question = Question("entity 11", "r0", None)
    with pytest.raises(DetError, match=r"no training triple has 'entity 11'.*--facts"):
        ask(Oracle(task), question, 1)
    oracle = told(task, ("e11", "r1", "e4"), (" ENTITY 10 ", "r0", "Entity 11"))
    if not isinstance(task, GroupedTask):
        with pytest.raises(DetError, match="composition=complex"):
            ask(oracle, question, 1)
        return
    answers = {answer.id: answer.known for answer in ask(oracle, question, 99, known=True)}
    assert answers["e3"] == "valid"
    assert {a.id: a.known for a in ask(oracle, Question("e11", "r1", None), 99, known=True)}["e4"] == "train"


def test_new_names_are_the_same_in_any_case() -> None:
    task = grouped_task()
    oracle = told(task, ("New Studio", "r0", "e1"), ("new studio", "r1", "e2"))
    assert len(oracle.new) == 1
    assert len(ask(oracle, Question(" NEW studio", "r0", None), 3)) == 3


def test_many_questions_are_answered_as_one_by_one(task: EntityTask) -> None:
    oracle = Oracle(task)
    asked = [
        oracle.understand(question)
        for number in (7, 3, 7, 0, 10)
        for question in (Question(f"e{number}", "r0", None), Question(None, "r1", f"e{number}"))
    ]
    for one, answers in zip(asked, oracle.answers(asked, 4), strict=True):
        (alone,) = oracle.answers([one], 4)
        assert [answer.id for answer in answers] == [answer.id for answer in alone]
        assert [a.score for a in answers] == pytest.approx([a.score for a in alone], abs=1e-5)


def test_names() -> None:
    names = Names("entity", ["1", "2", "3", "4"], ["travel, go far", "travel, a journey", "Nintendo", "Sega"])
    assert names.find("3") == names.find("nintendo") == names.find(" Nintendo ") == 2
    assert names.find("travel, a journey") == 1
    with pytest.raises(
        DetError, match=r"2 entity names are 'travel'.*travel, go far \(1\), travel, a journey \(2\)"
    ):
        names.find("travel")
    with pytest.raises(DetError, match=r"no entity is called 'Nintedo'\. Similar: Nintendo \(3\)"):
        names.find("Nintedo")
    with pytest.raises(DetError, match=r"Similar: Nintendo \(3\)"):
        names.find("tendo")
    assert names.label(3) == "Sega (4)"
    assert Names("entity", ["1", "2"], ["Paris, Texas", "Paris"]).find("paris") == 1, (
        "a whole name goes first"
    )
    assert triples([(0, 0, 1)]).entity_names[0] == "entity 0"
