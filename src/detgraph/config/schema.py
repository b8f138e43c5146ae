"""Every option with its type, default and meaning: the one schema of YAML files and overrides."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from detgraph.config.baselines import MoleculeBaseline, NetworkBaseline
from detgraph.config.section import Count, Rate, Share
from detgraph.config.section import Section as Section
from detgraph.neighbors import Backend, Schedule, Source
from detgraph.nn.heads import Readout
from detgraph.nn.layer import MutualBias
from detgraph.nn.model import DualEncoding
from detgraph.nn.neighborhood import SemanticSet
from detgraph.nn.semantic import BiasForm, LossForm, SemanticForm
from detgraph.nn.structural import StructuralForm

Names = Annotated[
    tuple[str, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)
]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


# --- data -------------------------------------------------------------------------------------------


class MoleculeData(Section):
    """A benchmark by name, or a table of SMILES."""

    name: str | None = None
    """A benchmark of `det data list`."""
    file: Path | None = None
    """CSV, TSV or Parquet with one molecule a row."""
    smiles_column: str = "smiles"
    targets: Names = ()
    """Columns to predict, one or several."""
    id_column: str | None = None
    split_column: str | None = "split"
    """train / valid / test; without this column a seeded random split is made."""
    kind: Literal["regression", "classification"] = "regression"
    """Classification is binary (0 or 1) for each target."""
    bad_rows: Literal["fail", "skip"] = "fail"
    split_seed: Seed = 0
    limit: Count | None = None
    """Use only so many molecules."""

    @property
    def label(self) -> str:
        """What to call the data."""
        return self.name or Path(str(self.file)).stem

    @model_validator(mode="after")
    def _one_source(self) -> "MoleculeData":
        _one_of(self, name={"limit"}, file={*MoleculeData.model_fields} - {"name"})
        if self.file and not self.targets:
            raise ValueError("data.targets must name the columns to predict")
        return self


class NetworkData(Section):
    """A benchmark by name, an edge list with a node table, or one .npz."""

    name: str | None = None
    """A benchmark of `det data list`."""
    nodes: Path | None = None
    """Node table (CSV, TSV, Parquet): id, label, split, features."""
    edges: Path | None = None
    """Edge list: two columns of node ids."""
    npz: Path | None = None
    """One .npz with edge_index, x, y and masks."""
    id_column: str = "id"
    label_column: str = "label"
    split_column: str = "split"
    features: Path | None = None
    """Features apart from the node table: SVMlight, .npy or .npz."""
    multi_label: bool = False
    """Labels are lists separated by ';'."""
    normalize: bool | None = None
    """Scale each node's features to sum to 1; default: sparse features (bags of words) only."""
    split_seed: Seed = 0
    num_nodes: Count | None = None
    """Size of the generated network `papers`."""

    @property
    def label(self) -> str:
        """What to call the data."""
        return self.name or Path(str(self.npz or self.nodes)).stem

    @model_validator(mode="after")
    def _one_source(self) -> "NetworkData":
        own = {*NetworkData.model_fields} - {"name", "npz", "num_nodes"}
        _one_of(self, name={"num_nodes", "normalize"}, nodes=own, npz={"normalize", "split_seed"})
        if (self.nodes is None) != (self.edges is None):
            raise ValueError("data.nodes and data.edges go together")
        return self


class TripleData(Section):
    """A benchmark by name, or TSV files of triples."""

    name: str | None = None
    """A benchmark of `det data list`."""
    train: Path | None = None
    """TSV: head, relation, tail."""
    valid: Path | None = None
    test: Path | None = None
    entity_names: Path | None = None
    """TSV: id, human name."""
    relation_names: Path | None = None
    split_seed: Seed = 0

    @property
    def label(self) -> str:
        """What to call the data."""
        return self.name or Path(str(self.train)).absolute().parent.name

    @model_validator(mode="after")
    def _one_source(self) -> "TripleData":
        _one_of(self, name=set(), train={*TripleData.model_fields} - {"name"})
        return self


def _one_of(section: Section, **reads: set[str]) -> None:
    """Exactly one source is given, and no key that this source does not read."""
    given = [source for source in reads if getattr(section, source) is not None]
    if len(given) != 1:
        got = " and ".join(f"data.{key}" for key in given) or "none"
        raise ValueError(f"give exactly one of {', '.join(f'data.{key}' for key in reads)} (got {got})")
    for key, field in type(section).model_fields.items():
        if key not in reads[given[0]] | {given[0]} and getattr(section, key) != field.default:
            raise ValueError(f"data.{key} has no effect with data.{given[0]}: remove it")


# --- model ------------------------------------------------------------------------------------------


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
    hops: Count = 20
    """Longest path whose bonds are read one by one."""
    max_degree: Count = 64
    max_distance: Count = 40
    walk_steps: Annotated[int, Field(ge=0)] = 0
    """Steps of random walks: each atom's input is told the chances to be back; 0 = none."""
    walk_bias: bool = False
    """Random walks between two atoms also bias their attention."""
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
    max_neighbors: Count = 16
    """Connected neighbours sampled for a query."""
    score_dropout: Rate = 0.1
    """On the candidates' embeddings."""
    mask: Literal["pair", "triple"] = "triple"
    """In training hide from a query's context its own triple, or every edge between the pair."""

    @model_validator(mode="after")
    def _has_effect(self) -> "EgoModelConfig":
        if self.semantic_heads is not None:
            raise ValueError(
                "model.semantic_heads has no effect on knowledge graphs, which share one: remove it"
            )
        return self


# --- neighbours and training ------------------------------------------------------------------------


class NeighborsConfig(Section):
    """Which distant nodes are fetched."""

    k: Annotated[int, Field(ge=0)] = 8
    source: Source = "learned"
    """States that select them."""
    every: Count = 1
    """Epochs between two searches in learned states."""
    warmup: Annotated[int, Field(ge=0)] = 20
    """Epochs before the first search in learned states; until then propagated features select."""
    backend: Backend = "auto"

    def schedule(self) -> Schedule:
        """When to search."""
        return Schedule(self.source, self.every, self.warmup)


class EntityNeighborsConfig(NeighborsConfig):
    """Distant entities, selected in the entity table."""

    k: Annotated[int, Field(ge=0)] = 16
    source: Literal["learned"] = "learned"
    every: Count = 10
    warmup: Annotated[int, Field(ge=0)] = 5


class TrainingConfig(Section):
    """The loop: the same for all tasks."""

    epochs: Count = 200
    minutes: Annotated[float, Field(gt=0)] | None = None
    """Stop after so much training time, in the middle of an epoch if need be; the learning rate then falls
    over this time instead of over all epochs."""
    optimizer: Literal["adam", "adamw", "adamax"] = "adamw"
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate falls after the warm-up."""
    warmup: Share = 0.0
    """Share of all steps (or of the minutes) over which the learning rate rises."""
    clip_norm: Annotated[float, Field(gt=0)] | None = None
    average: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Evaluate and keep a running mean of the weights with this decay, e.g. 0.999, instead of the weights."""
    patience: Count | None = None
    """Stop after so many evaluations without a better validation metric."""
    evaluate_every: Count = 1
    """Epochs between two evaluations."""
    checkpoint_seconds: Annotated[float, Field(ge=0)] = 30.0
    """The most that a sudden end can lose."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"


class GraphTrainingConfig(TrainingConfig):
    """Batches of molecules of like size."""

    batch_size: Count = 64
    """Molecules a step."""


class SelfSupervisedTrainingConfig(TrainingConfig):
    """Training with the neighbour-fetching loss."""

    sn_weight: Annotated[float, Field(ge=0)] = 0.1
    """λ, the weight of L_sn."""
    sn_loss: LossForm = "bce"
    """`paper` is the printed form, unbounded below."""


class NodeTrainingConfig(SelfSupervisedTrainingConfig):
    """One step an epoch and graph."""

    precision: Literal["32-true"] = "32-true"
    """Sparse features have no product in half precision."""

    optimizer: Literal["adam", "adamw", "adamax"] = "adam"
    learning_rate: Annotated[float, Field(gt=0)] = 0.005
    weight_decay: Annotated[float, Field(ge=0)] = 5e-4
    batch_size: Count | None = None
    """Training nodes a step; default: all nodes of a graph at once."""
    fan_out: Count | None = None
    """With batch_size: how many connected, and how many fetched, neighbours each node draws; default: all."""
    views: Count = 1
    """Passes a step, each with other nodes and features dropped; two or more are trained to agree."""
    consistency_weight: Annotated[float, Field(ge=0)] = 1.0
    """With views: weight of the distance to the views' sharpened mean."""
    consistency_ramp: Annotated[int, Field(ge=0)] = 50
    """Epochs over which this weight rises."""
    temperature: Annotated[float, Field(gt=0, le=1)] = 0.5
    """With views: the mean is sharpened by the power 1/temperature."""

    @model_validator(mode="after")
    def _has_effect(self) -> "NodeTrainingConfig":
        if self.fan_out is not None and self.batch_size is None:
            raise ValueError("training.fan_out has no effect without training.batch_size: add that")
        return self


class EntityTrainingConfig(SelfSupervisedTrainingConfig):
    """One query for each end of each triple, against all entities."""

    epochs: Count = 50
    batch_size: Count = 512
    """Queries a step."""
    label_smoothing: Rate = 0.1


# --- the whole --------------------------------------------------------------------------------------


class GraphConfig(Section):
    """Property prediction on molecules."""

    task: Literal["graph"] = "graph"
    data: MoleculeData
    model: MoleculeModelConfig = MoleculeModelConfig()
    training: GraphTrainingConfig = GraphTrainingConfig()
    baseline: MoleculeBaseline | None = None
    """Train this model of others instead of DET."""
    seed: Seed = 0

    @property
    def walk_steps(self) -> int:
        """Steps of random walks that the model reads."""
        if self.baseline is None:
            return self.model.walk_steps
        return self.baseline.walk_steps if self.baseline.name == "gps" else 0

    @model_validator(mode="after")
    def _has_effect(self) -> "GraphConfig":
        if self.baseline is not None and self.model != MoleculeModelConfig():
            raise ValueError(f"model has no effect with baseline.name={self.baseline.name}: remove it")
        return self


class NodeConfig(Section):
    """Node classification on networks."""

    task: Literal["node"] = "node"
    data: NetworkData
    model: NetworkModelConfig = NetworkModelConfig()
    neighbors: NeighborsConfig = NeighborsConfig()
    training: NodeTrainingConfig = NodeTrainingConfig()
    baseline: NetworkBaseline | None = None
    """Train this model of others instead of DET."""
    seed: Seed = 0

    @model_validator(mode="after")
    def _searchable(self) -> "NodeConfig":
        _check_backend(self.neighbors.backend, self.model.semantic)
        return self

    @model_validator(mode="after")
    def _has_effect(self) -> "NodeConfig":
        if self.baseline is not None:
            for key in ("model", "neighbors"):
                if getattr(self, key) != type(self).model_fields[key].default:
                    raise ValueError(
                        f"{key} has no effect with baseline.name={self.baseline.name}: remove it"
                    )
            if self.training.batch_size is not None:
                raise ValueError("training.batch_size: baselines train on whole graphs only, remove it")
        return self


class EntityConfig(Section):
    """Entity prediction on knowledge graphs."""

    task: Literal["entity"] = "entity"
    data: TripleData
    model: EgoModelConfig = EgoModelConfig()
    neighbors: EntityNeighborsConfig = EntityNeighborsConfig()
    training: EntityTrainingConfig = EntityTrainingConfig()
    seed: Seed = 0

    @model_validator(mode="after")
    def _searchable(self) -> "EntityConfig":
        _check_backend(self.neighbors.backend, self.model.semantic)
        return self


def _check_backend(backend: Backend, form: SemanticForm) -> None:
    if form in ("l1_free", "difference") and backend not in ("auto", "exact"):
        raise ValueError(f"model.semantic={form} needs neighbors.backend auto or exact (got {backend})")


Config = GraphConfig | NodeConfig | EntityConfig


def model_name(config: Config) -> str:
    """``det``, its twin ``structural``, or the name of a baseline."""
    if not isinstance(config, EntityConfig) and config.baseline is not None:
        return config.baseline.name
    return "structural" if config.model.tau == 1 else "det"
