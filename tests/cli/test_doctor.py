import pytest
import torch
from tiny_runs import det

from detgraph.cli import doctor
from detgraph.training.run import PACKAGES


def test_all_is_well(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DET_DATA", "some-folder")
    answer = det(capsys, "doctor")
    assert (answer.code, answer.err) == (0, "")
    for text in (*PACKAGES, torch.__version__, "some-folder", "OMP_WAIT_POLICY", "commit"):
        assert text in answer.out
    assert answer.out.count("ok: ") == 2
    assert "All is well. Next: det demo" in answer.out


def test_no_data_folder(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DET_DATA", raising=False)
    assert "not set" in det(capsys, "doctor").out


def test_a_failed_check(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "searches_agree", lambda: False)
    answer = det(capsys, "doctor")
    assert answer.code == 1
    assert "FAILED: the quick and the plain search" in answer.out
    assert "ok: the dense" in answer.out
    assert "All is well" not in answer.out


def test_the_random_state_is_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    assert doctor.dense_equals_sparse()
    assert doctor.searches_agree()
    assert torch.equal(torch.rand(1), expected)
