"""Baselines as configurations: published settings, options without effect, names of folders."""

from pathlib import Path
from typing import Any

import pytest

from detgraph.config import NodeConfig, load_config, parse_config
from detgraph.config.baselines import ENTITY_BASELINES, NETWORK_BASELINES
from detgraph.errors import DetError
from detgraph.recipes import recipe_names, recipe_path
from detgraph.studies.models import model_config, model_names
from detgraph.training import RunFolder
from detgraph.training.launch import free_folder, load_run, start

CORA = recipe_path("node/cora")


def node(**values: Any) -> NodeConfig:
    config = parse_config({"task": "node", "data": {"name": "papers", "num_nodes": 120}, **values})
    assert isinstance(config, NodeConfig)
    return config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": {"tau": 0.3}}, "model has no effect with baseline.name=gcn: remove it"),
        ({"neighbors": {"k": 3}}, "neighbors has no effect with baseline.name=gcn: remove it"),
        ({"baseline": {"name": "gcn", "alpha": 0.4}}, "baseline.alpha has no effect with baseline.name=gcn"),
        ({"baseline": {"name": "gps", "channels": 9}}, "must be a multiple of baseline.heads"),
        ({"baseline": {"name": "gnc"}}, "baseline.name"),
        ({"training": {"sn_weight": 3.0}}, "training.sn_weight has no effect with a baseline: remove it"),
        ({"baseline": {"channels": 8}}, "'baseline.name' is missing"),
        (
            {"baseline": {"name": "gcn", "chanels": 8}},
            "unknown key of baseline 'chanels'. Did you mean 'chan",
        ),
        ({"baseline": "gcn"}, "baseline: expected a section of keys and values (got 'gcn')"),
    ],
)
def test_mistakes(values: dict[str, Any], message: str) -> None:
    with pytest.raises(DetError) as caught:
        node(**{"baseline": {"name": "gcn"}, **values})
    assert message in str(caught.value)


@pytest.mark.parametrize("name", NETWORK_BASELINES)
def test_every_baseline_has_a_recipe_with_its_source(name: str) -> None:
    text = recipe_path(f"node/baselines/{name}").read_text(encoding="utf-8")
    assert "# Source: " in text or "Its authors have no settings" in text
    config = model_config(CORA, name)
    assert isinstance(config, NodeConfig)
    assert config.baseline is not None
    assert (config.baseline.name, config.data.name) == (name, "cora")


def test_every_baseline_recipe_is_named_after_its_model_and_data() -> None:
    for name in recipe_names():
        task, *folders, short = name.split("/")
        if folders == ["baselines"]:
            config = load_config(recipe_path(name))
            assert config.task == task
            model = short.removesuffix(f"-{config.data.name}")
            assert model in model_names(config)
            if config.baseline is None:  # a setting of our own encoder
                assert (task, config.model.tau) == ("entity", 1)
            else:
                assert config.baseline.name == model


def test_settings_of_the_data_set_go_before_those_of_cora(tmp_path: Path) -> None:
    on_pubmed = model_config(recipe_path("node/pubmed"), "gat")
    assert on_pubmed == load_config(recipe_path("node/baselines/gat-pubmed"))
    on_citeseer = model_config(recipe_path("node/citeseer"), "gat")
    on_cora = load_config(recipe_path("node/baselines/gat"))
    assert on_citeseer.data.name == "citeseer"
    assert on_citeseer.training == on_cora.training
    # SuperGAT's features are not scaled on its own data sets; other data is read as its owner says.
    own = tmp_path / "own.yaml"
    own.write_text("task: node\ndata: {name: papers, num_nodes: 150}\n")
    assert model_config(CORA, "supergat-mx").data.normalize is False  # type: ignore[union-attr]  # a baseline of networks
    on_own = model_config(own, "supergat-mx", ["data.num_nodes=160", "training.epochs=3"])
    assert (on_own.data.num_nodes, on_own.data.normalize) == (160, None)  # type: ignore[union-attr]  # a baseline of networks
    assert on_own.training.epochs == 490


def test_a_limit_of_time_is_for_all_models() -> None:
    limited = model_config(recipe_path("entity/umls"), "transe").training
    assert limited.minutes == load_config(recipe_path("entity/umls")).training.minutes == 2
    published = load_config(recipe_path("entity/baselines/transe")).training
    assert limited == published.model_copy(update={"minutes": 2})


def test_changes_of_the_data_are_for_all_models(tmp_path: Path) -> None:
    zinc, small = recipe_path("graph/zinc"), tmp_path / "small.yaml"
    small.write_text("task: graph\ndata: {name: zinc, limit: 100}\n")
    assert model_config(zinc, "gcn", ["data.limit=100"]).data == model_config(small, "det").data
    assert model_config(small, "gcn").data == model_config(small, "det").data
    scaled = model_config(CORA, "supergat-mx", ["data.normalize=true"]).data
    assert scaled.normalize is True  # type: ignore[union-attr]  # a baseline of networks


def test_overrides_are_for_det_and_its_twin() -> None:
    det = model_config(CORA, "det", ["training.epochs=3"])
    twin = model_config(CORA, "structural", ["training.epochs=3"])
    assert (det.training.epochs, twin.training.epochs, twin.model.tau) == (3, 3, 1)
    assert twin.model_copy(update={"model": det.model}) == det


def test_a_recipe_of_a_baseline_is_not_one_of_det() -> None:
    recipe = recipe_path("node/baselines/gcn")
    assert model_config(recipe, "gat").baseline is not None
    for name in ("det", "structural"):
        with pytest.raises(DetError, match=f"has settings of gcn, not of {name}"):
            model_config(recipe, name)


def test_unknown_models_are_named_with_the_known_ones() -> None:
    with pytest.raises(DetError, match=r"unknown model for the task node 'gta'\. Did you mean 'gat'\?"):
        model_config(CORA, "gta")
    triples = recipe_path("entity/umls")
    assert model_names(load_config(triples)) == ("det", "structural", *ENTITY_BASELINES, "coke", "hitter")
    with pytest.raises(
        DetError, match=r"unknown model for the task entity 'gat'\. .*Known: coke, compgcn, complex"
    ):
        model_config(triples, "gat")


def test_a_run_is_named_after_its_baseline_and_can_be_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = node(baseline={"name": "supergat-mx", "channels": 4}, training={"epochs": 3})
    path = free_folder(config)
    assert path == Path("runs/papers-supergat-mx-seed0")
    result = start(config, path).train()
    assert load_run(path).evaluate("test") == result.test
    assert RunFolder.open(path).config() == config
