"""DET on knowledge graphs in a form for CPUs: several questions about an entity share its neighbourhood."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from detgraph.kernels.dropout import Dropout
from detgraph.nn.complex_product import complex_product
from detgraph.nn.layer import DualEncoderLayer
from detgraph.nn.model import DET, DualEncoding
from detgraph.nn.neighborhood import Dense
from detgraph.nn.paths import PathEncoder


class GroupBatch(NamedTuple):
    """Questions (source, relation, ?) in groups about one source each, with all their answers.

    Entities are named by their place in ``entities``, so that a table of all of them is read once. -1 is
    padding.
    """

    entities: Tensor  # (local,) every entity of the batch once, first those that compete if not all do
    extra: Tensor  # (competing,) added to the scores of these
    source: Tensor  # (groups,) entity
    neighbors: Tensor  # (groups, structural) entities
    neighbor_relations: Tensor  # (groups, structural) relations, r + R for the inverse of r
    semantic: Tensor  # (groups, semantic) entities
    group: Tensor  # (questions,)
    relation: Tensor  # (questions,)
    question: Tensor  # (answers,) which one it answers
    answer: Tensor  # (answers,) entity

    def to(self, device: torch.device) -> "GroupBatch":
        """The same on another device."""
        return GroupBatch(*(tensor.to(device) for tensor in self))


class GroupedEgoDET(nn.Module):
    r"""Sources → DET over [source, N, S] → ComplEx's product with each relation asked for.

    .. math:: h_{ir} = \mathrm{DET}(v_i,\ \{v_j \circ r_{ji}\}_{N(i)},\ \{v_k \circ r_s\}_{S(i)}) \circ r

    HittER's sequence with ComplEx's product in place of the triple Transformer: a connected neighbour's token
    is the answer it would give itself if asked for the source. The relation in question enters last, so that
    all questions of a group share one sequence. What attention adds to :math:`v_i` starts at nil: training
    starts from ComplEx.

    Args:
        entities: number of entities.
        relations: number of relations; each also gets an inverse.
        channels: size of the embeddings; half of them are imaginary parts.
        heads: attention heads.
        layers: number of layers; between them the source and its neighbours attend to each other.
        ffn_channels: hidden size of each FFN.
        encoding: the choices about the two encoders; ⊖ compares entity embeddings.
        paths: the structural encoder over several hops, which scores on its own; None: without.
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
        paths: PathEncoder | None = None,
    ) -> None:
        super().__init__()
        self.paths = paths
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
        with torch.no_grad():  # a semantic neighbour speaks for the source as it is
            self.relation.weight[-1, : channels // 2].fill_(1.0)
            self.relation.weight[-1, channels // 2 :].zero_()
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
        """States of the sources, (groups, channels).

        Args:
            batch: the questions.
            entities: (local, channels) embeddings of the batch's entities.
        """
        places = torch.cat([batch.source[:, None], batch.neighbors, batch.semantic], dim=1)
        # (groups, 1 + N + S, channels), which ⊖ compares; read at once, as each reading has its own gradient.
        states = entities.index_select(0, places.clamp(min=0).flatten()).view(*places.shape, -1)
        source, context = states[:, :1], states[:, 1:]
        # The inverse of r is r + R, that of r + R is r.
        back = (batch.neighbor_relations.clamp(min=0) + self.relations) % (2 * self.relations)
        relations = torch.cat([back, torch.full_like(batch.semantic, 2 * self.relations)], dim=1)
        near, far = batch.neighbors.size(1), batch.semantic.size(1)
        role = torch.cat([self.role[:1].expand(near, -1), self.role[1:].expand(far, -1)])
        context = complex_product(context, self.relation(relations)) + role
        tokens = torch.cat([source, self.input_dropout(context)], dim=1)
        encoded = self.det(tokens, self.neighborhood(batch), semantic_states=states, first=1)
        out: Tensor = encoded.x[:, 0]
        return out

    def ask(self, sources: Tensor, relation: Tensor) -> Tensor:
        """States of questions, to be compared with all entities, (questions, channels)."""
        return complex_product(sources, self.relation(relation))

    def neighborhood(self, batch: GroupBatch) -> Dense:
        """The structural encoder sees the source and N, the semantic one S, too."""
        structural, semantic = batch.neighbors >= 0, batch.semantic >= 0
        itself = structural.new_ones((len(structural), 1))
        near = torch.cat([itself, structural, torch.zeros_like(semantic)], dim=1)
        if not semantic.size(1):
            return Dense.from_mask(near)
        return Dense.from_mask(near, torch.cat([itself, structural, semantic], dim=1))
