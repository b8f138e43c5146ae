"""Models of others for knowledge graphs, from PyKEEN: a question in, scores of entities out.

PyKEEN compares all pairs, number by number. Here a score is the product of a question and a tail, or their
distance, which is made of one.
"""

import logging
import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
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

DISTANCES = ("transe", "rotate")  # a score is minus the distance to the tail; else a product with it
TABLES = ("complex", "tucker")  # a row of nil scores nil, whatever is asked


class Embedded(NamedTuple):
    """What a model knows of the parts of some questions; complex numbers where it has them."""

    heads: Tensor  # (questions, channels)
    relations: Tensor  # (questions, relation channels)
    tails: Tensor  # (candidates, channels)


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
        self.relations, self.name = len(data.relations), config.name
        self.inner = getattr(models, CLASSES[config.name])(
            triples_factory=factory, random_seed=seed, **options(config)
        )
        if config.name == "compgcn":
            for layer in self.inner.entity_representations[0].combined.layers:
                add_before_multiplying(layer)
        if config.name in TABLES:
            # Who is never seen is neither a likely answer nor an unlikely one, as in DET.
            unseen = np.setdiff1d(np.arange(len(data.entities)), data.train[:, [0, 2]])
            with torch.no_grad():
                self.inner.entity_representations[0]._embeddings.weight[torch.from_numpy(unseen)] = 0

    def forward(self, source: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Tensor:
        """Scores of candidates, (questions, candidates); None = all entities.

        Args:
            source: (questions,) entities.
            relation: (questions,) r + R asks for the head.
            candidates: (candidates,) entities.
        """
        parts = self.embed(source, relation, candidates)
        return self.compare(self.states(parts), real(parts.tails))

    def embed(self, source: Tensor, relation: Tensor, candidates: Tensor | None = None) -> Embedded:
        """All parts of some questions; entities are read at once, as each reading has its own gradient."""
        entity, by = self.inner.entity_representations[0], self.inner.relation_representations[0]
        # PyKEEN has each relation and its inverse side by side.
        relations = by(2 * (relation % self.relations) + relation // self.relations)
        if candidates is None:
            tails = entity(None)
            return Embedded(tails[source], relations, tails)
        tails, heads = entity(torch.cat([candidates, source])).split([len(candidates), len(source)])
        return Embedded(heads, relations, tails)

    def states(self, parts: Embedded) -> Tensor:
        """What is compared with tails, (questions, channels)."""
        heads, relations = parts.heads, parts.relations
        if self.name == "transe":
            return heads + relations
        if self.name == "tucker":
            units = torch.eye(heads.size(1), device=heads.device)[None]
            out: Tensor = self.inner.interaction(h=heads[:, None], r=relations[:, None], t=units)
            return out
        return real(heads * relations)

    def compare(self, states: Tensor, tails: Tensor) -> Tensor:
        """Scores, (questions, tails)."""
        product = states @ tails.t()
        if self.name not in DISTANCES:
            return product
        squares = states.square().sum(dim=1, keepdim=True) + tails.square().sum(dim=1)
        return -(squares - 2 * product).clamp(min=1e-9).sqrt()

    def after_step(self) -> None:
        """What the model does to its parameters after an update, e.g. bring them back to length one."""
        with torch.no_grad():
            self.inner.post_parameter_update()


def options(config: EntityBaseline) -> dict[str, Any]:
    """How PyKEEN's class is made; it counts complex numbers, and its defaults are for other losses."""
    size: dict[str, Any] = {"embedding_dim": config.channels}
    if config.name == "transe":  # L2 without normalisation, as LibKGE found best
        return size | {
            "scoring_fct_norm": 2,
            "entity_constrainer": None,
            "relation_initializer": "xavier_uniform_",
        }
    if config.name == "rotate":
        return {"embedding_dim": config.channels // 2}
    if config.name == "complex":
        small = partial(nn.init.normal_, std=0.05)
        start = {"entity_initializer": small, "relation_initializer": small}
        return {"embedding_dim": config.channels // 2, "regularizer": None, **start}
    if config.name == "tucker":
        dropouts = {f"dropout_{place}": rate for place, rate in enumerate(config.dropouts)}
        return size | {"relation_dim": config.relation_channels, **dropouts}
    table = {"embedding_dim": config.channels, "initializer": "xavier_normal_"}
    layer = {"dropout": config.dropout, "activation": "tanh"}
    return {"encoder_kwargs": {"entity_representations_kwargs": table, "layer_kwargs": layer}}


def real(x: Tensor) -> Tensor:
    """(rows, channels) of real numbers; of complex ones first all real parts, then the imaginary ones."""
    return torch.cat([x.real, x.imag], dim=1) if x.is_complex() else x


def add_before_multiplying(layer: Any) -> None:
    """Let a convolution of CompGCN add its messages first: one product for each entity, not for each edge."""
    weighting, known = layer.edge_weighting, dict[int, Tensor]()

    def message(x_e: Tensor, x_r: Tensor, edge_index: Tensor, edge_type: Tensor, weight: Tensor) -> Tensor:
        source, target = edge_index
        if not known:  # the same for edges and their inverses, and in every step
            known[0] = weighting(source=source, target=target)[:, None]
        messages = layer.composition(x_e[source], x_r[edge_type]) * known[0]
        out: Tensor = layer.drop(torch.zeros_like(x_e).index_add(0, target, messages) @ weight)
        return out

    layer.message = message
