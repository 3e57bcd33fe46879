"""Platforms: presets, scenario tables, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from eunomia.core.errors import EunomiaError, PlatformError, UnknownNameError
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.platform import Platform, from_config, load_platform, platform_names
from eunomia.hardware.types import load_type


@pytest.mark.parametrize("name", platform_names())
def test_presets_load(name: str) -> None:
    platform = load_platform(name)
    assert platform.name == name
    assert platform.description
    assert len(platform.names) == len(set(platform.names)) == platform.size


def test_types_are_distinct_and_stable() -> None:
    simba, eyeriss = load_type("simba"), load_type("eyeriss")
    platform = Platform("p", ((eyeriss, 1), (simba, 2), (eyeriss, 1)), math.inf)
    assert platform.types == ("eyeriss", "simba")
    assert platform.type_of.tolist() == [0, 1, 1, 0]
    assert platform.type_of.dtype == np.int64
    assert platform.names == ("eyeriss-0", "simba-0", "simba-1", "eyeriss-1")


def test_a_scenario_table() -> None:
    platform = from_config(
        {"accelerators": [{"type": "simba", "count": 4}, {"type": "eyeriss"}], "dram_bandwidth_gb_s": 32,
         "contention": "max_min"}
    )  # fmt: skip
    assert (platform.size, platform.dram_bytes_s, platform.contention) == (5, 32e9, "max_min")
    narrowed = from_config({"preset": "simba3-eyeriss3", "dram_bandwidth_gb_s": 16.0})
    assert narrowed.dram_bytes_s == 16e9
    assert narrowed.types == ("simba", "eyeriss")


def test_a_mapper_holds_for_all_types_that_have_one() -> None:
    platform = from_config({"preset": "simba3-eyeriss3", "mapper": "least_latency"})
    assert all(isinstance(k, AcceleratorType) and k.mapper == "least_latency" for k in platform.kinds)
    mixed = [{"type": "t4"}, {"type": "eyeriss"}]
    gpu, npu = from_config({"accelerators": mixed, "dram_bandwidth_gb_s": 8, "mapper": "least_latency"}).kinds
    assert gpu == load_type("t4")
    assert npu != load_type("eyeriss")
    with pytest.raises(
        PlatformError, match="unknown mapper 'fast'; choose one of: least_dram, least_latency"
    ):
        from_config({"preset": "edge-npu", "mapper": "fast"})


ONE = [{"type": "simba", "count": 1}]


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        ({"accelerators": [], "dram_bandwidth_gb_s": 1}, PlatformError, "no accelerators"),
        ({"dram_bandwidth_gb_s": 1}, PlatformError, "no accelerators"),
        ({"accelerators": [{"type": "simba", "count": 0}], "dram_bandwidth_gb_s": 1}, PlatformError, "is 0"),
        (
            {"accelerators": [{"type": "simbaa"}], "dram_bandwidth_gb_s": 1},
            UnknownNameError,
            "did you mean 'simba'",
        ),
        ({"accelerators": ONE, "dram_bandwidth_gb_s": 0}, PlatformError, "must be positive"),
        ({"accelerators": ONE}, PlatformError, "dram_bandwidth_gb_s is None"),
        ({"accelerators": ONE, "dram_bandwidth_gb_s": math.nan}, PlatformError, "dram_bandwidth_gb_s is nan"),
        (
            {"accelerators": ONE, "dram_bandwidth_gb_s": 1, "contention": "maxmin"},
            UnknownNameError,
            "max_min",
        ),
        (
            {"accelerators": ONE, "dram_bandwith_gb_s": 1},
            UnknownNameError,
            "did you mean 'dram_bandwidth_gb_s'",
        ),
        (
            {"accelerators": [{"type": "simba", "cuont": 1}], "dram_bandwidth_gb_s": 1},
            UnknownNameError,
            "'count'",
        ),
        ({"accelerators": [{"count": 1}], "dram_bandwidth_gb_s": 1}, PlatformError, "give one of type"),
        ({"preset": "simba3"}, UnknownNameError, "unknown platform 'simba3'"),
    ],
)
def test_wrong_platforms_are_refused(config: dict[str, Any], error: type[EunomiaError], message: str) -> None:
    with pytest.raises(error, match=message):
        from_config(config)


def test_two_types_of_one_name_are_refused() -> None:
    simba = load_type("simba")
    with pytest.raises(PlatformError, match="two different types"):
        Platform("p", ((simba, 1), (simba.with_(clock_hz=2e9), 1)), 1e9)  # type: ignore[union-attr]
