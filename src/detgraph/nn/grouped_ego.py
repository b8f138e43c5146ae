"""DET on knowledge graphs in a form for CPUs: several questions about an entity share its neighbourhood."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from detgraph.kernels.dropout import Dropout
from detgraph.nn.complex_product import complex_product
from detgraph.nn.layer import DualEncoderLayer
from detgraph.nn.model import DET, DualEncoding
from detgraph.nn.neighborhood import Dense


class GroupBatch(NamedTuple):
    """Questions (source, relation, ?) in groups about one source each, with all their answers.

    Entities are named by their place in ``entities``, so that a table of all of them is read once. -1 is
    padding. The *asked* questions are numbered one after the other, group by group.
    """

    entities: Tensor  # (local,) every entity of the batch once, then rivals that are met nowhere else in it
    source: Tensor  # (groups,) entity
    relations: Tensor  # (groups, questions) relation, r + R for the inverse of r
    neighbors: Tensor  # (groups, structural) entities
    neighbor_relations: Tensor  # (groups, structural)
    semantic: Tensor  # (groups, semantic) entities
    question: Tensor  # (answers,) number of the question it answers
    answer: Tensor  # (answers,) entity

    def to(self, device: torch.device) -> "GroupBatch":
        """The same on another device."""
        return GroupBatch(*(tensor.to(device) for tensor in self))


class GroupedEgoDET(nn.Module):
    r"""Questions → DET over [questions, N, S] → a state for each question, to be compared with all entities.

    .. math:: h_{ir} = q + \mathrm{DET}(q,\ \{v_j \circ r_{ji}\}_{N(i)},\ \{v_k \circ r_s\}_{S(i)}),
        \quad q = v_i \circ r

    HittER's sequence with ComplEx's product in place of the triple Transformer: a connected neighbour's token
    is the answer it would give itself if asked for the source. Each question attends to itself, N and S; the
    keys and values of these are computed once for all questions of a group. The added part starts at nil, so
    that training starts from ComplEx.

    Args:
        entities: number of entities.
        relations: number of relations; each also gets an inverse.
        channels: size of the embeddings; half of them are imaginary parts.
        heads: attention heads.
        layers: number of layers; between them questions and neighbours attend to each other.
        ffn_channels: hidden size of each FFN.
        encoding: the choices about the two encoders; ⊖ compares entity embeddings.
    """

    def __init__(
        self,
        *,
        entities: int,
        relations: int,
        channels: int,
        heads: int,
        layers: int,
        ffn_channels: int,
        encoding: DualEncoding,
    ) -> None:
        super().__init__()
        self.relations = relations
        self.entity = nn.Embedding(entities, channels)
        self.relation = nn.Embedding(2 * relations + 1, channels)  # the last one leads to semantic neighbours
        self.role = nn.Parameter(torch.zeros(2, channels))  # structural, semantic
        self.input_dropout = Dropout(encoding.dropout)
        self.det = DET(
            [
                encoding.layer(
                    depth, channels, channels // heads, heads, block="pre_norm", ffn_channels=ffn_channels
                )
                for depth in range(layers)
            ],
            operator=encoding.shared_operator(channels),
        )
        for table in (self.entity, self.relation):
            nn.init.normal_(table.weight, std=0.05)
        for module in self.det.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=channels**-0.5)
        for layer in self.det.layers:
            assert isinstance(layer, DualEncoderLayer)
            for last in (layer.out, layer.ffn[-1]):
                assert isinstance(last, nn.Linear)
                nn.init.zeros_(last.weight)
                nn.init.zeros_(last.bias)

    def forward(self, batch: GroupBatch, entities: Tensor) -> Tensor:
        """States of all asked questions, (asked, channels).

        Args:
            batch: the questions.
            entities: (local, channels) embeddings of the batch's entities.
        """
        questions = batch.relations.size(1)
        source = entities.index_select(0, batch.source)[:, None]  # (groups, 1, channels)
        asked = batch.relations >= 0
        queries = complex_product(source, self.relation(batch.relations.clamp(min=0)))
        # The inverse of r is r + R, that of r + R is r.
        back = (batch.neighbor_relations.clamp(min=0) + self.relations) % (2 * self.relations)
        near, far = (
            entities.index_select(0, places.clamp(min=0).flatten()).view(*places.shape, entities.size(1))
            for places in (batch.neighbors, batch.semantic)
        )
        tokens = torch.cat(
            [
                complex_product(near, self.relation(back)) + self.role[0],
                complex_product(far, self.relation.weight[-1]) + self.role[1],
            ],
            dim=1,
        )
        tokens = torch.cat(
            [queries, self.input_dropout(tokens)], dim=1
        )  # (groups, questions + N + S, channels)
        states = torch.cat([source.expand_as(queries), near, far], dim=1)  # what ⊖ compares
        neighborhood = self.neighborhood(batch)
        encoded = self.det(tokens, neighborhood, semantic_states=states, first=questions).x
        out: Tensor = encoded[asked]
        return out

    def neighborhood(self, batch: GroupBatch) -> Dense:
        """Each question sees itself, N and S; neighbours see each other; nobody else sees a question."""
        groups, questions = batch.relations.shape
        structural, semantic = batch.neighbors >= 0, batch.semantic >= 0
        nodes = questions + structural.size(1) + semantic.size(1)
        itself = torch.eye(nodes, questions, dtype=torch.bool, device=structural.device)
        itself = itself.expand(groups, -1, -1)  # (groups, nodes, questions)

        def members(others: Tensor) -> Tensor:
            return torch.cat([itself, others[:, None].expand(-1, nodes, -1)], dim=2)[:, None]

        near = members(torch.cat([structural, torch.zeros_like(semantic)], dim=1))
        if not semantic.size(1):
            return Dense(near, near)
        return Dense(near, members(torch.cat([structural, semantic], dim=1)))
