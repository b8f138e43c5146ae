"""The whole configuration of a run: the one schema of YAML files and overrides."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from detgraph.config.baselines import EntityBaseline, MoleculeBaseline, NetworkBaseline
from detgraph.config.data import MoleculeData, NetworkData, TripleData
from detgraph.config.models import EgoModelConfig, MoleculeModelConfig, NetworkModelConfig
from detgraph.config.section import Count, Rate, Section, Seed, Share
from detgraph.neighbors import Backend, Schedule, Source
from detgraph.nn.semantic import LossForm, SemanticForm

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
    optimizer: Literal["adam", "adamw", "adamax", "adagrad"] = "adamw"
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


class SourceConfig(Section):
    """HittER's way to make a model read the context: in training some sources are not to be seen."""

    share: Rate = 0.0
    """Of queries whose source is chosen."""
    masked: Share = 1.0
    """Of the chosen sources, those behind a mask."""
    replaced: Share = 0.0
    """Of the other chosen ones, those in whose place a random entity stands."""
    weight: Annotated[float, Field(ge=0)] = 0.0
    """Of guessing the chosen sources."""


class EntityTrainingConfig(SelfSupervisedTrainingConfig):
    """Questions for both ends of each triple, against all entities."""

    epochs: Count = 50
    batch_size: Count = 512
    """Queries a step."""
    label_smoothing: Rate = 0.1
    answers: Literal["one", "all"] = "one"
    """A question is asked for each answer (1-vs-all), or once for all its answers (K-vs-all)."""
    context_dropout: Rate = 0.0
    """Share of neighbours of both kinds that are left out of a context, in training."""
    source: SourceConfig = SourceConfig()
    group: Count = 4
    """With model.composition=complex: questions about an entity that share its neighbourhood, at most; the
    answers of all of them are hidden in it."""
    candidates: Count | None = None
    """With model.composition=complex: random entities that compete with those of a batch; default: all."""
    n3: Annotated[float, Field(ge=0)] = 0.0
    """With model.composition=complex or the baseline ComplEx: weight of the cubed sizes of embeddings."""
    relation_weight: Annotated[float, Field(ge=0)] = 0.0
    """With model.composition=complex: weight of predicting the relation between two entities, too."""
    warm_start: Annotated[int, Field(ge=0)] = 0
    """With model.composition=complex: epochs without attention, as ComplEx (and paths)."""
    encoder_rate: Annotated[float, Field(gt=0)] = 1.0
    """Learning rate of all parameters but the tables of entities and relations and the path encoder, as a
    share of the tables'."""
    path_batch: Count = 64
    """With model.path_hops: questions a step whose paths are followed, beside the others."""
    path_rate: Annotated[float, Field(gt=0)] = 1.0
    """Learning rate of the path encoder, as a share of that of the tables."""


GROUPED_ONLY: tuple[str, ...] = ("group", "n3", "relation_weight", "warm_start")
PATHS_ONLY: tuple[str, ...] = ("path_batch", "path_rate")
EGO_ONLY: tuple[str, ...] = ("answers", "source")


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
            _check_unused(self, self.baseline.name)
            for name in ("sn_weight", "sn_loss"):
                if getattr(self.training, name) != NodeTrainingConfig.model_fields[name].default:
                    raise ValueError(f"training.{name} has no effect with a baseline: remove it")
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
    baseline: EntityBaseline | None = None
    """Train this model of others instead of DET."""
    seed: Seed = 0

    @model_validator(mode="after")
    def _searchable(self) -> "EntityConfig":
        _check_backend(self.neighbors.backend, self.model.semantic)
        return self

    @model_validator(mode="after")
    def _has_effect(self) -> "EntityConfig":
        if self.baseline is not None:
            _check_unused(self, self.baseline.name)
        idle = {} if self.model.path_hops else dict.fromkeys(PATHS_ONLY, "model.path_hops=0")
        if self.baseline is not None:
            names: tuple[str, ...] = (*GROUPED_ONLY, *EGO_ONLY, "context_dropout")
            if self.baseline.name == "complex":
                names = tuple(name for name in names if name != "n3")
            idle |= dict.fromkeys(names, f"baseline.name={self.baseline.name}")
        else:
            names = EGO_ONLY if self.model.composition == "complex" else GROUPED_ONLY
            idle |= dict.fromkeys(names, f"model.composition={self.model.composition}")
        if self.training.warm_start >= self.training.epochs:
            raise ValueError(
                f"training.warm_start={self.training.warm_start} leaves no epoch for the encoder: it must be "
                f"less than training.epochs={self.training.epochs}"
            )
        for name, cause in idle.items():
            if getattr(self.training, name) != EntityTrainingConfig.model_fields[name].default:
                raise ValueError(f"training.{name} has no effect with {cause}: remove it")
        return self


def _check_unused(config: "NodeConfig | EntityConfig", baseline: str) -> None:
    for key in ("model", "neighbors"):
        if getattr(config, key) != type(config).model_fields[key].default:
            raise ValueError(f"{key} has no effect with baseline.name={baseline}: remove it")


def _check_backend(backend: Backend, form: SemanticForm) -> None:
    if form in ("l1_free", "difference") and backend not in ("auto", "exact"):
        raise ValueError(f"model.semantic={form} needs neighbors.backend auto or exact (got {backend})")


Config = GraphConfig | NodeConfig | EntityConfig


def model_name(config: Config) -> str:
    """``det``, its twin ``structural``, or the name of a baseline."""
    if config.baseline is not None:
        return config.baseline.name
    return "structural" if config.model.tau == 1 else "det"
