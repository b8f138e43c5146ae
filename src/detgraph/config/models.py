"""Options of DET: the two encoders, and what each kind of graph adds."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from detgraph.config.section import Count, Rate, Section, Share
from detgraph.nn.heads import Readout
from detgraph.nn.layer import MutualBias
from detgraph.nn.model import DualEncoding
from detgraph.nn.neighborhood import SemanticSet
from detgraph.nn.semantic import BiasForm, SemanticForm
from detgraph.nn.structural import StructuralForm


class ModelConfig(Section):
    """The two encoders; the same for all tasks."""

    tau: Share | Literal["learnable", "alternate"] = 0.5
    """Share of the structural encoder: 1 = structural only, 0 = semantic only. On molecules both encoders
    see the same set, so that values in between are alike (unless mutual_bias tells the encoders apart)."""
    structural: StructuralForm = "dot"
    semantic: SemanticForm = "l1"
    """The operator ⊖ that compares two states."""
    semantic_bias: BiasForm = "z"
    """How the semantic score enters attention."""
    mutual_bias: MutualBias = "both"
    """Which encoder's scores bias the other's."""
    semantic_heads: Count | None = None
    """Semantic scorers a layer; default: one for each attention head."""
    heads: Count = 8
    layers: Count = 2
    dropout: Rate = 0.0
    attention_dropout: Rate = 0.0

    @model_validator(mode="after")
    def _fits(self) -> "ModelConfig":
        if self.semantic_heads not in (None, 1, self.heads):
            raise ValueError(
                f"model.semantic_heads must be 1 or model.heads = {self.heads} (got {self.semantic_heads})"
            )
        if self.tau == "alternate" and self.layers < 2:
            raise ValueError(f"model.tau=alternate needs model.layers of 2 or more (got {self.layers})")
        return self

    def encoding(self, *, share_layers: bool = False) -> DualEncoding:
        """The choices as the architecture takes them."""
        return DualEncoding(
            tau=self.tau,
            structural=self.structural,
            semantic=self.semantic,
            semantic_bias=self.semantic_bias,
            mutual_bias=self.mutual_bias,
            semantic_heads=self.semantic_heads,
            share_layers=share_layers,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            node_dropout=self.node_dropout if isinstance(self, NetworkModelConfig) else 0.0,
            hops=self.hops if isinstance(self, NetworkModelConfig) else 1,
            residual=isinstance(self, NetworkModelConfig) and self.residual,
        )


class ResidualModelConfig(ModelConfig):
    """Transformer blocks with residual connections."""

    channels: Count = 64
    """Size of the states; a multiple of heads."""
    ffn_channels: Count = 128

    @model_validator(mode="after")
    def _divides(self) -> "ResidualModelConfig":
        if self.channels % self.heads:
            raise ValueError(
                f"model.channels ({self.channels}) must be a multiple of model.heads ({self.heads})"
            )
        return self


class MoleculeModelConfig(ResidualModelConfig):
    """Graphormer's encoder with the semantic one."""

    layers: Count = 12
    channels: Count = 80
    ffn_channels: Count = 80
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.1
    share_layers: bool = True
    """One ⊖ for all layers and heads, read at the input (h + 1 numbers)."""
    readout: Readout = "virtual"
    hops: Annotated[int, Field(ge=1, le=252)] = 20
    """Longest path whose bonds are read one by one; longer ones than 252 bonds count as 253."""
    max_degree: Annotated[int, Field(ge=2)] = 64
    max_distance: Annotated[int, Field(ge=2)] = 40
    walk_steps: Annotated[int, Field(ge=0)] = 0
    """Steps of random walks: each atom's input is told the chances to be back; 0 = none."""
    walk_bias: bool = False
    """Random walks between two atoms also bias their attention."""
    rings: bool = False
    """Each atom's input is told the sizes of the smallest rings its bonds are in; messages are, too."""
    messages: bool = False
    """Each layer first passes messages along bonds."""
    column_codes: Count | None = None
    """Rows that tables keep for each column of atoms and bonds; default: as many as it has codes."""

    @model_validator(mode="after")
    def _has_effect(self) -> "MoleculeModelConfig":
        if self.share_layers and self.semantic_heads is not None:
            raise ValueError("model.semantic_heads has no effect with model.share_layers: remove it")
        if self.walk_bias and not self.walk_steps:
            raise ValueError("model.walk_bias needs model.walk_steps of 1 or more")
        if self.tau == "learnable" and self.mutual_bias == "both":  # one set, the same scores: the same map
            raise ValueError("model.tau=learnable has no effect on molecules with model.mutual_bias=both")
        return self


class NetworkModelConfig(ModelConfig):
    """GAT-style layers."""

    tau: Share | Literal["learnable", "alternate"] = 0.7
    head_channels: Count = 8
    dropout: Rate = 0.6
    attention_dropout: Rate = 0.6
    semantic_set: SemanticSet = "union"
    """The semantic encoder attends to {i} ∪ N(i) ∪ S(i), or to {i} ∪ S(i) only."""
    node_dropout: Rate = 0.0
    """Share of nodes whose input is dropped as a whole, in training."""
    hops: Count = 1
    """How often the first layer applies its attention; more than once: mean over 0, 1, …, hops times."""
    residual: bool = False
    """Add a linear map of its input to each layer's output."""
    table_channels: Count = 64
    """Size of the learned input of each node, for networks without features."""


class EgoModelConfig(ResidualModelConfig):
    """HittER's two levels with the semantic encoder."""

    heads: Count = 4
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.1
    triple_layers: Count = 1
    """Layers of the triple ("atom") Transformer."""
    max_neighbors: Annotated[int, Field(ge=0)] = 16
    """Connected neighbours sampled for a query; with 0 and model.tau=1 there is no context (CoKE)."""
    score_dropout: Rate = 0.1
    """On the candidates' embeddings."""
    composition: Literal["transformer", "complex"] = "transformer"
    """How an entity and a relation become a token: by the triple Transformer, one sequence a query (HittER);
    or by ComplEx's product, with the neighbourhood shared by several questions (for CPUs)."""
    mask: Literal["pair", "triple"] = "triple"
    """In training hide from a query's context and paths its own triple, or every edge between the pair."""
    votes: Annotated[float, Field(ge=0)] = 0.0
    """How much the training answers of similar entities to the same question count in rankings."""
    vote_sharpness: Annotated[float, Field(ge=0)] = 5.0
    """How much more the most similar ones count: the factor of cosines in the softmax over voters."""
    path_hops: Annotated[int, Field(ge=0)] = 0
    """With composition=complex: the structural encoder also follows paths of so many edges; 0 = none."""
    path_channels: Annotated[int, Field(gt=0, multiple_of=8)] = 32
    """Size of the states along paths."""

    @model_validator(mode="after")
    def _has_effect(self) -> "EgoModelConfig":
        if self.semantic_heads is not None:
            raise ValueError(
                "model.semantic_heads has no effect on knowledge graphs, which share one: remove it"
            )
        if self.composition == "complex":
            for name in ("triple_layers", "score_dropout"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"model.{name} has no effect with model.composition=complex: remove it")
            if self.channels % 2:
                raise ValueError(f"model.channels must be even with complex numbers (got {self.channels})")
        elif self.path_hops:
            raise ValueError("model.path_hops has no effect with model.composition=transformer: remove it")
        if self.path_hops and self.tau == 0:
            raise ValueError("model.path_hops has no effect with model.tau=0, semantic only: remove it")
        if not self.path_hops and self.path_channels != type(self).model_fields["path_channels"].default:
            raise ValueError("model.path_channels has no effect with model.path_hops=0: remove it")
        return self
