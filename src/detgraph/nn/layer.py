"""The dual-encoder layer: two encoders that bias each other, written once for all kinds of graph."""

from typing import Literal, NamedTuple, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional

from detgraph.kernels import fused_on
from detgraph.kernels.attention import Plan, dual_attention
from detgraph.kernels.block_attention import block_attention
from detgraph.kernels.dropout import Dropout, drop
from detgraph.kernels.semantic import FORMS
from detgraph.kernels.sparse_linear import sparse_linear
from detgraph.nn.neighborhood import Blocks, Dense, Neighborhood, SemanticSet, Sparse
from detgraph.nn.semantic import SEMANTIC_FORMS, BiasForm, SemanticForm, attention_bias
from detgraph.nn.structural import STRUCTURAL_FORMS, StructuralForm

Block = Literal["plain", "pre_norm", "post_norm"]
MutualBias = Literal["both", "to_structural", "to_semantic", "none"]


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(..., heads * channels) to (..., heads, channels)."""
    return x.view(*x.shape[:-1], heads, -1)


def linear(x: Tensor, weight: Tensor, dropout: float = 0.0, row_scale: Tensor | None = None) -> Tensor:
    """``diag(row_scale) dropout(x) Wᵀ`` of dense or sparse inputs."""
    if x.layout == torch.sparse_csr:
        return sparse_linear(x, weight, dropout, row_scale)
    if dropout:
        x = drop(x, dropout)
    return functional.linear(x if row_scale is None else x * row_scale[:, None], weight)


class DualAttention(NamedTuple):
    """Who attended to whom: what `return_attention_weights` gives beside the output."""

    edge_index: Tensor | None  # (2, pairs) as (source, target); None for dense neighbourhoods
    structural: Tensor | None  # (pairs, heads) or (batch, heads, nodes, nodes); None if not used
    semantic: Tensor | None


class LayerOutput(NamedTuple):
    """All a model wants of a layer."""

    x: Tensor
    states: Tensor  # what ⊖ compares: (..., nodes, semantic heads, channels)
    z: Tensor | None  # semantic scores of all pairs, where the layer made them one by one
    structural: Tensor | None  # attention weights
    semantic: Tensor | None


class DualEncoderLayer(nn.Module):
    r"""One layer of the dual-encoding Transformer.

    .. math::
        A^{st} &= \mathrm{softmax}_{\{i\} \cup N(i)}(q_i \cdot k_j/\sqrt{d} + p_{ij} + s_{ij}) \\
        A^{se} &= \mathrm{softmax}_{\{i\} \cup N(i) \cup S(i)}(s_{ij} + q_i \cdot k_j/\sqrt{d} + p_{ij}) \\
        h_i &= \sum_j (\tau A^{st}_{ij} + (1 - \tau) A^{se}_{ij})\, v_j

    with the semantic score :math:`s_{ij} = v_i \ominus v_j`. An encoder whose share is nil is not built:
    τ=1 is the structural encoder alone (dot-product GAT, Graphormer, HittER), τ=0 the semantic one.

    Args:
        in_channels: size of each input state.
        head_channels: size of each head's output.
        heads: number of attention heads.
        concat: concatenate the heads (else average them); residual blocks always concatenate.
        tau: share of the structural encoder, fixed in [0, 1], or ``"learnable"``.
        structural: form of the structural score.
        semantic: form of the operator ⊖.
        semantic_heads: scorers of the semantic encoder: ``heads`` (default) or 1 for all heads.
        shared_semantic: the layer owns no ⊖; ``z`` is computed once by the model and handed to `forward`.
        semantic_bias: how ``z`` enters the logits.
        mutual_bias: which encoder's scores bias the other's.
        block: ``"plain"`` (GAT style: one projection, no norm), ``"pre_norm"`` (Graphormer) or
            ``"post_norm"`` (BERT, HittER); the latter have a residual, their own Q, K, V, O and an FFN.
        ffn_channels: hidden size of the FFN; default: the size of the states.
        dropout: on the inputs of a plain layer; on the outputs of attention and FFN inside residual blocks.
        attention_dropout: on attention weights.
        node_dropout: on the whole input of a node, in plain layers.
        residual: add a linear map of the input to a plain layer's output.
        hops: how often a plain layer applies its attention; more than once: mean over 0, 1, …, hops times.
    """

    def __init__(
        self,
        in_channels: int,
        head_channels: int,
        heads: int = 8,
        *,
        concat: bool = True,
        tau: float | Literal["learnable"] = 0.5,
        structural: StructuralForm = "dot",
        semantic: SemanticForm = "l1",
        semantic_heads: int | None = None,
        shared_semantic: bool = False,
        semantic_bias: BiasForm = "z",
        mutual_bias: MutualBias = "both",
        block: Block = "plain",
        ffn_channels: int | None = None,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        node_dropout: float = 0.0,
        residual: bool = False,
        hops: int = 1,
    ) -> None:
        super().__init__()
        width = heads * head_channels
        if tau != "learnable" and not 0 <= tau <= 1:
            raise ValueError(f"tau must be 'learnable' or in [0, 1] (got {tau})")
        if block != "plain" and in_channels != width:
            raise ValueError(
                f"a residual block keeps its size: heads * head_channels must be in_channels "
                f"(got {heads} * {head_channels} != {in_channels})"
            )
        if hops > 1 and block != "plain":
            raise ValueError(f"only plain layers have several hops (got hops={hops}, block={block})")
        if semantic_heads not in (None, 1, heads):
            raise ValueError(f"semantic_heads must be 1 or heads = {heads} (got {semantic_heads})")
        self.in_channels, self.head_channels, self.heads = in_channels, head_channels, heads
        self.concat, self.block, self.hops = concat or block != "plain", block, hops
        self.semantic_bias, self.mutual_bias, self.structural_form = semantic_bias, mutual_bias, structural
        self.semantic_heads = semantic_heads or heads
        self.uses_structural, self.uses_semantic = tau != 0, tau != 1

        if tau == "learnable":
            self.tau_logit = nn.Parameter(torch.zeros(()))
        self.fixed_tau = None if tau == "learnable" else float(tau)

        if block == "plain":
            self.project = nn.Linear(in_channels, width, bias=False)
            nn.init.xavier_uniform_(self.project.weight)
            out_channels = width if concat else head_channels
            self.bias = nn.Parameter(torch.zeros(out_channels))
            self.skip = nn.Linear(in_channels, out_channels, bias=False) if residual else None
        else:
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
            self.attention_norm, self.ffn_norm = nn.LayerNorm(width), nn.LayerNorm(width)
            inner = ffn_channels or width
            self.ffn = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))
        self.node_dropout = Dropout(node_dropout)
        self.dropout, self.attention_dropout = Dropout(dropout), Dropout(attention_dropout)
        if self.uses_structural:
            self.structural = STRUCTURAL_FORMS[structural](heads, head_channels)
        self.operator = (
            SEMANTIC_FORMS[semantic](self.semantic_heads, width // self.semantic_heads)
            if self.uses_semantic and not shared_semantic
            else None
        )

    def one_softmax(self, neighborhood: Neighborhood, x: Tensor) -> TypeGuard[Blocks]:
        """Whether all encoders are one fused attention: over one set, with the same sum of their scores."""
        alike = not self.is_dual or self.mutual_bias == "both"
        known = not self.uses_structural or self.structural_form == "dot"
        return isinstance(neighborhood, Blocks) and alike and known and fused_on(x)

    @property
    def is_dual(self) -> bool:
        """Whether there are both encoders."""
        return self.uses_structural and self.uses_semantic

    @property
    def tau(self) -> Tensor | float:
        """The share of the structural encoder."""
        return self.tau_logit.sigmoid() if self.fixed_tau is None else self.fixed_tau

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Neighborhood,
        semantic_index: Tensor | None = None,
        *,
        semantic_set: SemanticSet = "union",
        position_bias: Tensor | None = None,
        z: Tensor | None = None,
        return_attention_weights: bool = False,
    ) -> Tensor | tuple[Tensor, DualAttention]:
        """Encode every node.

        Args:
            x: (nodes, in_channels), dense or sparse; (batch, nodes, in_channels) with a `Dense`.
            edge_index: PyG edges (source, target), or a ready `Neighborhood`.
            semantic_index: semantic neighbours (source, target), with edges only.
            semantic_set: what the semantic encoder attends to, with edges only.
            position_bias: added to the structural scores, one number a pair and head.
            z: semantic scores of all pairs, where the layer shares its operator.
            return_attention_weights: also return a `DualAttention`.

        Returns:
            (nodes, heads * head_channels), or (nodes, head_channels) without ``concat``.
        """
        neighborhood = (
            edge_index
            if isinstance(edge_index, Neighborhood)
            else Sparse.from_edges(edge_index, x.size(0), semantic_index, semantic_set)
        )
        out = self.encode(x, neighborhood, position_bias, z)
        if not return_attention_weights:
            return out.x
        index = (
            torch.stack([neighborhood.source, neighborhood.target])
            if isinstance(neighborhood, Sparse)
            else None
        )
        return out.x, DualAttention(index, out.structural, out.semantic)

    def encode(
        self,
        x: Tensor,
        neighborhood: Neighborhood,
        position_bias: Tensor | None = None,
        z: Tensor | None = None,
        first: int | None = None,
    ) -> LayerOutput:
        """Like `forward`, with the scores and states that a model needs for L_sn and for fetching.

        With ``first`` and a `Dense`, only the first nodes of each graph are encoded: all that a read-out
        at a virtual node needs of the last layer.
        """
        normed = self.attention_norm(x) if self.block == "pre_norm" else x
        query, key, value, states = self.projections(normed, first)
        plan = self.plan(neighborhood) if position_bias is None and fused_on(states) else None
        if plan is not None:
            weight = None if self.operator is None else self.operator.positive_weight
            fused = dual_attention(states, weight, self.tau if plan.dual else 1.0, plan)
            second = fused.second if plan.dual else fused.first
            return LayerOutput(
                self.finish(x, fused.states),
                states,
                None,
                fused.first if self.uses_structural else None,
                second if self.uses_semantic else None,
            )
        if self.operator is not None:
            z = self.operator(states, neighborhood)
        if self.one_softmax(neighborhood, x):
            bias = query.new_zeros(())
            if self.uses_structural and position_bias is not None:
                bias = position_bias
            if self.uses_semantic and z is not None:  # None: it is part of position_bias
                bias = bias + attention_bias(z, self.semantic_bias)  # (pairs, heads)
            if not self.uses_structural:
                query, key = torch.zeros_like(query), key.detach()
            dropout = self.attention_dropout.p if self.training else 0.0
            pairs = int(neighborhood.index.first_pair[-1])
            attended, weights = block_attention(
                query, key, value, bias.expand(pairs, self.heads), neighborhood.index, dropout
            )
            return LayerOutput(
                self.finish(x, attended),
                states,
                z,
                weights if self.uses_structural else None,
                weights if self.uses_semantic else None,
            )
        maps_last = self.maps_last(x, first)
        if first is not None:
            assert isinstance(neighborhood, Dense)
            neighborhood, x = neighborhood.first(first), x[:, :first]
            z = None if z is None else z[:, :, :first]
            position_bias = None if position_bias is None else position_bias[:, :, :first]
        structural, semantic = self.attention(query, key, z, position_bias, neighborhood)
        weights = self.combine(structural, semantic)
        weights = self.attention_dropout(weights)
        attended = neighborhood.aggregate(weights, value)  # (..., heads, channels)
        if maps_last:
            attended = torch.einsum("bfhd,hcd->bfhc", attended, self.by_head(self.value))
        if self.hops > 1:
            reached = [value, attended]
            for _ in range(1, self.hops):
                reached.append(neighborhood.aggregate(weights, reached[-1]))
            attended = torch.stack(reached).mean(dim=0)
        return LayerOutput(self.finish(x, attended), states, z, structural, semantic)

    def plan(self, neighborhood: Neighborhood) -> Plan | None:
        """The layer as one fused operation; None where that knows no form of its scores."""
        if (
            self.block != "plain"
            or not isinstance(neighborhood, Sparse)
            or (self.uses_structural and self.structural_form != "dot")
            or (self.uses_semantic and (self.operator is None or self.operator.form not in FORMS))
            or (self.uses_semantic and (self.semantic_heads != self.heads or self.semantic_bias != "z"))
        ):
            return None
        both = self.is_dual
        one_map = both and neighborhood.one_set and self.mutual_bias == "both"
        structural, semantic = neighborhood.structural[:, 0].numpy(), neighborhood.semantic[:, 0].numpy()
        return Plan(
            neighborhood.index,
            structural if self.uses_structural else semantic,
            semantic,
            use_dot=self.uses_structural,
            use_z=self.mutual_bias in ("both", "to_structural") if both else self.uses_semantic,
            dual=both and not one_map,
            dot_to_second=both and not one_map and self.mutual_bias in ("both", "to_semantic"),
            form=None if self.operator is None else self.operator.form,
            dropout=self.attention_dropout.p if self.training else 0.0,
            hops=self.hops,
        )

    def projections(self, x: Tensor, first: int | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Query, key and value (..., nodes, heads, channels), and the states that ⊖ compares."""
        if self.block == "plain":
            stays = None  # (nodes,)
            if self.training and self.node_dropout.p:
                stays = self.node_dropout(self.project.weight.new_ones(x.size(0)))
            projected = linear(x, self.project.weight, self.dropout.p if self.training else 0.0, stays)
            split = split_heads(projected, self.heads)
            query = split if first is None else split[:, :first]
            return query, split, split, split_heads(projected, self.semantic_heads)
        query = split_heads(self.query(x if first is None else x[:, :first]), self.heads)
        if self.maps_last(x, first):
            one_head = functional.pad(x, (0, 1), value=1.0)[:, :, None]  # the last number stands for biases
            query = torch.einsum("bfhc,hcd->bfhd", query, self.by_head(self.key))
            return query, one_head, one_head, split_heads(x, self.semantic_heads)
        key, value = split_heads(self.key(x), self.heads), split_heads(self.value(x), self.heads)
        return query, key, value, split_heads(x, self.semantic_heads)

    def maps_last(self, x: Tensor, first: int | None) -> bool:
        """Whether so few nodes attend that keys and values of all nodes would be a waste.

        ``q · (K x_j) = (Kᵀ q) · x_j`` and ``Σ_j a_j V x_j = V Σ_j a_j x_j``: K and V map these few only.
        """
        few = first is not None and 2 * first <= x.size(1)
        return few and self.block != "plain" and self.structural_form == "dot"

    def by_head(self, linear: nn.Linear) -> Tensor:
        """The weight of a linear map with its bias as a last column, (heads, channels, in_channels + 1)."""
        return torch.cat([linear.weight, linear.bias[:, None]], dim=1).view(
            self.heads, self.head_channels, -1
        )

    def attention(
        self,
        query: Tensor,
        key: Tensor,
        z: Tensor | None,
        position_bias: Tensor | None,
        neighborhood: Neighborhood,
    ) -> tuple[Tensor | None, Tensor | None]:
        """The weights of the two encoders, each biased by the other's scores; None for an absent one."""
        structural_scores = semantic_scores = None
        if self.uses_structural:
            structural_scores = self.structural(query, key, neighborhood)
            if position_bias is not None:
                structural_scores = structural_scores + position_bias
        if self.uses_semantic:
            if z is None:
                raise ValueError("a layer with shared_semantic=True needs z")
            semantic_scores = attention_bias(z, self.semantic_bias)
        if structural_scores is None or semantic_scores is None:
            return (
                None
                if structural_scores is None
                else neighborhood.softmax(structural_scores, neighborhood.structural),
                None
                if semantic_scores is None
                else neighborhood.softmax(semantic_scores, neighborhood.semantic),
            )
        both = structural_scores + semantic_scores
        structural = neighborhood.softmax(
            both if self.mutual_bias in ("both", "to_structural") else structural_scores,
            neighborhood.structural,
        )
        if neighborhood.one_set and self.mutual_bias == "both":  # the same logits over the same set
            return structural, structural
        semantic = neighborhood.softmax(
            both if self.mutual_bias in ("both", "to_semantic") else semantic_scores, neighborhood.semantic
        )
        return structural, semantic

    def combine(self, structural: Tensor | None, semantic: Tensor | None) -> Tensor:
        """``τ·A_st + (1 - τ)·A_se``: both encoders read the same values, so their weights can be mixed."""
        if semantic is None or structural is semantic:
            assert structural is not None
            return structural
        if structural is None:
            return semantic
        return self.tau * structural + (1 - self.tau) * semantic

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Join the heads; in residual blocks also output projection, norms and FFN."""
        if self.block == "plain":
            joined = (attended.flatten(-2) if self.concat else attended.mean(dim=-2)) + self.bias
            return joined if self.skip is None else joined + linear(x, self.skip.weight)
        attended = self.dropout(self.out(attended.flatten(-2)))
        if self.block == "pre_norm":
            x = x + attended
            out: Tensor = x + self.dropout(self.ffn(self.ffn_norm(x)))
            return out
        x = self.attention_norm(x + attended)
        normed: Tensor = self.ffn_norm(x + self.dropout(self.ffn(x)))
        return normed

    def extra_repr(self) -> str:
        """Sizes and what is built."""
        encoders = "+".join(
            name
            for name, used in (("structural", self.uses_structural), ("semantic", self.uses_semantic))
            if used
        )
        return f"{self.in_channels}, {self.head_channels}, heads={self.heads}, block={self.block}, {encoders}"
