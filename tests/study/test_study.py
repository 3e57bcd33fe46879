"""The protocol as a command: end to end on a tiny study, resumed after kill -9, alike for any number of processes."""

from __future__ import annotations

import csv
import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from eunomia.config.study import Study, study_from
from eunomia.core.errors import ConfigError, EunomiaError, OutputError
from eunomia.study.grid import load_study, run_study
from eunomia.study.grid.places import base_settings, places_of
from eunomia.study.grid.plan import total
from eunomia.study.grid.tasks import BRACKET_SEED, CALIBRATION_SEED, Spot
from eunomia.study.grid.traces import ground
from eunomia.study.inference.tuning import FIRST_VALIDATION_SEED
from tests import children

CHECKOUT = Path(__file__).resolve().parents[2]
SAME = ("study.json", "study.csv", "results.md", "report.html")

TINY = """
name = "tiny"
replications = 2
requests = 300
warmup_requests = 30
policies = ["fcfs", "edf+eft"]
decision_repeats = 1

[platform]
preset = "simba3-eyeriss3"

[engine]
late = "drop"

[deadlines]
requests = 300

[validation]
traces = 1
requests = 200

[bracket]
windows = 2
requests = 40
evaluations = 60

[[rival]]
name = "best"
candidates = ["edf", "edf+eft"]
gates = [0.8]

[claim]
champion = "best"
rivals = ["fcfs"]

[[grid]]
name = "main"
sets = ["moca-light"]
qos = ["m"]
loads = [0.7, 1.2]
bracket = true

[[grid]]
name = "costs"
sets = ["moca-light"]
qos = ["m"]
loads = [1.2]
vary = { costs.perturbation = [0.5], engine.late = ["drop", "last"] }
policies = ["best", "fcfs"]
"""


def file_of(folder: Path, text: str = TINY) -> Path:
    path = folder / "tiny.toml"
    path.write_text(text)
    return path


def tiny(folder: Path, *overrides: str) -> Study:
    return load_study(file_of(folder), overrides)


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in SAME}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results of the tiny study, run by one process."""
    folder = tmp_path_factory.mktemp("study")
    run_study(tiny(folder), folder / "one", workers=1)
    return folder / "one"


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "study.csv").open() as file:
        return list(csv.DictReader(file))


def test_every_place_has_every_policy_and_replication(finished: Path) -> None:
    found = rows(finished)
    main = [row for row in found if row["grid"] == "main"]
    assert len(main) == 2 * 3 * 2  # loads x rows x replications
    assert {row["policy"] for row in main} == {"fcfs", "edf+eft", "best"}
    assert all(int(float(row["requests"])) >= 300 for row in main)
    assert all(0.0 < float(row["hit_rate"]) <= 1.0 for row in found)
    assert {row["variation"] for row in found if row["grid"] == "costs"} == {
        "perturbation=0.5, late=drop", "perturbation=0.5, late=last",
    }  # fmt: skip


def test_more_load_serves_less_and_the_choice_is_a_candidate(finished: Path) -> None:
    def mean(policy: str, load: str) -> float:
        mine = [r for r in rows(finished) if (r["grid"], r["policy"], r["load"]) == ("main", policy, load)]
        return sum(float(row["hit_rate"]) for row in mine) / len(mine)

    assert mean("fcfs", "1.2") < mean("fcfs", "0.7")
    assert {row["ran"] for row in rows(finished) if row["policy"] == "best"} <= {
        "edf", "edf+eft", "edf+g0.8", "edf+eft+g0.8",
    }  # fmt: skip


def test_no_policy_beats_the_bound_and_the_search_is_below_it(finished: Path) -> None:
    study = json.loads((finished / "study.json").read_text())
    limits = {json.dumps(entry["where"]): entry for entry in study["limits"]}
    assert len(limits) == 2
    for entry in limits.values():
        assert all(
            f <= b <= t for f, b, t in zip(entry["found"], entry["bound"], entry["total"], strict=True)
        )
    for row in study["rows"]:
        if row["where"]["grid"] == "main":
            bound = limits[json.dumps(row["where"])]["bound"]
            assert all(hits <= most for hits, most in zip(row["hits"], bound, strict=True))


def test_two_processes_give_the_same_bytes_as_one(finished: Path, tmp_path: Path) -> None:
    run_study(tiny(tmp_path), tmp_path / "two", workers=2)
    assert content(tmp_path / "two") == content(finished)


HELD = """
import sys, time
from pathlib import Path
from eunomia.study.grid import load_study, run_study

done = []

def hold(outcome):
    done.append(outcome)
    if len(done) == 4:
        print("held", flush=True)
        time.sleep(3600.0)

run_study(load_study(Path(sys.argv[1])), Path(sys.argv[2]), workers=1, on_done=hold)
"""


def test_a_killed_study_goes_on_and_gives_the_same_bytes(finished: Path, tmp_path: Path) -> None:
    file, out = file_of(tmp_path), tmp_path / "out"
    with children.started(children.python("-c", HELD, file, out), stdout=subprocess.PIPE) as process:
        assert children.first_line(process) == "held"
        process.kill()
    kept = {path.name: path.stat().st_mtime_ns for path in out.glob(".cells/*.json") if path.name != "0.json"}
    assert kept and not (out / "study.json").exists()
    reused: list[bool] = []
    run_study(load_study(file), out, on_done=lambda outcome: reused.append(outcome.reused))
    assert content(out) == content(finished)
    assert sum(reused) >= len(kept)
    assert {
        name: (out / ".cells" / name).stat().st_mtime_ns for name in kept
    } == kept  # nothing was computed again


def test_progress_tells_of_every_piece_of_work(finished: Path, tmp_path: Path) -> None:
    done: list[str] = []
    study = tiny(tmp_path)
    run_study(study, finished, on_done=lambda outcome: done.append(outcome.cell.name))
    assert len(done) == sum(total(study).values())


def test_a_folder_of_another_study_is_refused(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="another study"):
        run_study(tiny(tmp_path, "name=other"), finished)


def test_all_seeds_are_apart(tmp_path: Path) -> None:
    study = tiny(tmp_path)
    last = study.seed + study.replications
    assert last < FIRST_VALIDATION_SEED < CALIBRATION_SEED < 3_000_000_000 < BRACKET_SEED
    with pytest.raises(ConfigError, match="seed"):
        tiny(tmp_path, "seed=2000000000")


def test_perturbed_costs_differ_by_replication_and_stay_within_the_factor(tmp_path: Path) -> None:
    study = tiny(tmp_path)
    settings = {**base_settings(study), "costs": {"perturbation": 0.5}}
    exact = ground("moca-light", base_settings(study), None).machine.table.latency_s
    one, two = (ground("moca-light", settings, draw).machine.table.latency_s for draw in (0, 1))
    assert (one != two).any()
    for table in (one, two):
        assert ((table / exact > 0.499) & (table / exact < 1.501)).all()


def test_the_same_requests_at_every_qos_but_for_deadlines(tmp_path: Path) -> None:
    settings = base_settings(tiny(tmp_path))
    high, low = (
        Spot("moca-light", qos, 1.0, settings, 2.0, (5000.0,)).trace(0, 7, 100, 10).requests
        for qos in ("h", "l")
    )
    assert (high.arrival_s == low.arrival_s).all() and (high.pair == low.pair).all()
    assert high.relative_deadline_s == pytest.approx(low.relative_deadline_s * 0.8 / 1.2)


def test_a_period_in_layers_becomes_seconds(tmp_path: Path) -> None:
    spot = Spot(
        "moca-light", "m", 1.0, base_settings(tiny(tmp_path, "engine.period_layers=5.0")), 2.0, (5000.0,)
    )
    problem = spot.problem(0, 1, 50, 0)
    assert problem.options.period_s == pytest.approx(5.0 * spot.ground(0).layer_s)


def test_places_are_the_product_of_a_grid(tmp_path: Path) -> None:
    study = tiny(
        tmp_path,
        "grid.main.bandwidth_gb_s=[16.0, 64.0]",
        'grid.main.qos=["h", "l"]',
        "grid.main.loads=[0.5, 0.9, 1.3]",
    )
    places = places_of(study, study.grid[0])
    assert len(places) == 2 * 2 * 3
    assert {place.settings["platform"]["dram_bandwidth_gb_s"] for place in places} == {16.0, 64.0}


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ('policies=["fcfs", "edff"]', "did you mean 'edf'"),
        ('grid.main.sets=["moca-lite"]', "did you mean 'moca-light'"),
        ('grid.main.qos=["x"]', "choose one of: h, m, l"),
        ("grid.main.loads=[]", "at least 1 entry"),
        ("grid.main.loads=[-1.0]", "greater than 0"),
        ('grid.costs.policies=["beste"]', "did you mean 'best'"),
        ('claim.champion="bst"', "did you mean 'best'"),
        ('claim.grids=["mani"]', "did you mean 'main'"),
        ("requests=0", "at least 1"),
        ("replications=1", "at least 2"),
        ("replicatons=5", "did you mean 'replications'"),
        ("rival.best.gats=[1.0]", "did you mean 'gates'"),
        ('rival.best.candidates=["edf+oft"]', "unknown suffix"),
        ('validation.objective="hitrate"', "did you mean 'hit_rate'"),
        ('grid.costs.vary={"cost.perturbation"=[0.5]}', "did you mean 'costs'"),
        ('grid.costs.vary={"costs.perturbed"=[0.5]}', "did you mean 'perturbation'"),
        ('grid.costs.vary={"costs.perturbation"=[1.5]}', "less than 1"),
        ('grid.costs.vary={"platform.contention"=["maxmin"]}', "did you mean 'max_min'"),
        ("engine.charge_measured=true", "depend on the machine"),
        ("engine={period_s=0.001, period_layers=1.0}", "give one of them"),
        ('grid.main.name="costs"', "names must differ"),
        ('rival.best.name="fcfs"', "names must differ"),
        ("deadlines.hit_rate=1.0", "less than 1"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(tmp_path: Path, override: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tiny(tmp_path, override)
    assert says in str(caught.value)


def test_a_policy_that_fails_is_named_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # so that the name of the policy stays short
    (tmp_path / "broken.py").write_text("def broken(view):\n    return 7\n")
    table: dict[str, Any] = {**tomllib.loads(TINY), "rival": [], "decision_repeats": 0}
    table["policies"] = ["fcfs", "broken.py:broken"]
    table["grid"] = [{**table["grid"][0], "bracket": False}]
    del table["claim"]
    result = run_study(study_from(table))
    assert all("list of Assign" in why for why in result.failures.values()) and result.failures
    assert {row.policy for row in result.found.rows} == {"fcfs"}


def test_an_impossible_calibration_stops_the_study(tmp_path: Path) -> None:
    with pytest.raises(EunomiaError, match="lower the load"):
        run_study(tiny(tmp_path, "deadlines.load=500.0", "deadlines.requests=6000"))


@pytest.mark.parametrize("name", sorted(path.name for path in (CHECKOUT / "studies").glob("*.toml")))
def test_the_shipped_studies_can_be_read(name: str) -> None:
    study = load_study(CHECKOUT / "studies" / name)
    assert study.replications >= 5 and study.requests >= 10_000
