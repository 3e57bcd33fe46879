"""Run, compare, sweep: the wiring, common random numbers, the same bytes for any number of workers."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eunomia
from eunomia import Assign, View
from eunomia.config import scenario_from
from eunomia.core.errors import ConfigError, PolicyError, UnknownNameError
from eunomia.study import files
from eunomia.study.files import program_hash
from eunomia.study.inference.bench import Bench, prepare
from eunomia.study.inference.capacity import SAMPLE_REQUESTS, SAMPLES, middle_rate_per_s
from eunomia.study.inference.rates import faster
from eunomia.workload.arrivals import Diurnal, Mmpp, Periodic, Poisson, Profile, Replay
from eunomia.workload.closed_loop import ClosedLoop
from eunomia.workload.paced import AuroraStreams
from tests.cli.scenarios import SMALL


def small(**changes: Any) -> dict[str, Any]:
    return {**tomllib.loads(SMALL), **changes}


def first_come(view: View) -> list[Assign]:
    """FCFS with the fastest idle accelerator, written against the View."""
    job = int(np.lexsort((view.ready["sequence"], view.ready["arrival_s"]))[0])
    device = int(view.idle[np.argmin(view.latency_s[job, view.idle])])
    return [view.assign(job, device)]


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every table below a folder."""
    files = sorted([*folder.rglob("*.parquet"), *folder.rglob("*.csv")])
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_run_leaves_consistent_records() -> None:
    result = eunomia.run(small(), policy="edf")
    requests, pairs = result.records["requests"], result.records["pairs"]
    assert (result.policy, result.seed) == ("edf", 3)
    assert requests.num_rows == sum(pairs["arrived"].to_pylist())
    assert set(result.tenants) == {"gold", "bulk"}
    hits = np.asarray(requests["outcome"].to_pylist()) == "hit"
    assert result.metrics["hit_rate"] == pytest.approx(hits.mean())
    manifest = result.records.manifest
    assert manifest["config"]["duration_s"] == 0.4 and manifest["models"]["squeezenet"]["edges"]
    json.dumps(manifest, allow_nan=False)


def test_every_policy_sees_the_same_requests() -> None:
    tables = [
        eunomia.run(small(), policy=p, seed=5).records["requests"] for p in ("fcfs", "edf+f+eft", first_come)
    ]
    for table in tables[1:]:
        for column in ("arrival_s", "deadline_s", "isolated_s", "tenant", "model"):
            assert table[column].to_pylist() == tables[0][column].to_pylist()


def test_another_seed_gives_other_requests() -> None:
    one, other = (eunomia.run(small(), policy="edf", seed=seed).records["requests"] for seed in (1, 2))
    assert one["arrival_s"].to_pylist() != other["arrival_s"].to_pylist()


def test_a_function_and_its_built_in_twin_give_equal_tables() -> None:
    by_name = eunomia.run(small(), policy="fcfs").records["requests"]
    by_hand = eunomia.run(small(), policy=first_come).records["requests"]
    assert by_name["finish_s"].to_pylist() == by_hand["finish_s"].to_pylist()


def test_tables_are_the_same_bytes_for_any_number_of_workers(tmp_path: Path) -> None:
    for verb, least, crews in ((eunomia.compare, 2 * 2 * 5, (1, 2)), (eunomia.sweep, 2, (1, 3))):
        for workers in crews:
            verb(small(), directory=tmp_path / f"{verb.__name__}{workers}", workers=workers)
        one, many = (digests(tmp_path / f"{verb.__name__}{workers}") for workers in crews)
        assert len(one) >= least and one == many


def test_a_comparison_goes_on_where_it_stopped(tmp_path: Path) -> None:
    seen: list[tuple[str, bool]] = []

    def note(outcome: Any) -> None:
        seen.append((outcome.cell.name, outcome.reused))

    def stop(outcome: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(eunomia.core.errors.EunomiaError, match="1 of 4 cells"):
        eunomia.compare(small(), directory=tmp_path, on_done=stop)
    assert (tmp_path / "INCOMPLETE").exists()
    whole = eunomia.compare(small(), directory=tmp_path, on_done=note)
    assert [reused for _, reused in seen] == [True, False, False, False]
    assert not (tmp_path / "INCOMPLETE").exists()
    assert whole.metrics == eunomia.compare(small()).metrics
    seen.clear()
    with pytest.raises(eunomia.core.errors.OutputError, match="another comparison"):
        eunomia.compare(small(duration_s=0.3), directory=tmp_path)
    eunomia.compare(small(duration_s=0.3), directory=tmp_path, on_done=note, overwrite=True)
    assert not any(reused for _, reused in seen), "another scenario is another comparison"


def test_estimates_are_paired_by_seed() -> None:
    result = eunomia.compare(small(), policies=["fcfs", "edf"], seeds=3)
    assert result.seeds == (3, 4, 5)
    difference = [
        a - b
        for a, b in zip(result.values("edf", "hit_rate"), result.values("fcfs", "hit_rate"), strict=True)
    ]
    assert result.difference("edf", "fcfs", "hit_rate").mean == pytest.approx(np.mean(difference))
    assert result.estimate("edf", "hit_rate").n == 3
    assert result.worst_tenant("edf") in ("gold", "bulk")


def test_a_policy_that_fails_is_named_and_the_others_remain() -> None:
    def refuses(view: View) -> list[Assign]:
        raise ValueError("not today")

    result = eunomia.compare(small(), policies=["fcfs", refuses], seeds=1)
    assert ("fcfs", 3) in result.metrics and math.isnan(result.values("refuses", "hit_rate")[0])
    assert "ValueError: not today" in result.failures["refuses seed 3"]
    with pytest.raises(PolicyError, match="refuses.*not today"):
        eunomia.run(small(), policy=refuses)


def test_unknown_policies_are_found_before_the_first_run() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'edf'"):
        eunomia.compare(small(), policies=["fcfs", "edff"])
    with pytest.raises(ConfigError, match="is 3, which cannot be called"):
        eunomia.run(small(), policy=3)
    with pytest.raises(ConfigError, match="two policies are called 'edf'"):
        eunomia.compare(small(), policies=["edf", "edf"])


def offered_per_s(bench: Bench) -> float:
    return float(np.mean([len(bench.requests(seed)) for seed in range(20)])) / bench.scenario.duration_s


def test_load_sets_the_offered_rate_to_a_multiple_of_capacity() -> None:
    half, full = (prepare(scenario_from(small(load=load, duration_s=2.0))) for load in (0.5, 1.0))
    assert full.capacity is not None and half.capacity == full.capacity
    assert offered_per_s(full) == pytest.approx(full.capacity.per_s.mean, rel=0.05)
    assert offered_per_s(half) == pytest.approx(0.5 * full.capacity.per_s.mean, rel=0.05)


def test_capacity_depends_neither_on_the_seed_nor_much_on_the_duration() -> None:
    same = [prepare(scenario_from(small(load=1.0, seed=seed))).capacity for seed in (0, 1, 2)]
    assert same[0] is not None and same[0] == same[1] == same[2]
    longer = prepare(scenario_from(small(load=1.0, duration_s=1.7))).capacity
    assert longer is not None and longer.per_s.mean == pytest.approx(same[0].per_s.mean, rel=0.05)
    facts = eunomia.run(small(load=1.0), "fcfs").records.manifest
    assert facts["capacity_requests"] == SAMPLES * SAMPLE_REQUESTS >= 10_000
    assert facts["capacity_low_per_s"] < facts["capacity_per_s"] < facts["capacity_high_per_s"]
    assert facts["capacity_high_per_s"] - facts["capacity_low_per_s"] < 0.1 * facts["capacity_per_s"]


def test_the_tail_of_a_saturated_run_is_left_out() -> None:
    steady = np.arange(100.0) / 50.0  # 50 per second
    assert middle_rate_per_s(np.append(steady, 1000.0)) == pytest.approx(50.0)


def test_load_is_met_by_a_trace_whose_rate_changes(tmp_path: Path) -> None:
    path, times = (
        tmp_path / "trace.csv",
        np.concatenate([np.arange(100) * 0.1, 10.0 + np.arange(4000) * 0.005]),
    )
    path.write_text("arrival_s,tenant\n" + "".join(f"{time},a\n" for time in times))
    data = small(load=0.5, duration_s=1.0)
    data["tenant"] = data["tenant"][:1]
    data["tenant"][0]["arrivals"] = {"trace": "canonical", "path": str(path), "loop": True, "window": "start"}
    bench = prepare(scenario_from(data))
    assert bench.capacity is not None and bench.replayed_alike() == ["gold"]
    assert offered_per_s(bench) == pytest.approx(0.5 * bench.capacity.per_s.mean, rel=0.05)
    del data["tenant"][0]["arrivals"]["loop"]
    path.write_text("arrival_s,tenant\n0.0,a\n0.3,a\n0.4,a\n")
    with pytest.raises(ConfigError, match="too short: give it loop = true"):
        prepare(scenario_from(data))


def test_seeds_replay_different_pieces_of_a_long_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,tenant\n" + "".join(f"{n * n * 1e-4},a\n" for n in range(1000)))
    data = small()
    data["tenant"][1]["arrivals"] = {"trace": "canonical", "path": str(path)}

    def bulk(seed: int) -> list[float]:
        rows = eunomia.run(data, "fcfs", seed=seed).records["requests"].to_pylist()
        return [row["arrival_s"] for row in rows if row["tenant"] == "bulk"]

    assert bulk(1) == bulk(1) != bulk(2)
    data["tenant"][1]["arrivals"]["window"] = "start"
    assert bulk(1) == bulk(2)


def test_a_saturated_system_delivers_its_capacity() -> None:
    scenario = scenario_from(
        small(load=3.0, duration_s=2.0), ["engine.late=run", "tenant.bulk.models.0.deadline_ms=1e6"]
    )
    result = eunomia.run(scenario, policy="fcfs")
    finish_s = np.asarray(result.records["requests"]["finish_s"], np.float64)
    assert len(finish_s) / finish_s.max() == pytest.approx(result.records.manifest["capacity_per_s"], rel=0.1)


def test_load_of_closed_loops_is_refused() -> None:
    data = small(load=1.0)
    data["tenant"][0]["arrivals"] = {"process": "closed_loop", "clients": 3, "think_s": 0.01}
    with pytest.raises(ConfigError, match="closed"):
        eunomia.run(data)


PROCESSES = [
    Poisson(7.0),
    Mmpp(2.0, 9.0, 1.0, 0.5),
    Diurnal(5.0, 0.5, 10.0),
    Profile(5.0, (1.0, 3.0), 10.0),
    Periodic(0.2),
    Replay(np.arange(100) * 0.1, loop=True),
]


class Own:
    """A process of a foreign package."""

    mean_rate_per_s = 5.0

    def times(self, rng: np.random.Generator, duration_s: float) -> np.ndarray:
        """Five per second."""
        return np.arange(0.0, duration_s, 0.2)


def test_a_process_of_ones_own_runs_faster_too() -> None:
    times_s = faster(Own(), 2.0, "t").times(np.random.default_rng(1), 3.0)  # type: ignore[union-attr]
    np.testing.assert_allclose(times_s, np.arange(0.0, 3.0, 0.1))


@pytest.mark.parametrize("process", PROCESSES, ids=lambda p: type(p).__name__)
def test_faster_processes_have_the_wanted_rate(process: Any) -> None:
    assert faster(process, 2.5, "t").mean_rate_per_s == pytest.approx(2.5 * process.mean_rate_per_s)  # type: ignore[union-attr]
    assert faster(process, 1.0, "t") is process


def test_paced_streams_shrink_their_gaps_and_closed_loops_refuse() -> None:
    paced = faster(AuroraStreams(0.8, jitter_steps=0), 2.0, "t")
    assert isinstance(paced, AuroraStreams) and paced.cap == pytest.approx(0.4)
    with pytest.raises(ConfigError, match="tenant 't': ClosedLoop arrivals have no rate"):
        faster(ClosedLoop(3, 0.1), 2.0, "t")


def test_a_sweep_is_the_product_of_its_axes() -> None:
    grid = {"load": [0.5, 1.0], "engine.late": ["last", "drop"]}
    result = eunomia.sweep(small(), grid, policies=["edf"], seeds=1)
    assert [tuple(s.values()) for s in result.settings] == [
        (0.5, "last"),
        (0.5, "drop"),
        (1.0, "last"),
        (1.0, "drop"),
    ]
    alone = eunomia.run(small(load=1.0), policy="edf", overrides=["engine.late=drop"], record="requests")
    row = result.rows()[3]
    assert row["policy"] == "edf" and row["hit_rate"] == alone.metrics["hit_rate"]
    assert row["drop_rate"] == alone.metrics["drop_rate"]


def test_a_wrong_setting_is_found_before_the_first_run() -> None:
    with pytest.raises(ConfigError, match="load is -1"):
        eunomia.sweep(small(), {"load": [0.5, -1]}, on_done=lambda outcome: pytest.fail("a run was made"))
    with pytest.raises(ConfigError, match="nothing to sweep"):
        eunomia.sweep(small(sweep={}))


def test_sets_windows_and_estimates_reach_the_engine() -> None:
    data = small(duration_s=0.2)
    data["tenant"] = [
        {"name": "moca", "model_set": "moca-light", "deadline_alpha": 3.0, "slo": {"hit_rate": 0.5}},
        {
            "name": "later",
            "models": [{"model": "resnet18"}],
            "defer_s": [0.05, 0.1],
            "arrivals": {"process": "poisson", "rate_per_s": 50.0},
        },
    ]
    data["engine"] = {"estimator": {"mode": "lognormal"}, "switch_s": 1e-6, "late": "drop"}
    result = eunomia.run(data, policy="edf+f+eft")
    models = set(result.records["requests"]["model"].to_pylist())
    assert {"squeezenet", "kws-res8", "yolo-lite"} <= models
    later = [row for row in result.records["requests"].to_pylist() if row["tenant"] == "later"]
    assert all(0.05 <= row["deadline_s"] - row["arrival_s"] <= 0.1 + 1e-9 for row in later)
    costs = result.records["costs"].to_pylist()
    assert any(row["estimate_s"] != row["latency_s"] for row in costs)


def test_one_name_for_two_networks_is_refused(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import helper

    for size in (8, 16):
        image = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, size])
        out = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, size])
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [image], [out])
        (tmp_path / str(size)).mkdir()
        onnx.save(helper.make_model(graph), tmp_path / str(size) / "net.onnx")
    data = small()
    for tenant, size in zip(data["tenant"], (8, 16), strict=True):
        tenant["models"] = [{"onnx": str(tmp_path / str(size) / "net.onnx"), "deadline_ms": 5.0}]
    with pytest.raises(ConfigError, match="'net' that differs"):
        eunomia.run(data)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    data = small()
    data["tenant"][1]["arrivals"] = {"trace": "canonical", "path": str(path)}
    counts = []
    for rows in (3, 7):
        path.write_text("arrival_s,tenant\n" + "".join(f"{n * 0.01},a\n" for n in range(rows)))
        result = eunomia.compare(data, policies=["edf"], seeds=1, directory=tmp_path / "out")
        counts.append(sum(row["arrived"] for row in result.pairs["edf", 3] if row["tenant"] == "bulk"))
    assert counts == [3, 7]


def test_changed_sources_and_policy_files_are_computed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, reused = tmp_path / "mine.py", []
    first = "# one\ndef mine(view):\n    return [view.assign(0, int(view.idle[0]))]\n"

    def again() -> bool:
        mine = f"{path}:mine"
        eunomia.compare(
            small(), [mine], 1, directory=tmp_path / "out", on_done=lambda o: reused.append(o.reused)
        )
        return bool(reused[-1])

    path.write_text(first)
    assert [again(), again()] == [False, True]
    stamp = path.stat()
    path.write_text(first.replace("# one", "# two"))
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert [again(), again()] == [False, True]
    monkeypatch.setattr("eunomia.study.cells.program_hash", lambda: "another program")
    assert not again()


def test_the_hash_of_the_program_covers_sources_and_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "__file__", str(tmp_path / "study" / "files.py"))
    found = set()
    for name, text in (("a.py", "1"), ("a.py", "2"), ("data/b.toml", "x"), ("__pycache__/a.pyc", "ignored")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        found.add(program_hash.__wrapped__())
    assert len(found) == 3
