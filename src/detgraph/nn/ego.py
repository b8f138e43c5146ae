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
    relation: Tensor  # (batch,) relation, r + R for the inverse of r
    neighbors: Tensor  # (batch, structural) entities
    neighbor_relations: Tensor  # (batch, structural)
    semantic: Tensor  # (batch, semantic) entities
    answer: Tensor  # (batch,) entity


class EgoDET(nn.Module):
    """A query → triple encoder → DET over [c, query, N, S] → a score for every entity.

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
    ) -> None:
        super().__init__()
        self.entity = nn.Embedding(entities, channels)
        self.relation = nn.Embedding(2 * relations + 1, channels)  # the last one leads to semantic neighbours
        self.unknown = nn.Parameter(torch.randn(channels) * 0.02)  # the tail asked for
        self.context = nn.Parameter(torch.randn(channels) * 0.02)
        self.role = nn.Parameter(torch.randn(4, channels) * 0.02)  # context, query, structural, semantic
        self.triple = TripleEncoder(channels, heads, triple_layers, ffn_channels, encoding.dropout)
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
        candidates = self.score_dropout(self.entity.weight)
        scores: Tensor = self.encode(batch) @ candidates.t()
        return scores

    def encode(self, batch: EgoBatch) -> Tensor:
        """The context token's state, (batch, channels)."""
        size, structural = batch.neighbors.shape
        others = torch.cat([batch.neighbors, batch.semantic], dim=1)
        exists = others >= 0
        others_state = self.entity(others.clamp(min=0))
        leads = torch.full_like(batch.semantic, self.relation.num_embeddings - 1)
        relations = torch.cat([batch.relation[:, None], batch.neighbor_relations.clamp(min=0), leads], dim=1)
        source = self.entity(batch.source)[:, None]  # (batch, 1, channels)

        tails = torch.cat([self.unknown.expand_as(source), others_state], dim=1)
        triples = self.triple(
            source.expand_as(tails).flatten(0, 1), self.relation(relations).flatten(0, 1), tails.flatten(0, 1)
        ).view_as(tails)
        tokens = torch.cat([self.context.expand_as(source), triples], dim=1)  # (batch, 2 + N + S, channels)
        roles = torch.cat(
            [
                self.role[:2],
                self.role[2:].repeat_interleave(
                    torch.tensor([structural, batch.semantic.size(1)], device=tokens.device), dim=0
                ),
            ]
        )

        always = exists.new_ones((size, 2))
        union = torch.cat([always, exists], dim=1)
        near = union.clone()
        near[:, 2 + structural :] = False
        neighborhood = Dense.from_mask(near, union)
        # ⊖ compares entities: the context token and the query stand for the source.
        states = torch.cat([source, source, others_state], dim=1)
        encoded = self.det(self.norm(tokens + roles), neighborhood, semantic_states=states, first=1)
        out: Tensor = encoded.x[:, 0]
        return out
