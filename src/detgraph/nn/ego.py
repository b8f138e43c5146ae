"""DET on knowledge graphs: the ego sequence of a query, dense, with HittER's two-level encoder."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from detgraph.nn.model import DET, DualEncoding
from detgraph.nn.neighborhood import Dense
from detgraph.nn.triple import TripleEncoder


class EgoBatch(NamedTuple):
    """Queries (source, relation, ?) with the source's neighbours; id -1 is padding."""

    source: Tensor  # (batch,) entity
    shown: Tensor  # (batch,) entity that is shown in its place, -1 = a mask
    relation: Tensor  # (batch,) relation, r + R for the inverse of r
    neighbors: Tensor  # (batch, structural) entities
    neighbor_relations: Tensor  # (batch, structural)
    semantic: Tensor  # (batch, semantic) entities
    question: Tensor  # (answers,) row of the query
    answer: Tensor  # (answers,) entity
    guess: Tensor  # (guessed,) rows of queries whose source is to be guessed
    candidates: Tensor | None = None  # (competing,) entities that compete in training; None = all
    extra: Tensor | None = None  # (competing,) added to their scores


class EgoDET(nn.Module):
    """A query → triple encoder → DET over [c, query, N, S] → a state, to be compared with all entities.

    In training HittER hides the source of some queries behind a mask or another entity, so that the
    context is read; ⊖ compares the real entities all the same.

    Args:
        entities: number of entities.
        relations: number of relations; each also gets an inverse.
        channels: size of the embeddings.
        heads: attention heads.
        layers: layers of the context Transformer.
        triple_layers: layers of the triple Transformer.
        ffn_channels: hidden size of each FFN.
        encoding: the choices about the two encoders; ⊖ compares entity embeddings.
        score_dropout: on the candidates' embeddings.
        hides_sources: whether sources are ever hidden; else what is shown in their place is not looked at.
    """

    def __init__(
        self,
        *,
        entities: int,
        relations: int,
        channels: int = 64,
        heads: int = 4,
        layers: int = 2,
        triple_layers: int = 1,
        ffn_channels: int = 128,
        encoding: DualEncoding,
        score_dropout: float = 0.0,
        hides_sources: bool = False,
    ) -> None:
        super().__init__()
        self.entity = nn.Embedding(entities, channels)
        self.relation = nn.Embedding(2 * relations + 1, channels)  # the last one leads to semantic neighbours
        self.unknown = nn.Parameter(torch.randn(channels) * 0.02)  # the tail asked for
        self.mask = nn.Parameter(torch.randn(channels) * 0.02) if hides_sources else None
        self.context = nn.Parameter(torch.randn(channels) * 0.02)
        self.role = nn.Parameter(torch.randn(4, channels) * 0.02)  # context, query, structural, semantic
        self.triple = TripleEncoder(
            channels, heads, triple_layers, ffn_channels, encoding.dropout, encoding.attention_dropout
        )
        self.norm = nn.LayerNorm(channels)
        self.det = DET(
            [
                encoding.layer(
                    depth, channels, channels // heads, heads, block="post_norm", ffn_channels=ffn_channels
                )
                for depth in range(layers)
            ],
            operator=encoding.shared_operator(channels),
        )
        self.score_dropout = nn.Dropout(score_dropout)
        for table in (self.entity, self.relation):
            nn.init.normal_(table.weight, std=channels**-0.5)  # scores of about 1 from the start

    def forward(self, batch: EgoBatch) -> Tensor:
        """Scores of all entities, (batch, entities)."""
        scores: Tensor = self.encode(batch)[:, 0] @ self.candidates().t()
        return scores

    def candidates(self, entities: Tensor | None = None) -> Tensor:
        """What states are compared with, (entities, channels); None = all."""
        table: Tensor = self.score_dropout(self.entity.weight if entities is None else self.entity(entities))
        return table

    def source(self, batch: EgoBatch) -> Tensor:
        """The embedding that stands in each query for its source, (batch, 1, channels)."""
        own: Tensor = self.entity(batch.source)
        if self.mask is None:
            return own[:, None]
        other = self.entity(batch.shown.clamp(min=0)).detach()  # not its fault
        state = torch.where((batch.shown == batch.source)[:, None], own, other)
        return torch.where((batch.shown < 0)[:, None], self.mask, state)[:, None]

    def encode(self, batch: EgoBatch) -> Tensor:
        """The states of the context token and of the query, (batch, 2, channels)."""
        size, structural = batch.neighbors.shape
        others = torch.cat([batch.neighbors, batch.semantic], dim=1)
        exists = others >= 0
        others_state = self.entity(others.clamp(min=0))
        leads = torch.full_like(batch.semantic, self.relation.num_embeddings - 1)
        relations = torch.cat([batch.relation[:, None], batch.neighbor_relations.clamp(min=0), leads], dim=1)
        source = self.source(batch)

        tails = torch.cat([self.unknown.expand_as(source), others_state], dim=1)
        real = torch.cat([exists.new_ones((size, 1)), exists], dim=1)  # padding is not encoded
        encoded = self.triple(source.expand_as(tails)[real], self.relation(relations)[real], tails[real])
        triples = encoded.new_zeros(tails.shape).index_put((real,), encoded)
        tokens = torch.cat([self.context.expand_as(source), triples], dim=1)  # (batch, 2 + N + S, channels)
        roles = torch.cat(
            [
                self.role[:2],
                self.role[2:].repeat_interleave(
                    torch.tensor([structural, batch.semantic.size(1)], device=tokens.device), dim=0
                ),
            ]
        )

        union = torch.cat([exists.new_ones((size, 1)), real], dim=1)
        near = union.clone()
        near[:, 2 + structural :] = False
        neighborhood = Dense.from_mask(near, union)
        # ⊖ compares entities: the context token and the query stand for the source.
        itself = self.entity(batch.source)[:, None]
        states = torch.cat([itself, itself, others_state], dim=1)
        out: Tensor = self.det(self.norm(tokens + roles), neighborhood, semantic_states=states, first=2).x
        return out
