"""DET: embedded nodes in, states out, through a stack of dual-encoder layers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor, nn

from detgraph.nn.layer import Block, DualEncoderLayer, LayerOutput, MutualBias
from detgraph.nn.neighborhood import Dense, Neighborhood
from detgraph.nn.semantic import SEMANTIC_FORMS, BiasForm, SemanticForm, SemanticOperator, attention_bias
from detgraph.nn.structural import StructuralForm

Tau = float | Literal["learnable", "alternate"]


@dataclass(frozen=True)
class DualEncoding:
    """The choices about the two encoders that hold for all layers of a model."""

    tau: Tau = 0.5
    structural: StructuralForm = "dot"
    semantic: SemanticForm = "l1"
    semantic_bias: BiasForm = "z"
    mutual_bias: MutualBias = "both"
    semantic_heads: int | None = None  # scorers a layer; None = one for each attention head
    share_layers: bool = False  # one ⊖ for all layers and heads, read once at the input
    dropout: float = 0.0
    attention_dropout: float = 0.0
    node_dropout: float = 0.0  # at the input of a network
    hops: int = 1  # of the first layer of a network
    residual: bool = False  # of all layers of a network

    @property
    def uses_semantic(self) -> bool:
        """Whether there is a semantic encoder at all."""
        return self.tau != 1

    def layer(
        self,
        depth: int,
        in_channels: int,
        head_channels: int,
        heads: int,
        *,
        block: Block,
        concat: bool = True,
        ffn_channels: int | None = None,
    ) -> DualEncoderLayer:
        """The layer at ``depth``; alternating layers are structural, semantic, structural and so on."""
        return DualEncoderLayer(
            in_channels,
            head_channels,
            heads,
            concat=concat,
            tau=float(depth % 2 == 0) if self.tau == "alternate" else self.tau,
            structural=self.structural,
            semantic=self.semantic,
            semantic_heads=self.semantic_heads,
            shared_semantic=self.share_layers,
            semantic_bias=self.semantic_bias,
            mutual_bias=self.mutual_bias,
            block=block,
            ffn_channels=ffn_channels,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            node_dropout=self.node_dropout if depth == 0 else 0.0,
            hops=self.hops if depth == 0 else 1,
            residual=self.residual,
        )

    def shared_operator(self, channels: int) -> SemanticOperator | None:
        """The one ⊖ of all layers and heads (h + 1 numbers), if it is shared and used."""
        if not (self.share_layers and self.uses_semantic):
            return None
        return SEMANTIC_FORMS[self.semantic](1, channels)


class Encoded(NamedTuple):
    """Final states and what each layer did."""

    x: Tensor
    layers: list[LayerOutput]


class DET(nn.Module):
    """A stack of dual-encoder layers.

    Args:
        layers: the layers, each fitting the one before.
        operator: one ⊖ for all layers, applied once to the semantic states at the input.
        between: applied between two layers, e.g. ELU and dropout in GAT style.
        norm: applied to the output, e.g. a LayerNorm after pre-norm blocks.
    """

    def __init__(
        self,
        layers: Sequence[DualEncoderLayer],
        *,
        operator: SemanticOperator | None = None,
        between: nn.Module | None = None,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.operator = operator
        self.between = between or nn.Identity()
        self.norm = norm or nn.Identity()

    def forward(
        self,
        x: Tensor,
        neighborhood: Neighborhood,
        position_bias: Tensor | None = None,
        semantic_states: Tensor | None = None,
        first: int | None = None,
        local: Callable[[int, Tensor], Tensor] | None = None,
    ) -> Encoded:
        """Encode all nodes.

        Args:
            x: (nodes, channels) or (batch, nodes, channels).
            neighborhood: who may attend to whom.
            position_bias: added to the structural scores of every layer.
            semantic_states: what a shared ⊖ compares, (..., nodes, channels); default ``x``.
            first: only the first nodes' final states are wanted (dense neighbourhoods).
            local: what a layer at some depth adds to its input first, e.g. messages along bonds.
        """
        layers = [layer for layer in self.layers if isinstance(layer, DualEncoderLayer)]
        z = None
        if self.operator is not None:
            states = x if semantic_states is None else semantic_states
            scored = neighborhood
            if first is not None and len(layers) == 1:
                assert isinstance(neighborhood, Dense)
                scored = neighborhood.first(first)  # other scores are not wanted
            z = self.operator(states.unsqueeze(-2), scored)
            one_sum = all(layer.is_dual and layer.one_softmax(neighborhood, x) for layer in layers)
            if position_bias is not None and one_sum:
                # Every layer would add both to its scores: their sum is made once.
                position_bias, z = position_bias + attention_bias(z, layers[0].semantic_bias), None
        outputs: list[LayerOutput] = []
        for depth, layer in enumerate(layers):
            last = depth == len(layers) - 1
            inputs = x if depth == 0 else self.between(x)
            if local is not None:
                inputs = inputs + local(depth, inputs)
            outputs.append(layer.encode(inputs, neighborhood, position_bias, z, first if last else None))
            x = outputs[-1].x
        return Encoded(self.norm(x), outputs)
