"""Wrong arguments of the Python API: an error of ours with the value and the remedy, never a library's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eunomia

SCENARIO = eunomia.demo_scenario(["duration_s=0.15"])
CALLS: dict[str, tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]] = {
    "None is no configuration; give a Scenario": (eunomia.run, (None,), {}),
    "None is given for a scenario; give its path": (eunomia.load_scenario, (None,), {}),
    "None is given for a run; give its path": (eunomia.read_run, (None,), {}),
    "3 is given for a comparison; give its path": (eunomia.read_comparison, (3,), {}),
    "None is given for an ONNX file; give its path": (eunomia.read_onnx, (None,), {}),
    "3 is given for a learned policy; give its path": (eunomia.evaluate, (3, SCENARIO), {}),
    "{} is given for a training file; give its path": (eunomia.train, ({},), {}),
    "record is 'some'; choose one of: first, all, requests": (
        eunomia.compare,
        (SCENARIO,),
        {"record": "some"},
    ),
    "on_done is 3; give a function": (eunomia.compare, (SCENARIO,), {"on_done": 3}),
    "engine.late is 'run'; give a list of values": (eunomia.sweep, (SCENARIO, {"engine.late": "run"}), {}),
    "grid is ['load']; give a dictionary": (eunomia.sweep, (SCENARIO, ["load"]), {}),
    "has in_channels = '2'; it must be a whole number": (
        eunomia.Layer,
        ("a", "matmul"),
        {"in_channels": "2"},
    ),
    "has in_h = 2.5; it must be a whole number": (eunomia.Layer, ("a", "conv"), {"in_h": 2.5}),
    "change is None; give eunomia.Change": (eunomia.what_if, ({}, None), {}),
}


@pytest.mark.parametrize("says", CALLS)
def test_a_wrong_argument_is_named_with_its_value(says: str) -> None:
    call, arguments, keywords = CALLS[says]
    with pytest.raises(eunomia.EunomiaError) as error:
        call(*arguments, **keywords)
    assert says in str(error.value)


def test_a_comparison_refuses_names_that_it_does_not_have() -> None:
    compared = eunomia.compare(SCENARIO, ["edf"], seeds=1)
    for ask, says in (
        (lambda: compared.estimate("fcfs", "hit_rate"), "unknown policy of this comparison 'fcfs'"),
        (lambda: compared.values("edf", "hitrate"), "unknown metric 'hitrate'; did you mean 'hit_rate'?"),
        (lambda: compared.tenant("edf", "nobody"), "unknown tenant 'nobody'"),
    ):
        with pytest.raises(eunomia.EunomiaError) as error:
            ask()
        assert says in str(error.value)
