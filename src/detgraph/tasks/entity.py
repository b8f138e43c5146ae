"""Entity prediction: the missing end of a triple, ranked among all entities."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from detgraph.config import EntityConfig
from detgraph.data.triples import Triples
from detgraph.neighbors import SemanticNeighbors
from detgraph.neighbors.exact import search_space
from detgraph.nn.model import DET
from detgraph.nn.neighborhood import Sparse
from detgraph.nn.network import pair_weights
from detgraph.nn.semantic import SemanticOperator, neighbor_loss
from detgraph.tasks.base import Metrics, Split, Task
from detgraph.tasks.contexts import queries
from detgraph.tasks.groups import Questions
from detgraph.tasks.ranking import KnownAnswers, Ranking, ranks
from detgraph.tasks.rivals import Rivals
from detgraph.tasks.votes import Votes


class Scored(NamedTuple):
    """Some queries with the scores of all entities."""

    scores: Tensor  # (rows, entities)
    asked: NDArray[np.int64]  # (queries, 3): source, relation, answer
    row: NDArray[np.int64]  # (queries,)


class EntityTask(Task):
    """What all models of triples have in common: data, ranking, and the search for semantic neighbours.

    Args:
        data: the triples.
        config: of the run.
        model: scores entities; has ``entity``, a table of all entities, and ``det``.
    """

    metric = "mrr"
    higher_is_better = True

    def __init__(self, data: Triples, config: EntityConfig, model: nn.Module) -> None:
        super().__init__(config.seed, data.notes)
        self.data, self.config, self.model = data, config, model
        self.questions = Questions.of(data.train, len(data.relations))
        self.known = KnownAnswers(np.concatenate([data.train, data.valid, data.test]), len(data.relations))
        self.schedule = config.neighbors.schedule()
        wanted, entities = config.training.candidates, len(data.entities)
        seen = np.unique(data.train[:, [0, 2]])
        # Others never compete: nothing but pushing them away would be learned.
        few = min(wanted or entities, len(seen))
        self.rivals = Rivals(seen, few) if few < entities else None
        training = config.training
        plain = training.optimizer == "adagrad" and not training.weight_decay and training.clip_norm is None
        # Adagrad does not move entities that a step has not seen: their rows can be left out.
        self.by_rows = plain and few < len(seen)
        if self.by_rows:
            # They hold; silences a warning.
            torch.sparse.check_sparse_tensor_invariants.disable()  # type: ignore[no-untyped-call]  # torch
            for module in model.modules():
                if isinstance(module, nn.Embedding) and module.num_embeddings == entities:
                    module.sparse = True
        edges = torch.from_numpy(np.unique(data.train[:, [0, 2]], axis=0).T.copy())
        edges = torch.cat([edges, edges.flip(0)], dim=1)
        keys = edges[0] * entities + edges[1]
        self.linked_keys = torch.cat([keys, torch.arange(entities) * (entities + 1)]).unique()  # type: ignore[no-untyped-call]  # torch
        k = config.neighbors.k if config.model.tau != 1 and config.baseline is None else 0
        # Nothing is learned of an entity that no training triple has: it would be near by chance.
        self.neighbors = SemanticNeighbors(
            k, edges, entities, config.neighbors.backend, members=torch.from_numpy(seen)
        )

    @abstractmethod
    def model_scores(self, asked: NDArray[np.int64], split: Split) -> Iterator[Scored]:
        """What the model says to queries (source, relation, answer) of a split, a block at a time."""

    def scored(self, asked: NDArray[np.int64], split: Split) -> Iterator[Scored]:
        """Scores for queries of a split, a block at a time: the model's, and votes of similar entities."""
        votes = self.votes()
        for block in self.model_scores(asked, split):
            if votes is not None:
                add_votes(votes, block)
            yield block

    def votes(self) -> Votes | None:
        """Who votes, by the present embeddings.

        Votes are part of the semantic half, and go with what it fetches: None where nothing is.
        """
        model = self.config.model
        if not self.neighbors.k or not model.votes:
            return None
        return Votes(self.questions, self.table, model.votes, model.vote_sharpness)

    def ranking(self, split: Split) -> Ranking:
        """Filtered ranks of both ends of every triple of ``split`` among all entities."""
        relations, votes = len(self.data.relations), self.votes()
        asked = queries(getattr(self.data, split), relations)
        parts, found, alone, done = [], [], [], 0
        for block in self.model_scores(asked, split):
            done += len(block.asked)
            self.watch(done, len(asked))
            if votes is not None:
                alone.append(ranks(block.scores, block.asked, self.known, block.row))
                add_votes(votes, block)
            parts.append(block.asked)
            found.append(ranks(block.scores, block.asked, self.known, block.row))
        without = torch.cat(alone) if alone else None
        return Ranking(np.concatenate(parts), torch.cat(found), relations, without)

    @torch.no_grad()
    def evaluate(self, split: Split) -> Metrics:
        """Mean reciprocal rank and the like, over both directions."""
        self.eval()
        return self.ranking(split).metrics()

    def neighbor_loss(
        self, source: Tensor, neighbors: Tensor, states: Tensor, entities: Tensor | None = None
    ) -> Tensor:
        """``L_sn`` of sources and their neighbours, against as many random unlinked pairs.

        Args:
            source: (nodes,) rows of ``states``.
            neighbors: (nodes, size) rows of ``states``, -1 = none.
            states: (rows, channels).
            entities: (rows,) which entity each row is; default: all entities in their order.
        """
        exists, rows = neighbors >= 0, len(states)
        center = source[:, None].expand_as(neighbors)[exists]
        drawn = torch.randint(rows, center.shape, device=center.device)
        number = torch.arange(rows, device=center.device) if entities is None else entities
        distant = ~self.linked(number[center].cpu(), number[drawn].cpu()).to(center.device)
        # ⊖ scales all states it is given: only those of these pairs.
        ends = (center, neighbors[exists], center[distant], drawn[distant])
        used, place = torch.cat(ends).unique(return_inverse=True)  # type: ignore[no-untyped-call]  # torch
        parts, compared = place.split([len(end) for end in ends]), states.index_select(0, used)[:, None]
        near = Sparse.from_pairs(parts[0], parts[1], len(used))
        far = Sparse.from_pairs(parts[2], parts[3], len(used))
        return neighbor_loss(
            self.operator(compared, near),
            pair_weights(near.target, len(used)),
            self.operator(compared, far),
            pair_weights(far.target, len(used)),
            self.config.training.sn_loss,
        )

    @property
    def wants_neighbor_loss(self) -> bool:
        """Whether L_sn is part of the loss."""
        return self.config.model.tau != 1 and self.config.training.sn_weight > 0

    @property
    def operator(self) -> SemanticOperator:
        """The ⊖ that compares entities."""
        det = self.model.det
        assert isinstance(det, DET)
        assert det.operator is not None
        return det.operator

    @property
    def table(self) -> Tensor:
        """What ⊖ compares: (entities, channels)."""
        embedding = self.model.entity
        assert isinstance(embedding, nn.Embedding)
        return embedding.weight

    def leave_out(self, neighbors: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """The same neighbours, (rows, size), but for a random share, which is -1 then."""
        rate = self.config.training.context_dropout
        return np.where(rng.random(neighbors.shape) < rate, -1, neighbors) if rate else neighbors

    def linked(self, source: Tensor, other: Tensor) -> Tensor:
        """Whether a training triple links each pair, or both are the same entity."""
        wanted = source * len(self.data.entities) + other
        place = torch.searchsorted(self.linked_keys, wanted).clamp(max=len(self.linked_keys) - 1)
        found: Tensor = self.linked_keys[place] == wanted
        return found

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Tables of entities and relations, and all else, which may learn more slowly."""
        tables = [module.weight for module in self.model.modules() if isinstance(module, nn.Embedding)]
        known = {id(table) for table in tables}
        others = [parameter for parameter in self.parameters() if id(parameter) not in known]
        rows = {"fused": False} if self.by_rows else {}  # Adagrad's one pass cannot leave rows out
        return [{"params": tables, **rows}, {"params": others, "scale": self.config.training.encoder_rate}]

    def start_epoch(self, epoch: int) -> None:
        """Search the entity table where that is due; before the warm-up's end nothing is fetched."""
        if self.neighbors.k and self.schedule.due(epoch) == "learned":
            with torch.no_grad():
                self.neighbors.search(search_space(self.operator, self.table[self.neighbors.members, None]))

    def neighbor_state(self) -> dict[str, Tensor]:
        """(entities, k)."""
        return {"entities": self.neighbors.found}

    def load_neighbor_state(self, state: dict[str, Tensor]) -> None:
        """Put back the fetched entities."""
        self.neighbors.restore(state["entities"])

    def has(self, split: Split) -> bool:
        """Whether ``split`` has triples."""
        return len(getattr(self.data, split)) > 0

    def trivial(self, split: Split) -> float:
        """MRR of ranking entities by how often they answer in training, whatever the question."""
        relations = len(self.data.relations)
        trained = queries(self.data.train, relations)
        count = torch.from_numpy(np.bincount(trained[:, 2], minlength=len(self.data.entities))).float()
        asked = queries(getattr(self.data, split), relations)
        found = ranks(count[None], asked, self.known, np.zeros(len(asked), np.int64))
        return Ranking(asked, found, relations).metrics()["mrr"]

    def vocabulary(self) -> dict[str, Any]:
        """Ids and human names of entities and relations."""
        return {
            "entities": list(self.data.entities),
            "relations": list(self.data.relations),
            "entity_names": list(self.data.entity_names),
            "relation_names": list(self.data.relation_names),
        }

    def fingerprint(self) -> str:
        """Names and triples."""
        data = self.data
        return self.digest("\n".join((*data.entities, *data.relations)), data.train, data.valid, data.test)

    def describe(self) -> str:
        """Counts of triples, entities and relations."""
        data = self.data
        return (
            f"{data.name}: {len(data.train):,} / {len(data.valid):,} / {len(data.test):,} triples to train / "
            f"validate / test, {len(data.entities):,} entities, {len(data.relations):,} relations"
        )


def add_votes(votes: Votes, block: Scored) -> None:
    """Let similar entities vote on a block, in place."""
    _, first = np.unique(block.row, return_index=True)  # a query of each row
    votes.add(block.scores, *block.asked[first, :2].T)
