"""Learning along paths: the loss against all entities, no leaks, and what a new entity gets."""

import numpy as np
import pytest
import torch
from builders import grouped_task, train, triples
from torch.nn import functional

from detgraph.tasks import GroupedTask
from detgraph.tasks import paths as module
from detgraph.tasks.base import Split
from detgraph.tasks.contexts import queries
from detgraph.tasks.paths import TOGETHER, AskedAgain, Paths

PATHS = {"path_hops": 2, "path_channels": 8}
# r2 leads where r0 and then r1 lead: entities 0–9, 10–19, 20–29.
CHAIN = [(i, 0, 10 + i) for i in range(10)] + [(10 + i, 1, 20 + i) for i in range(10)]
RULE = [(i, 2, 20 + i) for i in range(10)]


def path_task(**changes: object) -> GroupedTask:
    return grouped_task(model={**PATHS, **changes}, training={"path_batch": 4})


def asked_again(paths: Paths, number: int) -> AskedAgain:
    return AskedAgain.whole(paths.questions, np.array([number]))


def test_draws_answers_of_questions_without_repetition() -> None:
    hub = triples([(0, 0, i) for i in range(1, 9)] + [(9, 1, 10)])
    paths, sizes = grouped_task(hub, model=PATHS).paths, set()
    for _ in range(20):
        drawn = paths.draw(5)
        for q, number in enumerate(drawn.question):
            answers = drawn.answer[drawn.start[q] : drawn.start[q + 1]].tolist()
            known = paths.questions.answer[paths.questions.start[number] : paths.questions.start[number + 1]]
            assert len(set(answers)) == len(answers) == min(TOGETHER, len(known))
            assert set(answers) <= set(known.tolist())
            sizes.add(len(answers))
    assert sizes == {1, TOGETHER}


@pytest.mark.parametrize("mask", ["pair", "triple"])
def test_loss_is_that_among_all_entities_but_other_answers(mask: str) -> None:
    task = path_task(mask=mask)
    paths, model = task.paths, task.model.paths
    assert model is not None
    torch.manual_seed(1)
    asked = paths.draw(6)
    losses = []
    with torch.no_grad():
        for q, number in enumerate(asked.question):
            mine = asked.answer[asked.start[q] : asked.start[q + 1]]
            one = AskedAgain(asked.question[q : q + 1], np.array([0, len(mine)]), mine)
            source, relation = (part[[number]] for part in (paths.questions.source, paths.questions.relation))
            found = paths.reach(source, relation, hidden=one)
            scores = torch.zeros(paths.entities)
            scores[found.entity] = model(found, torch.from_numpy(relation))
            known = paths.questions.answers(np.array([number]))[1]
            for answer in mine:
                others = np.setdiff1d(known, answer)
                rest = scores.index_fill(0, torch.from_numpy(others), -torch.inf)
                losses.append(functional.cross_entropy(rest, torch.tensor(answer)))
        torch.testing.assert_close(paths.loss(model, asked), torch.stack(losses).mean())


def test_a_sample_of_rivals_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """exp(loss) − 1 is the sum over rivals by the answer's: with a sample, the same on average."""
    task = path_task()
    model = task.model.paths
    assert model is not None
    one = asked_again(task.paths, 3)
    assert len(one.answer) == 1
    with torch.no_grad():
        whole = task.paths.loss(model, one).expm1()
        monkeypatch.setattr(module, "RIVALS", 4)
        sampled = torch.stack([task.paths.loss(model, one).expm1() for _ in range(1500)])
    assert (sampled.mean() - whole).abs() < 4 * sampled.std() / 1500**0.5


@pytest.mark.parametrize("mask", ["pair", "triple"])
def test_no_path_leads_over_the_asked_triple(mask: str) -> None:
    """A star whose centre is asked for each tip: without the asked edge, the tip is out of reach."""
    star = triples([(0, 0, i) for i in range(1, 8)])
    paths = grouped_task(star, model={**PATHS, "path_hops": 3, "mask": mask}).paths
    for number, (source, relation) in enumerate(
        zip(paths.questions.source, paths.questions.relation, strict=True)
    ):
        one = asked_again(paths, number)
        found = paths.reach(np.array([source]), np.array([relation]), hidden=one)
        assert found.entity.tolist() == [source]


def test_with_pairs_hidden_no_other_edge_of_the_pair_is_seen() -> None:
    twice = triples([(0, 0, 1), (0, 1, 1)])
    for mask, reached in (("triple", [0, 1]), ("pair", [0])):
        paths = grouped_task(twice, model={**PATHS, "mask": mask}).paths
        found = paths.reach(np.array([0]), np.array([0]), hidden=asked_again(paths, 0))
        assert found.entity.tolist() == reached


def test_learns_a_rule_and_applies_it_to_entities_without_that_relation() -> None:
    task = grouped_task(
        triples([*CHAIN, *RULE[:7]], RULE[7:], entities=30, relations=3),
        model={**PATHS, "path_channels": 16, "channels": 4},
        training={"path_batch": 16},
    )
    train(task, 60)
    with torch.no_grad():
        assert task.evaluate("valid")["hits@3"] > 0.9


def test_rankings_of_training_triples_hide_what_is_asked() -> None:
    """`det evaluate --split train`: no question is answered by its own edge."""
    star = triples([(0, 0, i) for i in range(1, 8)])
    task = grouped_task(star, model=PATHS).eval()
    scores = torch.zeros(1, 12)
    assert task.model.paths is not None
    task.paths.add(task.model.paths, scores, np.array([3]), np.array([2]), np.array([3]))
    assert scores.nonzero()[:, 1].tolist() == [3]  # itself alone


@pytest.mark.parametrize("split", ["train", "valid"])
def test_rankings_add_to_each_question_what_its_own_paths_say(split: Split) -> None:
    """Many questions in several blocks, as one by one."""
    task = path_task().eval()
    asked = queries(getattr(task.data, split), 2)
    model = task.model.paths
    assert model is not None
    with torch.no_grad():
        whole = list(task.model_scores(asked, split))
        task.model.paths = None
        alone = list(task.model_scores(asked, split))
        rows = 0
        for with_paths, without in zip(whole, alone, strict=True):
            _, first = np.unique(with_paths.row, return_index=True)
            for row, (source, relation, _) in enumerate(with_paths.asked[first]):
                own = np.flatnonzero(
                    (task.questions.source == source) & (task.questions.relation == relation)
                )
                expected = torch.zeros(1, task.paths.entities)
                hidden = own if split == "train" else None
                task.paths.add(model, expected, np.array([source]), np.array([relation]), hidden)
                gain = with_paths.scores[row] - without.scores[row]
                torch.testing.assert_close(gain, expected[0], atol=1e-5, rtol=1e-5)
                rows += 1
    assert rows == (44 if split == "train" else 4)


def test_a_new_entity_walks_as_if_training_had_its_triples() -> None:
    task = path_task()
    grown = task.paths.with_new(np.array([0, 3]), np.array([2, 5]))
    facts = np.array([(12, 0, 2), (5, 1, 12)])
    there = grouped_task(triples(np.concatenate([task.data.train, facts]), entities=13), model=PATHS).paths
    for source, relation in ((12, 1), (4, 2)):
        one, other = (part.reach(np.array([source]), np.array([relation])) for part in (grown, there))
        assert one.entity.tolist() == other.entity.tolist()
        for hop, expected in zip(one.hops, other.hops, strict=True):
            assert sorted(zip(*hop.edges(), strict=True)) == sorted(zip(*expected.edges(), strict=True))


def test_paths_belong_to_the_structural_half() -> None:
    twin = path_task(tau=1)
    assert twin.model.paths is not None
    assert "paths" in twin(next(twin.batches(0)))
    assert grouped_task().model.paths is None


def test_a_new_entity_is_scored_along_its_paths() -> None:
    task = path_task().eval()
    facts = np.array([0]), np.array([2])
    with torch.no_grad():
        whole = task.scores_of_new(*facts, asked=1)
        walked, task.model.paths = task.model.paths, None
        alone = task.scores_of_new(*facts, asked=1)
        assert walked is not None
        grown = task.paths.with_new(*facts)
        found = grown.reach(np.array([12]), np.array([1]))
        expected = torch.zeros(13)
        expected[found.entity] = walked(found, torch.tensor([1]))
    torch.testing.assert_close(whole - alone, expected[:-1], atol=1e-5, rtol=1e-5)
