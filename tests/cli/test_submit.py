"""`det submit`: the file that OGB's leaderboard takes."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_runs import tiny_yaml

from detgraph.cli.main import main
from detgraph.tasks import GraphTask
from detgraph.training.launch import load_run

ROWS = "idx,smiles,homolumogap\n0,CCO,5.5\n1,C,8.25\n2,CC,\n3,c1ccccc1,6.0\n4,CCC,\n"
SETTINGS = ["model.layers=1", "model.channels=8", "model.heads=2", "training.epochs=1"]


def det(*arguments: str) -> int:
    try:
        main([*arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five molecules in the layout of OGB's archive."""
    folder = tmp_path / "data" / "pcqm4m-v2"
    (folder / "raw").mkdir(parents=True)
    (folder / "raw/data.csv.gz").write_bytes(gzip.compress(ROWS.encode()))
    splits = {"train": [0, 1], "valid": [3], "test-dev": [4, 2]}
    torch.save({name: np.array(rows) for name, rows in splits.items()}, folder / "split_dict.pt")
    monkeypatch.setenv("DET_DATA", str(tmp_path / "data"))
    return folder / "raw/data.csv.gz"


def train(run: Path, *settings: str) -> int:
    recipe = ("graph/pcqm4m-v2-sample", "data.name=pcqm4m-v2")
    return det("train", *recipe, *SETTINGS, *settings, "--output", str(run))


@pytest.mark.usefixtures("data")
def test_predictions_of_the_hidden_split_in_its_order(tmp_path: Path) -> None:
    run, output = tmp_path / "run", tmp_path / "out"
    assert train(run) == 0
    assert det("submit", str(run), "-o", str(output)) == 0
    with np.load(output / "y_pred_pcqm4m-v2_test-dev.npz") as file:
        predicted = file["y_pred"]
    task = load_run(run)
    assert isinstance(task, GraphTask)
    assert (predicted.shape, predicted.dtype) == ((2,), np.float32)
    alone = task.predict_graphs(task.data.graphs, np.array([4, 2]))[:, 0]
    torch.testing.assert_close(torch.from_numpy(predicted), alone)


def test_a_submission_needs_every_molecule(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(run: str, message: str) -> bool:
        code = det("submit", str(tmp_path / run), "-o", str(tmp_path / "none"))
        said = " ".join(capsys.readouterr().err.split())
        return code == 2 and message in said and not (tmp_path / "none").exists()

    assert train(tmp_path / "limited", "data.limit=4") == 0
    assert refused("limited", "has data.limit=4")
    data.write_bytes(gzip.compress(ROWS.replace("1,C,", "1,XX,").encode()))
    assert train(tmp_path / "failed") == 2
    assert f"{data}:3: the SMILES 'XX' cannot be read" in capsys.readouterr().err
    assert train(tmp_path / "skipped", "data.bad_rows=skip") == 0
    assert det("submit", str(tmp_path / "skipped"), "-o", str(tmp_path / "out")) == 0  # only of training
    data.write_bytes(gzip.compress(ROWS.replace("2,CC,", "2,XX,").encode()))
    assert train(tmp_path / "short", "data.bad_rows=skip") == 0
    assert refused("short", "1 molecules of the test split could not be read (the first: row 3")


def test_other_runs_have_no_leaderboard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert det("train", str(tiny_yaml("graph", tmp_path, epochs=1)), "--output", str(tmp_path / "run")) == 0
    assert det("submit", str(tmp_path / "run"), "-o", str(tmp_path / "out")) == 2
    assert "is not a run on pcqm4m or pcqm4m-v2" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()
