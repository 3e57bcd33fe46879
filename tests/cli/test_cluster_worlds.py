"""``eunomia cluster pool`` and ``deferrable`` as a shell sees them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.shell import Shell

EXAMPLES = Path(__file__).parents[2] / "examples"
POOL = EXAMPLES / "cluster_pool.toml"
DAY = EXAMPLES / "cluster_deferrable.toml"
SMALL = ("--set", "generate.jobs=40", "--seeds", 2)

HAND_POOL = """
name = "one machine"
flavour = [{ name = "small", cpu = 2.0, memory_gib = 4.0, price_per_hour = 3.6 }]
job = [{ name = "a", run_s = 100.0 }, { name = "b", run_s = 100.0 }]
pool = { keep = 1 }
compare = { schedulers = ["least_requested"], seeds = 1 }
"""
HAND_DAY = """
name = "four slots"
slots = { left_over = [1, 2, 1, 0], forecast = [2, 2, 2, 0] }
job = [{ name = "wide", devices = 2, slots = 1, latest = 2 }, { name = "long", slots = 3, latest = 0 }]
compare = { policies = ["first_fit", "informed_first_fit", "offline_optimum"], seeds = 1 }
"""


def test_the_pool_compares_schedulers_and_loses_nobody(shell: Shell) -> None:
    done = shell("cluster", "pool", POOL, *SMALL, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["seeds"] == [0, 1]
    assert list(found["methods"]) == ["least_requested", "htas"]
    for figures in found["methods"].values():
        assert figures["submitted"] == [40.0, 40.0]
        assert [f + u for f, u in zip(figures["finished"], figures["unfinished"], strict=True)] == [
            40.0,
            40.0,
        ]
    shown = shell("cluster", "pool", POOL, *SMALL)
    assert "cost / least_requested" in shown.out


def test_two_containers_on_the_machine_that_is_there(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "pool.toml"
    file.write_text(HAND_POOL)
    figures = json.loads(shell("cluster", "pool", file, "--json").out)["methods"]["least_requested"]
    assert figures["wait_mean_s"] == [0.0]
    assert figures["turnaround_mean_s"] == [100.0]
    # both end at 100 s, which the point of scheduling at 100 s sees; the next one, at 120 s, ends the run
    assert figures["cost"] == [pytest.approx(120.0 * 3.6 / 3600.0)]
    assert figures["rented"] == [1.0]


def test_deferrable_jobs_beside_the_optimum(shell: Shell) -> None:
    done = shell("cluster", "deferrable", DAY, "--seeds", 2, "--json")
    assert done.code == 0, done.err
    methods = json.loads(done.out)["methods"]
    for seed in range(2):
        best = methods["offline_optimum"]
        assert best["overload"][seed] == 0.0
        # who knows the truth and never overloads serves no more than the optimum
        assert methods["informed_first_fit"]["served"][seed] <= best["served"][seed] + 2e-3
        for figures in methods.values():
            assert figures["started"][seed] + figures["window_passed"][seed] == figures["jobs"][seed]


def test_a_day_by_hand(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "day.toml"
    file.write_text(HAND_DAY)
    methods = json.loads(shell("cluster", "deferrable", file, "--json").out)["methods"]
    # slot 0: one device is there, so "wide" must wait and "long" starts; it leaves one of two devices in slot 1
    assert methods["first_fit"]["served"] == [3.0 / 5.0]
    assert methods["first_fit"]["overload"] == [0.0]
    assert methods["offline_optimum"]["served"] == [3.0 / 5.0]
    assert methods["offline_optimum"]["utilisation"] == [3.0 / 4.0]


@pytest.mark.parametrize(
    ("verb", "file", "change", "said"),
    [
        ("pool", POOL, "generate.pattern=bursty", "generate.pattern"),
        ("pool", POOL, "pool.cycle_s=0.0", "pool.cycle_s is 0.0; it must be greater than 0"),
        ("pool", POOL, "pool.cycles=1", "unknown key 'cycles'; did you mean 'cycle_s'?"),
        ("pool", POOL, "compare.schedulers=['htas', 'htas']", "scheduler 'htas' is named twice"),
        ("pool", POOL, "generate.error=nan", "generate.error"),
        ("deferrable", DAY, "compare.policies=['best_fit']", "compare.policies"),
        ("deferrable", DAY, "generate.load=-1.0", "generate.load is -1.0; it must be greater than 0"),
        ("deferrable", DAY, "slots.left_over=[1, 2]", "give either [generate], or [slots] and [[job]]"),
    ],
)
def test_bad_settings_are_one_sentence(shell: Shell, verb: str, file: Path, change: str, said: str) -> None:
    done = shell("cluster", verb, file, "--set", change)
    assert done.code == 2, done.err
    assert said in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("verb", "text", "said"),
    [
        ("pool", HAND_POOL.replace('"b"', '"a"'), "job 'a' is named twice"),
        (
            "pool",
            HAND_POOL.replace('"b", run_s = 100.0', '"b", run_s = 9.0, cpu = 3.0'),
            "job 'b' (3 cores, 1 GiB) fits on no flavour",
        ),
        (
            "pool",
            HAND_POOL.replace("price_per_hour = 3.6", "price_per_hour = 0.0"),
            "it must be greater than 0",
        ),
        ("pool", "name = ", "pool.toml"),
        ("deferrable", HAND_DAY.replace("[2, 2, 2, 0]", "[2, 2]"), "left_over has 4 slots, forecast 2"),
        ("deferrable", HAND_DAY.replace("latest = 2 }", "earliest = 3, latest = 2 }"), "job 'wide'"),
        ("deferrable", HAND_DAY.replace('"long"', '"wide"'), "job 'wide' is named twice"),
    ],
)
def test_bad_files_are_one_sentence(shell: Shell, tmp_path: Path, verb: str, text: str, said: str) -> None:
    file = tmp_path / f"{verb}.toml"
    file.write_text(text)
    done = shell("cluster", verb, file)
    assert done.code == 2, done.err
    assert said in done.err
    assert "Traceback" not in done.err


def test_one_flavour_for_all_that_wait_must_exist(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "pool.toml"
    wide = '{ name = "flat", cpu = 4.0, memory_gib = 1.0, price_per_hour = 1.0 }]'
    file.write_text(
        HAND_POOL.replace("}]", "}, " + wide, 1).replace(
            '"b", run_s = 100.0', '"b", run_s = 9.0, cpu = 3.0'
        ).replace('"a", run_s = 100.0', '"a", run_s = 9.0, memory_gib = 4.0')
    )  # fmt: skip
    done = shell("cluster", "pool", file)
    assert done.code == 2
    assert "least_requested rents machines of one flavour, and no flavour fits every job" in done.err
