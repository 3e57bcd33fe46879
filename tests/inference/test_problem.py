"""Problems that nobody could run are refused in one sentence."""

from __future__ import annotations

import numpy as np
import pytest

from eunomia.core.errors import PlatformError
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import build_problem
from tests.inference.strategies import ToyPlatform, toy_table
from tests.metrics.tiny import tiny

INF = float("inf")


def test_a_layer_that_nothing_present_can_run_is_named() -> None:
    case = tiny([[[1.0, 1.0], [INF, 2.0]]], [(0, 0.0, 9.0)], [0, 1])
    with pytest.raises(PlatformError, match="can run layer 'layer1' of model 'net0'"):
        platform = ToyPlatform(("type0",), np.array([0]), INF)
        build_problem(case.request_table, case.table, platform, EngineOptions())


def test_a_type_without_an_accelerator_runs_nothing() -> None:
    case = tiny([[[INF, 2.0]]], [(0, 0.0, 9.0)], [0, 0])
    with pytest.raises(
        PlatformError, match=r"no accelerator of the platform \(type0\) can run layer 'layer0'"
    ):
        build_problem(case.request_table, case.table, case.platform, EngineOptions())


def test_a_table_that_lacks_a_type_is_refused() -> None:
    case = tiny([[[1.0]]], [(0, 0.0, 9.0)], [0])
    other = toy_table(list(case.table.models), ("gpu",), np.array([[1.0]]))
    with pytest.raises(PlatformError, match="no accelerator type 'type0'; it has: gpu"):
        build_problem(case.request_table, other, case.platform, EngineOptions())
