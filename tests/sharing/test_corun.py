"""The co-run harness: ratios by hand, what is measured next, workers that fail, a measurement that goes on."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError, EunomiaError, RecordError, UnknownNameError
from eunomia.sharing.corun.crew import Crew, busy_s
from eunomia.sharing.corun.design import Block, Case, Design, cases_of, log_ratios, wanting
from eunomia.sharing.corun.store import Store
from eunomia.sharing.corun.stressors import KINDS, stressor
from eunomia.sharing.interference.table import read_co_runs
from eunomia.study.sharing.corun import run_corun

LAST = max(os.sched_getaffinity(0))


def _blocks(*each_s: float, lost: float = 0.0) -> list[Block]:
    """Alone, beside, beside, alone, ...: 10 iterations each."""
    order = [False, True, True, False] * len(each_s)
    return [Block(b, 10, 10.0 * s, 5.0 * s, lost) for b, s in zip(order, each_s, strict=False)]


def test_ratios_by_hand() -> None:
    """1 and 1.5 s, then 1.8 and 1.2 s: the machine became slower by a fifth, the ratio stayed 1.5."""
    ratios, aside = log_ratios(_blocks(1.0, 1.5, 1.8, 1.2), 0.1)
    assert ratios == pytest.approx([math.log(1.5)] * 2) and aside == 0
    assert log_ratios(_blocks(1.0, 1.5, 1.8, 1.2), 0.1, by_cpu=True)[0] == pytest.approx(ratios)


def test_disturbed_pairs_are_set_aside_where_enough_are_left() -> None:
    calm, disturbed = _blocks(1.0, 2.0), _blocks(1.0, 9.0, lost=0.5)
    ratios, aside = log_ratios([*calm * 4, *disturbed], 0.1)
    assert ratios == pytest.approx([math.log(2.0)] * 4) and aside == 1
    ratios, aside = log_ratios([*calm, *disturbed], 0.1)
    assert ratios == pytest.approx([math.log(2.0), math.log(9.0)]) and aside == 1


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), drift=st.floats(-0.05, 0.05), slowdown=st.floats(1.0, 3.0))
def test_drift_cancels(seed: int, drift: float, slowdown: float) -> None:
    """A machine that becomes slower or faster at an even pace moves no mean of four blocks."""
    order = [False, True, True, False]
    speed = [math.exp(drift * n) * (slowdown if beside else 1.0) for n, beside in enumerate(order)]
    ratios, _ = log_ratios(_blocks(*speed), 0.1)
    assert np.mean(ratios) == pytest.approx(math.log(slowdown), abs=1e-9)


def test_the_wide_interval_with_fewest_blocks_is_next() -> None:
    a, b = cases_of(Design(("compute",)))
    assert {a.place, b.place} == {"own core", "same core"}
    assert wanting([(a, 0.04, 4), (b, 0.2, 8)], 0.05) == b
    assert (
        wanting([(a, math.inf, 8), (b, 0.2, 4)], 0.05) == b
    )  # the widest first once spent the budget on one
    assert wanting([(a, 0.2, 4), (b, 0.3, 4)], 0.05) == b
    assert wanting([(a, 0.04, 4), (b, 0.05, 4)], 0.05) is None
    assert len(cases_of(Design(("compute", "cache"), degrees=(1, 2)))) == 2 * (2 * 2 + 2 * 3)


def test_a_measurement_goes_on_and_its_table_is_read_by_the_predictors(tmp_path: Path) -> None:
    design = Design(("compute",), ("same core",), block_s=0.01, budget_s=1e-6)
    case = cases_of(design)[0]
    store = Store(tmp_path, design)
    store.add(case, _blocks(1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0, 1.0))
    found = run_corun(design, tmp_path)  # the budget is spent before anything is measured
    assert found.found[0].pairs == 4 and found.found[0].wall.mean == pytest.approx(2.0)
    (row,) = read_co_runs(tmp_path / "corun.csv")
    assert (row.target, row.neighbours, row.kind) == ("compute", ("compute",), "same core")
    manifest = json.loads((tmp_path / "corun.json").read_text())["manifest"]
    assert manifest["machine"]["cores"]
    with pytest.raises(ConfigError, match="of other clients or blocks"):
        run_corun(Design(("cache",)), tmp_path)
    (tmp_path / "corun.json").write_text("[]")
    with pytest.raises(RecordError, match="not a measurement of co-runs"):
        run_corun(design, tmp_path)


def test_real_blocks_on_one_core() -> None:
    """Two of a kind, or three, on one core: what the processor gave, not how quick it is."""
    with Crew([LAST]) as crew:
        before = busy_s([LAST])
        blocks = crew.blocks(Case("cache", ("cache", "compute"), "same core"), 0.05)
        assert [block.beside for block in blocks] == [False, True, True, False]
        assert all(block.iterations >= 1 and block.wall_s > 0.0 for block in blocks)
        assert busy_s([LAST]) > before


def test_clients_that_fail(tmp_path: Path) -> None:
    (tmp_path / "x.onnx").write_bytes(b"no network")
    with Crew([LAST]) as crew:
        with pytest.raises(EunomiaError, match="client '.*x.onnx'"):
            crew.blocks(Case(str(tmp_path / "x.onnx"), ("compute",), "same core"), 0.05)
        with pytest.raises(EunomiaError, match="client 'comput': unknown stressor 'comput'; did you mean"):
            crew.blocks(Case("comput", ("compute",), "same core"), 0.05)


def test_stressors() -> None:
    for kind in KINDS:
        work = stressor(f"{kind}@0.5")
        work()
        work()
    for wrong in ("compute@0", "compute@2", "compute@x"):
        with pytest.raises(ConfigError, match="more than 0, at most 1"):
            stressor(wrong)
    with pytest.raises(UnknownNameError, match="choose one of: bandwidth, cache, compute"):
        stressor("network")


def test_bad_designs() -> None:
    with pytest.raises(ConfigError, match="no client"):
        Design(())
    with pytest.raises(UnknownNameError, match="choose one of: own core, same core"):
        Design(("compute",), ("here",))
    with pytest.raises(ConfigError, match="each at least 1"):
        Design(("compute",), degrees=(0,))
    with pytest.raises(ConfigError, match="budget_s is nan"):
        Design(("compute",), budget_s=math.nan)
    with pytest.raises(ConfigError, match="3 clients on cores of their own, but this process has 2"):
        Design(("compute",), degrees=(2,)).check_cores(2)
    Design(("compute",), ("same core",), degrees=(2,)).check_cores(1)


def test_a_network_that_fails_to_load_ends_it_before_anything_is_measured(tmp_path: Path) -> None:
    """However small the budget, and whatever stands before it."""
    bad = tmp_path / "bad.onnx"
    bad.write_text("no network")
    design = Design(("compute", str(bad)), ("same core",), budget_s=0.001)
    with pytest.raises(EunomiaError, match=r"bad\.onnx"):
        run_corun(design, tmp_path / "out")
    assert not (tmp_path / "out" / "corun.csv").exists()
