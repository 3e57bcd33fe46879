"""ZigZag as a second opinion: absent, it is asked for in one sentence; present, it agrees roughly."""

from __future__ import annotations

import sys

import pytest

from eunomia.core.errors import ConfigError, PlatformError
from eunomia.hardware.types import cost_of, load_type
from eunomia.hardware.zigzag import zigzag_cost
from eunomia.workload.model import Layer

SQUARE = Layer("conv", "conv", in_channels=128, out_channels=128, in_h=28, in_w=28, out_h=28, out_w=28, kernel_h=3,
               kernel_w=3, weight_elements=128 * 128 * 9)  # fmt: skip


def test_without_zigzag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zigzag", None)
    monkeypatch.setitem(sys.modules, "zigzag.api", None)
    with pytest.raises(ConfigError, match=r"pip install 'eunomia\[zigzag\]'"):
        zigzag_cost(SQUARE)


def test_layers_without_macs_are_refused() -> None:
    with pytest.raises(PlatformError, match="'pool' has no MACs"):
        zigzag_cost(Layer("pool", "pool", ops=1))


def test_against_the_systolic_type() -> None:
    pytest.importorskip("zigzag", reason="needs the extra zigzag")
    cost = zigzag_cost(SQUARE, "tpu_like")
    assert cost.cycles == pytest.approx(cost_of(SQUARE, load_type("systolic")).latency_s * 1e9, rel=0.25)
    assert cost.origin == "imported (zigzag, tpu_like, limit 5)"
    with pytest.raises(ConfigError, match="tpu_like"):
        zigzag_cost(SQUARE, "nothing_like")


def test_stored_figure_without_zigzag() -> None:
    """ZigZag 3.8+ on its tpu_like template, limit 5: 127,360 cycles; 115,209 in the specification's own run."""
    assert 0.75 * 127_360 < cost_of(SQUARE, load_type("systolic")).latency_s * 1e9 < 1.25 * 115_209
