"""Answers by name: what is known is marked, what is new is read from facts, what is unclear is asked back."""

import pytest
import torch
from builders import entity_task, grouped_task, train, triples

from detgraph.errors import DetError
from detgraph.tasks import EntityTask
from detgraph.tasks.entity_names import Names
from detgraph.tasks.entity_prediction import Oracle, Question


@pytest.fixture(params=[entity_task, grouped_task], scope="module")
def task(request: pytest.FixtureRequest) -> EntityTask:
    torch.manual_seed(0)
    built: EntityTask = request.param()
    train(built, 5)
    return built


def test_answers_are_sorted_and_those_of_training_left_out(task: EntityTask) -> None:
    oracle = Oracle(task)
    answers = oracle.answer(Question("entity 3", "relation 0", None), top=99)
    assert [answer.rank for answer in answers] == list(range(1, 12))
    scores = [answer.score for answer in answers]
    assert scores == sorted(scores, reverse=True)
    assert "e4" not in {answer.id for answer in answers}, "e3 – r0 – e4 is a training triple"
    everything = oracle.answer(Question("e3", "r0", None), top=99, known=True)
    assert len(everything) == 12
    assert {answer.id: answer.known for answer in everything}["e4"] == "train"
    assert len(oracle.answer(Question("e3", "r0", None), top=2)) == 2


def test_scores_are_those_of_the_evaluation(task: EntityTask) -> None:
    answers = Oracle(task).answer(Question(None, "r1", "e11"), top=99, known=True)
    with torch.no_grad():
        ranking = task.eval().ranking("test")
    asked = [tuple(row) for row in ranking.asked.tolist()]
    place = asked.index((11, 1 + 2, 4))
    filtered = [answer for answer in answers if answer.known in ("", "test")]
    assert {answer.id: answer.known for answer in answers}["e4"] == "test"
    rank = 1 + [answer.id for answer in filtered].index("e4")
    assert rank == pytest.approx(float(ranking.ranks[place]))


@pytest.mark.parametrize("question", [Question(None, "r0", None), Question("e1", "r0", "e2")])
def test_one_end_is_asked_for(task: EntityTask, question: Question) -> None:
    with pytest.raises(DetError, match="either a head or a tail"):
        Oracle(task).answer(question, 1)


def test_a_new_entity_is_read_from_its_facts() -> None:
    torch.manual_seed(0)
    task = grouped_task(training={"batch_size": 64, "label_smoothing": 0, "sn_weight": 0.01})
    train(task, 150)
    # e2's own triples, told of an entity without an embedding, but for the one that is asked for.
    facts = [("new", "r1", "e4"), ("e1", "r0", "new"), ("e0", "r1", "new")]
    oracle = Oracle(task, facts)
    told = oracle.answer(Question("new", "r0", None), top=3)
    assert "e3" in {answer.id for answer in told}
    assert "e4" not in {answer.id for answer in oracle.answer(Question("new", "r1", None), top=99)}


def test_facts_that_say_nothing(task: EntityTask) -> None:
    with pytest.raises(DetError, match="both of its entities are known"):
        Oracle(task, [("e1", "r0", "e5")])
    with pytest.raises(DetError, match="none of its entities are known"):
        Oracle(task, [("new", "r0", "newer")])
    with pytest.raises(DetError, match="no relation is called 'r9'"):
        Oracle(task, [("new", "r9", "e1")])
    with pytest.raises(DetError, match=r"no entity is called 'new'.*tell of it with --facts"):
        Oracle(task).answer(Question("new", "r0", None), 1)


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
    assert triples([(0, 0, 1)]).entity_names[0] == "entity 0"
