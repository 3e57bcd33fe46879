"""The gate on memory bandwidth: ratios by hand, and two real workers with a network that none of us made."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import pytest

from eunomia.core.errors import ConfigError, EunomiaError
from eunomia.study.sharing.gate import Gated, GateStudy, run_gate


def _round(**seconds: float) -> dict[str, tuple[dict[str, float], dict[str, float]]]:
    names = {"alone": "heavy alone", "beside": "heavy beside heavy", "will": "at will", "gate": "gate"}
    return {names[key]: ({"s": s, "lost": 0.0}, {"s": s, "lost": 0.2}) for key, s in seconds.items()}


def test_ratios_by_hand() -> None:
    rounds = [
        _round(alone=1.0, beside=1.2, will=2.0, gate=2.2),
        _round(alone=1.0, beside=1.2, will=4.0, gate=4.4),
    ]
    found = Gated(GateStudy(), tuple(rounds), 1.0)
    ratios = {name: one.mean for name, one in found.estimates().items()}
    assert ratios["heavy beside heavy / alone"] == pytest.approx(1.2)
    assert ratios["gate / at will"] == pytest.approx(1.1)
    assert ratios["by slowdown / at will"] == pytest.approx(1.0)  # 1.2 shuts no gate
    shut = Gated(GateStudy(), tuple(_round(alone=1.0, beside=1.8, will=2.0, gate=1.6) for _ in range(3)), 1.0)
    assert shut.estimates()["by slowdown / at will"].mean == pytest.approx(0.8)
    assert shut.sentences() == [
        "streaming beside streaming takes 1.80 times as long; the gate gains",
        "other programs took 10.0% of the two cores",
    ]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two workers need two cores")
def test_two_workers_take_turns(tmp_path: Path) -> None:
    """Layers of PyTorch's converter, from the test data that the package onnx brings along."""
    data = Path(onnx.__file__).parent / "backend" / "test" / "data" / "pytorch-converted"
    light, heavy = data / "test_Conv2d" / "model.onnx", data / "test_Conv2d_groups" / "model.onnx"
    if not heavy.exists():
        pytest.skip("this onnx has no test data")
    found = run_gate(GateStudy(light, heavy, block_s=0.05, budget_s=0.1), tmp_path)
    assert len(found.rounds) == 4 and (tmp_path / "gate.json").exists()
    assert all(one.mean > 0.0 for one in found.estimates().values())


def test_wrong_inputs_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"blocks of 0 s within 200\.0 s"):
        GateStudy(block_s=0)
    broken = tmp_path / "broken.onnx"
    broken.write_text("no network")
    with pytest.raises(EunomiaError, match="a worker: .*broken"):
        run_gate(GateStudy(broken, broken, 0.05, 0.1), tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    with pytest.raises(ConfigError, match="two workers need two cores; this program may use 1"):
        run_gate(GateStudy(), tmp_path)
