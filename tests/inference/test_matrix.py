"""Slowdowns by a table: closed forms in both engines, and from a scenario file to a run."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eunomia
from eunomia.config.load import scenario_from
from eunomia.contract.contention.slowdowns import Slowdowns
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.inference.reference import Rule
from eunomia.study.inference.notes import slowdown_notes
from tests.inference.strategies import Case
from tests.inference.test_hand_worked import both_engines, case, chain, run_short
from tests.shared_data import shared

TABLE = Slowdowns(
    ("Q", "P"), ((1.0, 2.0), (1.5, 1.25))
)  # of Q and P; the case names them the other way round


def _case(count: int, slowdowns: Slowdowns | None) -> Case:
    """P (2 s), then a second later so many Q (0.5 s), each on an accelerator of its own."""
    requests = [(0, 0.0, inf), *[(1, 1.0, inf)] * count]
    made = case(
        [chain("P", 1), chain("Q", 1)], [[2], [0.5]], requests, [0] * (count + 1), contention="matrix"
    )
    return replace(made, platform=replace(made.platform, slowdowns=slowdowns))


@both_engines
def test_a_pair_by_hand(engine: str) -> None:
    # Beside P, Q takes 2 x 0.5 s: it ends at 2. P has then done 1 + 1 / 1.5, and goes on alone for 1/3 s.
    assert run_short(engine, _case(1, TABLE), Rule("fcfs")).finish_s == pytest.approx([2.0 + 1.0 / 3.0, 2.0])


@both_engines
def test_slowdowns_multiply(engine: str) -> None:
    # Q beside P and Q: 2 x 1 times as long, 1 s; both end at 2. P beside both: 1.5 x 1.5, 1 / 2.25 s done by then.
    found = run_short(engine, _case(2, TABLE), Rule("fcfs")).finish_s
    assert found == pytest.approx([3.0 - 1.0 / 2.25, 2.0, 2.0])


@both_engines
def test_a_measured_company_of_three_replaces_the_product(engine: str) -> None:
    # P beside two Q is known to take 4 times as long: 0.25 s done at 2, the rest alone.
    found = run_short(engine, _case(2, replace(TABLE, threes=((1, 0, 0, 4.0),))), Rule("fcfs")).finish_s
    assert found == pytest.approx([2.75, 2.0, 2.0])


@both_engines
def test_noise_below_one_speeds_nothing_up(engine: str) -> None:
    quiet = Slowdowns(("P", "Q"), ((0.9, 0.8), (0.95, 0.9)))
    assert run_short(engine, _case(1, quiet), Rule("fcfs")).finish_s == pytest.approx([2.0, 1.5])


def test_a_platform_without_the_table_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"this platform has none; give platform\.slowdowns"):
        _case(1, None).problem()
    with pytest.raises(ConfigError, match="has no network 'P'; it has: Q"):
        _case(1, Slowdowns(("Q",), ((1.0,),))).problem()


@pytest.mark.parametrize("wrong", [((1.0,),), ((1.0, 0.0), (1.0, 1.0)), ((1.0, float("nan")), (1.0, 1.0))])
def test_a_wrong_table_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="2 x 2|must be positive"):
        Slowdowns(("P", "Q"), wrong)


COLUMNS = "target,neighbours,kind,slowdown,low,high\n"


def _scenario(slowdowns: dict[str, Any], *networks: str) -> dict[str, Any]:
    """One tenant per network, on two accelerators that are rarely idle."""
    tenants = [
        {
            "name": name,
            "models": [{"model": name}],
            "arrivals": {"process": "closed_loop", "clients": 4, "requests_per_client": 5},
        }
        for name in networks
    ]
    platform = {"accelerators": [{"type": "simba", "count": 2}], "dram_bandwidth_gb_s": 32.0}
    both = {**platform, "contention": "matrix", "slowdowns": slowdowns}
    return {"name": "m", "duration_s": 0.05, "tenant": tenants, "platform": both}


def _most(run: Any) -> float:
    """The greatest time of a layer over its time alone."""
    jobs = run.records.tables["subjobs"]
    took = np.asarray(jobs["end_s"]) - np.asarray(jobs["start_s"])
    return float(np.nanmax(took / np.asarray(jobs["work_s"])))


def test_a_measured_file_slows_a_scenario(tmp_path: Path) -> None:
    file = tmp_path / "corun.csv"
    rows = ["kws-res8,kws-res8,own,1.5,1.0,2.0", "kws-res8,kws-res8,same,2.5,2.4,2.6"]
    file.write_text(COLUMNS + "\n".join([*rows, "kws-res8,a+b+c,own,9,8,10"]) + "\n")
    for kind, slow in (("own", 1.5), ("same", 2.5)):
        run = eunomia.run(_scenario({"file": str(file), "kind": kind}, "kws-res8"), "fcfs")
        assert _most(run) == pytest.approx(slow)
        assert run.records.manifest["engine"]["slowdowns"]["pairs"] == ((slow,),)
    with pytest.raises(ConfigError, match="co-runs of kinds 'own', 'same'; choose one by kind"):
        eunomia.run(_scenario({"file": str(file)}, "kws-res8"), "fcfs")
    with pytest.raises(UnknownNameError, match="unknown kind 'gpu'"):
        eunomia.run(_scenario({"file": str(file), "kind": "gpu"}, "kws-res8"), "fcfs")
    (told,) = slowdown_notes(scenario_from(_scenario({"file": str(file), "kind": "own"}, "kws-res8")))
    assert (
        "1 of 1 measured slowdowns have intervals wider than 25%, the widest (67%) that of kws-res8" in told
    )


def test_what_gavels_authors_measured(tmp_path: Path) -> None:
    """Steps per second on a P100, alone and side by side; what they did not measure is estimated, or refused."""
    known = json.loads(shared("gavel/physical_cluster_throughputs.json").read_text())["p100"]
    jobs = {"resnet18": "('ResNet-18 (batch size 16)', 1)", "resnet50": "('ResNet-50 (batch size 16)', 1)"}
    slow = {
        (a, b): known[jobs[a]]["null"] / known[jobs[a]][jobs[b]][0]
        for a in jobs
        for b in jobs
        if jobs[b] in known[jobs[a]]
    }
    file = tmp_path / "gavel.csv"
    file.write_text(
        "target,neighbours,kind,slowdown\n" + "".join(f"{a},{b},p100,{s}\n" for (a, b), s in slow.items())
    )
    run = eunomia.run(_scenario({"file": str(file)}, *jobs), "fcfs")
    assert 1.0 < _most(run) <= max(slow.values()) + 1e-9
    more = _scenario({"file": str(file)}, *jobs, "squeezenet")
    with pytest.raises(
        ConfigError, match="5 of 9 pairs .* such as 'resnet18' beside 'squeezenet'; measure them"
    ):
        eunomia.run(more, "fcfs")
    more["platform"]["slowdowns"]["missing"] = "mean"
    (told,) = slowdown_notes(scenario_from(more))
    assert told.startswith("slowdowns of 5 pairs are estimated (mean): resnet18 beside squeezenet")


def test_pairs_in_the_scenario_itself() -> None:
    pairs = {"kws-res8": {"kws-res8": 1.25, "kws-res8+kws-res8": 3.0}}
    made = _scenario({"pairs": pairs}, "kws-res8")
    made["platform"]["accelerators"][0]["count"] = 3
    assert 1.25 < _most(eunomia.run(made, "fcfs")) <= 3.0 + 1e-9
    with pytest.raises(UnknownNameError, match="unknown network 'kws' in pairs; did you mean 'kws-res8'"):
        eunomia.run(_scenario({"pairs": {"kws": {"kws-res8": 2.0}}}, "kws-res8"), "fcfs")
    del made["platform"]["contention"]
    with pytest.raises(
        ConfigError, match='slowdowns are given, but contention is not; write contention = "matrix"'
    ):
        eunomia.run(made, "fcfs")
