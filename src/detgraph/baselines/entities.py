"""Models of others for knowledge graphs, from PyKEEN: a question in, scores of entities out."""

import logging
import warnings
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from detgraph.config.baselines import EntityBaseline
from detgraph.data.triples import Triples
from detgraph.errors import DetError

CLASSES = {
    "transe": "TransE",
    "rotate": "RotatE",
    "tucker": "TuckER",
    "complex": "ComplEx",
    "compgcn": "CompGCN",
}


LINEAR = ("tucker", "compgcn")  # a score is a product with the tail, for which PyKEEN multiplies all pairs


class PykeenModel(nn.Module):
    """A model of PyKEEN on our numbers of entities and relations, trained and evaluated by us.

    The triples are our own: PyKEEN's data sets leave out entities that training never saw.
    """

    def __init__(self, config: EntityBaseline, data: Triples, seed: int) -> None:
        super().__init__()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from pykeen import models
                from pykeen.triples import CoreTriplesFactory
        except ImportError:
            raise DetError(
                f"baseline.name={config.name} comes from PyKEEN: pip install 'detgraph[kg]'."
            ) from None
        logging.getLogger("pykeen").setLevel(logging.ERROR)
        factory = CoreTriplesFactory(
            mapped_triples=torch.from_numpy(data.train),
            num_entities=len(data.entities),
            num_relations=len(data.relations),
            create_inverse_triples=True,
        )
        self.relations, self.linear = len(data.relations), config.name in LINEAR
        options: dict[str, Any] = {"embedding_dim": config.channels}
        if config.name == "complex":
            # PyKEEN counts complex numbers; its own decay and start are for other losses.
            small = partial(nn.init.normal_, std=0.05)
            options = {
                "embedding_dim": config.channels // 2,
                "regularizer": None,
                "entity_initializer": small,
                "relation_initializer": small,
            }
        elif config.name == "rotate":
            options = {"embedding_dim": config.channels // 2}
        self.inner = getattr(models, CLASSES[config.name])(
            triples_factory=factory, random_seed=seed, **options
        )

    def forward(self, source: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        """Scores of candidates, (questions, candidates); None = all entities.

        Args:
            source: (questions,) entities.
            relation: (questions,) r + R asks for the head.
            candidates: (candidates,) entities.
        """
        relation = self.number(relation)
        scores: Tensor
        if not self.linear:
            scores = self.inner.score_t(torch.stack([source, relation], dim=1), tails=candidates)
            return scores
        entity, by = self.inner.entity_representations[0], self.inner.relation_representations[0]
        tails = entity(candidates)  # (candidates, channels)
        units = torch.eye(tails.size(1), device=tails.device)[None]
        states = self.inner.interaction(h=entity(source)[:, None], r=by(relation)[:, None], t=units)
        scores = states @ tails.t()
        return scores

    def number(self, relation: Tensor) -> Tensor:
        """As PyKEEN counts, which has each relation and its inverse side by side."""
        return 2 * (relation % self.relations) + relation // self.relations

    def cubes(self, source: Tensor, relation: Tensor, answer: Tensor) -> Tensor:
        """``Σ_d |x_d|³`` of all three embeddings of ComplEx, (triples,)."""
        entity, by = self.inner.entity_representations[0], self.inner.relation_representations[0]
        parts = (entity(source), by(self.number(relation)), entity(answer))
        return torch.stack([part.abs().pow(3).sum(dim=-1) for part in parts]).sum(dim=0)

    def after_step(self) -> None:
        """What the model does to its parameters after an update, e.g. bring them back to length one."""
        with torch.no_grad():
            self.inner.post_parameter_update()
