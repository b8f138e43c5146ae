"""Entity prediction in a form for CPUs: questions about an entity share its neighbourhood and its answers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from detgraph.config import EntityConfig
from detgraph.data.triples import Triples
from detgraph.nn import GroupBatch, GroupedEgoDET
from detgraph.nn.answer_loss import answer_loss
from detgraph.nn.complex_product import complex_product, cubes
from detgraph.nn.neighborhood import Sparse
from detgraph.nn.paths import PathEncoder
from detgraph.tasks.base import Split
from detgraph.tasks.contexts import distinct_questions
from detgraph.tasks.entity import EntityTask, Scored
from detgraph.tasks.groups import Integers, Surroundings, group
from detgraph.tasks.paths import Paths


class GroupedTask(EntityTask):
    """Triples → GroupedEgoDET, paths → cross-entropy of answers, N3, relation prediction, λ·L_sn."""

    model: GroupedEgoDET

    def __init__(self, data: Triples, config: EntityConfig) -> None:
        model, relations = config.model, len(data.relations)
        hops = model.path_hops
        network = GroupedEgoDET(
            entities=len(data.entities),
            relations=relations,
            channels=model.channels,
            heads=model.heads,
            layers=model.layers,
            ffn_channels=model.ffn_channels,
            encoding=model.encoding(share_layers=True),
            paths=PathEncoder(2 * relations, model.path_channels, hops) if hops else None,
        )
        super().__init__(data, config, network)
        seen = torch.zeros((len(data.entities), 1)).index_fill_(0, self.neighbors.members, 1)
        with torch.no_grad():  # who is never seen is neither a likely answer nor an unlikely one
            network.entity.weight.mul_(seen)
        self.warming_up = False
        self.surroundings = Surroundings(self.questions, len(data.entities), model.max_neighbors, model.mask)
        self.paths = Paths(self.questions, len(data.entities), relations, hops, model.mask)

    def forward(self, batch: GroupBatch) -> dict[str, Tensor]:
        """``main``: of all answers; ``n3``, ``relation``, ``sn`` and ``paths``, each with its weight."""
        training = self.config.training
        entities = self.model.entity(batch.entities)
        # What the encoder adds starts at nil: without it, the model is the same.
        encoded = entities.index_select(0, batch.source) if self.warming_up else self.model(batch, entities)
        sources = encoded.index_select(0, batch.group)  # (questions, channels)
        states = self.model.ask(sources, batch.relation)
        if self.rivals is None:
            candidates, answer, extra = self.table, batch.entities[batch.answer], None
        else:
            candidates, answer, extra = entities[: len(batch.extra)], batch.answer, batch.extra
        smoothing = training.label_smoothing
        losses = {"main": answer_loss(states, candidates, batch.question, answer, smoothing, extra)}
        relation = batch.relation[batch.question]  # (answers,)
        head, tail = sources.index_select(0, batch.question), entities.index_select(0, batch.answer)
        if training.n3:  # of the source as it is encoded: what the encoder adds must not escape
            sizes = cubes(head) + cubes(self.model.relation(relation)) + cubes(tail)
            losses["n3"] = training.n3 * sizes.mean()
        if training.relation_weight:
            losses["relation"] = training.relation_weight * self.relation_loss(head, tail, relation)
        if self.wants_neighbor_loss and not self.warming_up:
            sn = self.neighbor_loss(batch.source, batch.neighbors, entities, batch.entities)
            losses["sn"] = training.sn_weight * sn
        if self.model.paths is not None:
            losses["paths"] = self.paths.loss(self.model.paths, self.paths.draw(training.path_batch))
        return losses

    def relation_loss(self, head: Tensor, tail: Tensor, relation: Tensor) -> Tensor:
        """Cross-entropy of the relation between two entities, by ComplEx's score."""
        real, imaginary = head.chunk(2, dim=-1)
        product = complex_product(torch.cat([real, -imaginary], dim=-1), tail)
        return functional.cross_entropy(product @ self.model.relation.weight[:-1].t(), relation)

    @override
    def parameter_groups(self) -> list[dict[str, Any]]:
        """Tables, the path encoder, and all else."""
        tables, others = super().parameter_groups()
        if self.model.paths is None:
            return [tables, others]
        paths = list(self.model.paths.parameters())
        known = {id(parameter) for parameter in paths}
        others["params"] = [parameter for parameter in others["params"] if id(parameter) not in known]
        return [tables, others, {"params": paths, "scale": self.config.training.path_rate}]

    def steps(self) -> int:
        """Batches an epoch."""
        size = self.config.training.group
        count = np.bincount(self.questions.source)
        return -(-int((-(-count // size)).sum()) // self.groups_a_batch)

    @property
    def groups_a_batch(self) -> int:
        """So many that full groups hold the questions of a batch."""
        return max(1, self.config.training.batch_size // self.config.training.group)

    def batches(self, epoch: int) -> Iterator[GroupBatch]:
        """All training questions; groups are drawn anew in each epoch."""
        rng = self.rng(epoch)
        self.warming_up = epoch < self.config.training.warm_start
        groups = group(self.questions.source, self.config.training.group, rng)
        for start in range(0, len(groups), self.groups_a_batch):
            part = groups[start : start + self.groups_a_batch]
            source = self.questions.source[part[:, 0]]
            around = self.surroundings.of(source, part, seed=int(rng.integers(2**62)))
            asked = part[part >= 0]
            questions = np.nonzero(part >= 0)[0], self.questions.relation[asked]
            yield self.collate(source, around, questions, self.questions.answers(asked), rng)

    def collate(
        self,
        source: Integers,
        around: tuple[Integers, Integers],
        questions: tuple[Integers, Integers],
        answers: tuple[Integers, Integers],
        rng: np.random.Generator | None = None,
    ) -> GroupBatch:
        """Groups with their neighbourhoods.

        Args:
            source: (groups,).
            around: neighbours and their relations, (groups, structural), -1 = none.
            questions: group and relation.
            answers: number of the question, and entity.
            rng: of training; draws what is left out, and rivals if they are to be drawn.
        """
        # S holds no entity linked in training, so never the answer of a training question.
        semantic, near_by = self.neighbors.found[torch.from_numpy(source)].numpy(), around[0]
        if rng is not None:
            near_by, semantic = (self.leave_out(part, rng) for part in (near_by, semantic))
        candidates, extra = np.empty(0, np.int64), np.empty(0, np.float32)
        if rng is not None and self.rivals is not None:
            candidates, extra = self.rivals.draw(answers[1], rng)
        named = (source, near_by, semantic, answers[1])
        others = np.setdiff1d(np.concatenate([part.ravel() for part in named]), np.append(candidates, -1))
        entities = np.concatenate([candidates, others])
        place = np.full(len(self.data.entities) + 1, -1)  # the last one is that of "none", -1
        place[entities] = np.arange(len(entities))
        center, near, distant, answer = (place[part] for part in named)
        arrays = (entities, extra, center, near, around[1], distant, *questions, answers[0], answer)
        return GroupBatch(*map(torch.from_numpy, arrays)).to(self.device)

    def model_scores(self, asked: Integers, split: Split) -> Iterator[Scored]:
        """A row of scores for each distinct question."""
        asked, question, first = distinct_questions(asked)
        source, relation = asked[first, 0], asked[first, 1]
        groups = group(source, self.config.training.group, None)
        nothing = np.empty(0, np.int64), np.empty(0, np.int64)
        for start in range(0, len(groups), self.groups_a_batch):
            part = groups[start : start + self.groups_a_batch]
            center = source[part[:, 0]]
            relations = np.where(part >= 0, relation[part], -1)
            own = self.own_questions(center, relations, split)
            around = self.surroundings.of(center, own, seed=0)
            numbers = part[part >= 0]  # ascending, as the questions are sorted by source
            batch = self.collate(center, around, (np.nonzero(part >= 0)[0], relation[numbers]), nothing)
            sources = self.model(batch, self.model.entity(batch.entities))
            states = self.model.ask(sources[batch.group], batch.relation)
            scores = states @ self.table.t()
            if self.model.paths is not None:
                again = None if own is None else own[part >= 0]
                self.paths.add(self.model.paths, scores, source[numbers], relation[numbers], again)
            here = slice(*np.searchsorted(question, [numbers[0], numbers[-1] + 1]))
            yield Scored(scores, asked[here], question[here] - numbers[0])

    def scores_of_new(self, relations: Integers, neighbors: Integers, asked: int) -> Tensor:
        """Scores of all entities as answers about an entity that has no embedding, only triples.

        Its embedding is what its neighbours say of it: their answers if asked for it, at the usual length.

        Args:
            relations: (facts,) from the new entity to its neighbours.
            neighbors: (facts,) entities.
            asked: the relation in question.
        """
        model, size = self.model, self.config.model.max_neighbors
        near = model.entity(torch.from_numpy(neighbors).to(self.device))
        count = 2 * len(self.data.relations)
        back = torch.from_numpy((relations + count // 2) % count).to(self.device)
        said = complex_product(near, model.relation(back)).mean(dim=0)
        usual = self.table[self.neighbors.members.to(self.device)].norm(dim=1).mean()
        embedding = said * usual / said.norm().clamp(min=1e-12)
        distant = self.nearest(embedding, exclude=torch.from_numpy(neighbors))
        entities = torch.cat([near[:size], self.table[distant], embedding[None]])
        seen = len(near[:size])
        nothing = torch.empty(0, dtype=torch.long)
        batch = GroupBatch(
            entities=nothing,  # their embeddings are given
            extra=torch.empty(0),
            source=torch.tensor([len(entities) - 1]),
            neighbors=torch.arange(seen)[None],
            neighbor_relations=torch.from_numpy(relations)[None, :size],
            semantic=torch.arange(seen, seen + len(distant))[None],
            group=nothing,
            relation=nothing,
            question=nothing,
            answer=nothing,
        )
        source = model(batch.to(self.device), entities)[0]
        scores: Tensor = model.ask(source, torch.tensor(asked, device=self.device)) @ self.table.t()
        if model.paths is not None:
            wider = torch.cat([scores, scores.new_zeros(1)])[None]  # the new entity is the last one
            grown = self.paths.with_new(relations, neighbors)
            grown.add(model.paths, wider, np.array([len(self.table)]), np.array([asked]))
            scores = wider[0, :-1]
        votes = self.votes()
        if votes is not None:
            votes.add_new(scores, embedding, asked)
        return scores

    def nearest(self, embedding: Tensor, exclude: Tensor) -> Tensor:
        """The semantic neighbours of an entity that is in no table, at most (k,)."""
        members = self.neighbors.members
        others = members[~torch.isin(members, exclude)].to(self.device)
        if not self.neighbors.found.size(1) or not len(others):
            return others[:0]
        place = torch.arange(len(others), device=self.device)
        pairs = Sparse.from_pairs(torch.full_like(place, len(others)), place, len(others) + 1)
        states = torch.cat([self.table[others], embedding[None]])[:, None]
        best = self.operator(states, pairs)[:, 0].topk(min(self.neighbors.k, len(others)))
        return others[best.indices]

    def own_questions(self, source: Integers, relations: Integers, split: Split) -> Integers | None:
        """Training questions that are asked again, whose answers must stay hidden; None in other splits."""
        if split != "train":
            return None
        count = 2 * len(self.data.relations)
        keys = self.questions.source * count + self.questions.relation
        wanted = source[:, None] * count + relations
        return np.where(relations >= 0, np.searchsorted(keys, wanted), -1)

    def memory(self) -> int:
        """States of all tokens of a batch, and its scores; states along paths."""
        model, training = self.config.model, self.config.training
        tokens = 1 + model.max_neighbors + self.neighbors.k
        states = tokens * 12 * model.channels * model.layers
        candidates = min(training.candidates or len(self.data.entities), len(self.data.entities))
        whole = 4 * (self.groups_a_batch * states + 3 * training.batch_size * candidates)
        if self.model.paths is None:
            return whole
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)  # the same estimate whenever it is asked for
            nodes = self.paths.nodes(training.path_batch)
        return whole + 4 * 8 * model.path_channels * nodes
