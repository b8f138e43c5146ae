"""Which configuration a model's name means for a recipe: DET, its twin, or a baseline as published."""

from collections.abc import Sequence
from pathlib import Path

from detgraph.config import Config, NetworkData, load_config
from detgraph.config.baselines import ENTITY_BASELINES, MOLECULE_BASELINES, NETWORK_BASELINES
from detgraph.errors import DetError, unknown_name
from detgraph.recipes import recipe_names, recipe_path

BASELINES: dict[str, tuple[str, ...]] = {
    "graph": MOLECULE_BASELINES,
    "node": NETWORK_BASELINES,
    "entity": (*ENTITY_BASELINES, "coke", "hitter"),  # the last two are settings of our own encoder
}
OWN_MODELS = {"det": [], "structural": ["model.tau=1"]}


def model_names(config: Config) -> tuple[str, ...]:
    """The models that can be trained on the data of ``config``."""
    return (*OWN_MODELS, *BASELINES[config.task])


def model_config(recipe: Path, model: str, overrides: Sequence[str] = ()) -> Config:
    """The configuration of ``model`` on the data of ``recipe``.

    DET and its structural-only twin have the settings of the recipe and ``overrides``. A baseline has the
    ones published for the data set, or those of the recipe named like it for any other data; its data are
    those of the recipe with ``overrides`` of ``data``, and so is a limit of time.
    """
    config = load_config(recipe, overrides)
    if model in OWN_MODELS:
        if config.baseline is not None:
            raise DetError(
                f"{recipe} has settings of {config.baseline.name}, not of {model}. Name a recipe of DET on "
                "the same data: its --models may be baselines, too."
            )
        return load_config(recipe, [*overrides, *OWN_MODELS[model]])
    if model not in model_names(config):
        raise unknown_name(f"model for the task {config.task}", model, model_names(config))
    name = f"{config.task}/baselines/{model}"
    special = f"{name}-{config.data.label}"
    published = load_config(recipe_path(special if special in recipe_names() else name))
    data = config.data
    if isinstance(data, NetworkData) and isinstance(published.data, NetworkData):
        # Settings for a data set say how its features are scaled, unless the user does.
        same = data.name is not None and published.data.name == data.name
        if same and not any(change.startswith("data.normalize=") for change in overrides):
            data = data.model_copy(update={"normalize": published.data.normalize})
    training = published.training
    if config.training.minutes is not None:  # a limit of time is for all
        training = training.model_copy(update={"minutes": config.training.minutes})
    return published.model_copy(update={"data": data, "training": training})
