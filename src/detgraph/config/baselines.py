"""Options of the models that DET is compared with."""

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from detgraph.config.section import Count, Rate, Section, Share
from detgraph.errors import unknown_name

NetworkBaselineName = Literal[
    "gcn", "sage", "gat", "supergat-sd", "supergat-mx", "gcnii", "appnp", "gps", "sgformer"
]
NETWORK_BASELINES: tuple[NetworkBaselineName, ...] = get_args(NetworkBaselineName)

_ATTENTION = {"layers", "heads", "output_heads"}
_SUPERVISED = {*_ATTENTION, "attention_weight", "edge_sample", "negative_ratio"}
# Which options a model reads beside name, channels and dropout.
_READS: dict[NetworkBaselineName, set[str]] = {
    "gcn": {"layers"},
    "sage": {"layers"},
    "gat": _ATTENTION,
    "supergat-sd": _SUPERVISED,
    "supergat-mx": _SUPERVISED,
    "gcnii": {"layers", "alpha", "theta", "inner_decay"},
    "appnp": {"steps", "alpha"},
    "gps": {"layers", "heads", "attention_dropout"},
    "sgformer": {"layers", "attention_dropout", "graph_weight", "inner_decay"},
}


MoleculeBaselineName = Literal["gcn", "sage", "gin", "gat", "pna", "gt", "san", "deepergcn", "gps"]
MOLECULE_BASELINES: tuple[MoleculeBaselineName, ...] = get_args(MoleculeBaselineName)

_MOLECULE_READS: dict[MoleculeBaselineName, set[str]] = {
    "gcn": set(),
    "sage": set(),
    "gin": set(),
    "gat": {"heads"},
    "pna": set(),
    "gt": {"heads", "eigenvectors"},
    "san": {"heads", "eigenvectors"},
    "deepergcn": set(),
    "gps": {"heads", "attention_dropout", "walk_steps"},
}


EntityBaselineName = Literal["transe", "rotate", "tucker", "complex", "compgcn"]
ENTITY_BASELINES: tuple[EntityBaselineName, ...] = get_args(EntityBaselineName)


class Baseline(Section):
    """What options of all baselines have in common."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, values: Any) -> Any:
        """Name the nearest key here: the reader looks up keys of sections that always exist."""
        for key in values if isinstance(values, dict) else ():
            if key not in cls.model_fields:
                raise ValueError(str(unknown_name("key of baseline", str(key), cls.model_fields)).rstrip("."))
        return values

    def check_read(self, name: str, read: set[str]) -> None:
        """Refuse options that the model does not read."""
        for key, field in type(self).model_fields.items():
            if key not in read and getattr(self, key) != field.default:
                raise ValueError(f"baseline.{key} has no effect with baseline.name={name}: remove it")

    def check_heads(self, channels: int, heads: int) -> None:
        """Heads share the channels."""
        if channels % heads:
            raise ValueError(f"baseline.channels ({channels}) must be a multiple of baseline.heads ({heads})")


class NetworkBaseline(Baseline):
    """A model of others for networks; `recipes/node/baselines` has their published settings."""

    name: NetworkBaselineName
    channels: Count = 64
    """Size of hidden states; of each head in gat and supergat."""
    dropout: Rate = 0.5
    layers: Count = 2
    """Of sgformer: of its graph convolution, beside one layer of attention."""
    heads: Count = 8
    """Attention heads of hidden layers."""
    output_heads: Count = 1
    """Attention heads of the last layer, which are averaged."""
    attention_dropout: Rate = 0.0
    """On the attention weights of gps; after the attention of sgformer."""
    attention_weight: Annotated[float, Field(ge=0)] = 4.0
    """Weight of supergat's loss on attention scores, which are to tell edges from other pairs."""
    edge_sample: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of the edges in that loss."""
    negative_ratio: Annotated[float, Field(gt=0)] = 0.5
    """Unconnected pairs for each of these edges."""
    alpha: Share = 0.1
    """Share of the initial state in each propagation."""
    theta: Annotated[float, Field(gt=0)] = 0.5
    """How far the weights of gcnii's layers are from the identity."""
    steps: Count = 10
    """Propagations of appnp."""
    graph_weight: Share = 0.8
    """Share of the graph convolution of sgformer."""
    inner_decay: Annotated[float, Field(ge=0)] = 0.0
    """Weight decay of gcnii's convolutions, or sgformer's attention, beside training.weight_decay."""

    @model_validator(mode="after")
    def _has_effect(self) -> "NetworkBaseline":
        self.check_read(self.name, {"name", "channels", "dropout", *_READS[self.name]})
        if self.name == "gps":
            self.check_heads(self.channels, self.heads)
        return self


class MoleculeBaseline(Baseline):
    """A model of others for molecules; `recipes/graph/baselines` has settings of about 500,000 parameters."""

    name: MoleculeBaselineName
    channels: Count = 64
    layers: Count = 16
    dropout: Rate = 0.0
    readout: Literal["sum", "mean"] = "mean"
    heads: Count = 8
    """Attention heads, which share the channels."""
    attention_dropout: Rate = 0.0
    """On the attention weights of gps."""
    eigenvectors: Count = 8
    """Eigenvectors of the Laplacian that gt and san read."""
    walk_steps: Count = 20
    """Steps of the random walks that gps reads."""

    @model_validator(mode="after")
    def _has_effect(self) -> "MoleculeBaseline":
        always = {"name", "channels", "layers", "dropout", "readout"}
        self.check_read(self.name, always | _MOLECULE_READS[self.name])
        if "heads" in _MOLECULE_READS[self.name]:
            self.check_heads(self.channels, self.heads)
        return self


class EntityBaseline(Baseline):
    """A model of others for knowledge graphs; `recipes/entity/baselines` has settings."""

    name: EntityBaselineName
    channels: Count = 128
    """Size of the embeddings, real and imaginary parts counted both."""
    relation_channels: Count | None = None
    """Size of tucker's embeddings of relations; default: that of entities."""
    dropouts: tuple[Rate, Rate, Rate] = (0.3, 0.4, 0.5)
    """Of tucker: on heads, on the core tensor with its relation, and on both together."""
    dropout: Rate = 0.1
    """Of compgcn: on the sums of messages."""

    @model_validator(mode="after")
    def _has_effect(self) -> "EntityBaseline":
        own = {"tucker": {"relation_channels", "dropouts"}, "compgcn": {"dropout"}}
        self.check_read(self.name, {"name", "channels"} | own.get(self.name, set()))
        return self
