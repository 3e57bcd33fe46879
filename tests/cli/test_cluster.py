"""``eunomia cluster`` as a shell sees it: results, resumption, stories, and one sentence for whatever is wrong."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from eunomia.config.cluster import cluster_from, cluster_schema, cluster_table, load_cluster
from eunomia.study.cluster.whatif import WhatIf
from tests.cli.shell import Shell

EXAMPLES = Path(__file__).parents[2] / "examples"
JOBS = EXAMPLES / "cluster_jobs.toml"
TWO = EXAMPLES / "cluster_two_types.toml"
SEARCH = EXAMPLES / "cluster_search.toml"
SHORT = ("--set", "generate.jobs=12")


def test_simulate_writes_a_run_and_a_report_that_loads_nothing(shell: Shell) -> None:
    done = shell("cluster", "simulate", JOBS, "--out", "run")
    assert done.code == 0, done.err
    assert "average JCT" in done.out
    assert "report   -> run/report.html" in done.out
    page = Path("run/report.html").read_text()
    assert "max_min_fairness_perf" in page
    assert not re.search(r"(src|href)=[\"']?(https?:|//)", page)
    assert "<script" not in page
    assert {path.name for path in Path("run").iterdir()} >= {
        "jobs.parquet",
        "leases.parquet",
        "choices.parquet",
    }


def test_simulate_as_json_counts_every_job(shell: Shell) -> None:
    done = shell("cluster", "simulate", JOBS, "--json", "--out", "run", "-p", "fifo_perf")
    found = json.loads(done.out)
    metrics = found["metrics"]
    assert metrics["jobs"] == 3 == metrics["finished"] + metrics["unfinished"] + metrics["dropped"]
    assert found["policy"] == "fifo_perf"


def test_compare_resumes_and_refuses_another_experiments_folder(shell: Shell) -> None:
    first = shell(
        "cluster",
        "compare",
        TWO,
        *SHORT,
        "--seeds",
        2,
        "--out",
        "cmp",
        "-p",
        "isolated",
        "--json",
        "--workers",
        1,
    )
    assert first.code == 0, first.err
    found = json.loads(first.out)["policies"]["isolated"]["metrics"]
    assert found["jct_mean_s"]["seeds"] == 2
    manifest = Path("cmp/isolated/0/manifest.json")
    before = manifest.stat().st_mtime_ns
    again = shell(
        "cluster",
        "compare",
        TWO,
        *SHORT,
        "--seeds",
        2,
        "--out",
        "cmp",
        "-p",
        "isolated",
        "--json",
        "--workers",
        1,
    )
    assert manifest.stat().st_mtime_ns == before
    assert json.loads(again.out)["policies"] == json.loads(first.out)["policies"]
    other = shell("cluster", "compare", TWO, "--set", "generate.jobs=13", "--out", "cmp", "-p", "isolated")
    assert other.code != 0 and "of other settings" in other.err


def test_study_runs_a_grid_and_writes_rows(shell: Shell) -> None:
    done = shell("cluster", "study", TWO, *SHORT, "--over", "simulation.round_s=[60.0, 360.0]", "--seeds", 1,
                 "--out", "study", "-p", "max_min_fairness_perf", "--workers", 1)  # fmt: skip
    assert done.code == 0, done.err
    rows = Path("study/sweep.csv").read_text().splitlines()
    assert len(rows) == 3
    assert "simulation.round_s" in rows[0]


def test_a_model_that_nobody_has_measured_is_estimated_and_said(shell: Shell) -> None:
    """500 Gflop at 0.4 of 100 Tflop/s: 80 steps/s on one GPU, half of it on an NPU with half the peak."""
    peak = "{{ tflop = {}, dram_gb = 1000.0, link_gb = 100.0, network_gb = 10.0 }}"
    sets = (
        "throughputs.model=[{name='vision', work={gflop=500.0}}]", f"device.gpu.peak={peak.format(100.0)}",
        f"device.npu.peak={peak.format(50.0)}", "job=[{id='x', type='vision', steps=8000}]",
        "simulation={restart={save_s=0.0, load_s=0.0, warmup_s=0.0}}",
    )  # fmt: skip
    words = ("-p", "fifo_perf", "--json", *(word for text in sets for word in ("--set", text)))
    found = json.loads(shell("cluster", "simulate", JOBS, *words, "--out", "run").out)
    assert found["metrics"]["jct_mean_s"] == pytest.approx(100.0)
    assert "throughputs of 'vision' are estimates from work and peaks" in found["remarks"]


def test_a_tuner_stops_hopeless_trials(shell: Shell) -> None:
    """Four searches of four trials on plenty of devices: halving lets one run to its end, at most two to the half."""
    words = ("--set", "generate.jobs=4", "--set", "generate.multi_gpu=false", "--set", "device.fast.count=16",
             "-p", "srtf", "--json")  # fmt: skip
    every = json.loads(
        shell("cluster", "simulate", TWO, *words, "--set", "tuner.trials=4", "--out", "run").out
    )
    assert every["metrics"]["jobs"] == 16 == every["metrics"]["finished"]
    (said,) = [text for text in every["remarks"] if "tuner" in text]
    assert re.fullmatch(
        r"the tuner stopped (\d+) of 16 jobs before their end, on average after \d+% of .*", said
    )
    assert 8 <= int(re.findall(r"\d+", said)[0]) <= 12
    alone = json.loads(shell("cluster", "simulate", TWO, *words, "--out", "alone").out)
    assert every["metrics"]["makespan_s"] == pytest.approx(alone["metrics"]["makespan_s"], rel=0.2)


def test_a_steady_state_is_measured_over_some_jobs(shell: Shell) -> None:
    words = ("-p", "isolated", "--set", "generate.jobs=30", "--json")
    whole = json.loads(shell("cluster", "simulate", TWO, *words, "--out", "whole").out)["metrics"]
    some = json.loads(
        shell("cluster", "simulate", TWO, *words, "--set", "measure=[10, 20]", "--out", "some").out
    )
    assert (whole["jobs"], some["metrics"]["jobs"]) == (30, 10)
    assert some["metrics"]["makespan_s"] == whole["makespan_s"]
    assert some["metrics"]["jct_mean_s"] != whole["jct_mean_s"]


def test_explain_tells_who_was_ahead_by_which_numbers(shell: Shell) -> None:
    shell("cluster", "simulate", TWO, "--set", "generate.jobs=40", "--set", "generate.mean_gap_s=60.0",
          "-p", "max_min_fairness_perf", "--out", "run", "-q")  # fmt: skip
    done = shell("cluster", "explain", "run", "30")
    assert done.code == 0, done.err
    assert "it waited" in done.out and "who held what it could have used" in done.out
    story = json.loads(shell("cluster", "explain", "run", "30", "--json").out)
    assert story["turns"] and story["rivals"]
    for turn in story["turns"]:
        if turn["reason"] == "everybody who ran had a higher priority":
            assert turn["priority"] < turn["lowest_served"]
    waited = sum(turn["wait_s"] for turn in story["turns"])
    assert waited == pytest.approx(sum(story["reasons"].values()))
    assert waited <= story["facts"]["jct_s"] + 1e-6


def test_explain_of_an_unknown_job_suggests_the_nearest(shell: Shell) -> None:
    shell("cluster", "simulate", JOBS, "--out", "run", "-q")
    done = shell("cluster", "explain", "run", "smal")
    assert done.code == 2 and "did you mean 'small'" in done.err


def test_what_if_more_devices_and_another_weight(shell: Shell) -> None:
    done = shell(
        "cluster", "whatif", JOBS, "--add", "npu=2", "--price", "gpu=1.0", "--weight", "gold=3", "--json"
    )
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["changes"] == [
        "npu: 2 -> 4 devices",
        "gpu: 2 -> 1 per device-hour",
        "tenant 'gold': weight times 3",
    ]
    cost = found["metrics"]["cost"]
    assert cost["after"] < cost["before"]
    text = shell("cluster", "whatif", JOBS, "--remove", "npu=2")
    assert text.code == 0 and "npu: 2 -> 0 devices" in text.out
    assert "moves" not in text.out and "more figures: --all, or --json" in text.out
    whole = shell("cluster", "whatif", JOBS, "--remove", "npu=2", "--all")
    assert "moves" in whole.out and "more figures" not in whole.out


def test_what_if_names_the_tenants_to_whom_most_happens() -> None:
    """Of five tenants the headlines keep two; the whole table has them all."""
    after = {"a": 10.0, "b": 30.0, "c": 5.0, "d": 9.0, "e": 10.0}

    class Drawn(WhatIf):
        def tenants(self) -> list[tuple[str, float, float]]:
            return [(name, 10.0, value) for name, value in after.items()]

    every = Drawn(None, None, ())  # type: ignore[arg-type]
    assert len(every.shown_tenants()) == 5 and every.footnotes() == []
    found = replace(every, whole=False)
    assert found.shown_tenants() == [
        ("average JCT of 'c' (gains most)", 10.0, 5.0),
        ("average JCT of 'b' (loses most, or gains least)", 10.0, 30.0),
    ]
    after["e"] = math.nan
    assert found.shown_tenants()[1][0] == "average JCT of 'e' (loses most: no job finishes)"


def test_what_if_of_a_log(shell: Shell, tmp_path: Path) -> None:
    """One GPU: b waits 60 s for a in the log and in the replay; with two GPUs nobody waits."""
    log, conf, queues = tmp_path / "log", tmp_path / "slurm.conf", tmp_path / "queues.yaml"
    head = "JobID|Account|State|Submit|Start|ElapsedRaw|AllocTRES\n"
    log.write_text(f"{head}1|a|COMPLETED|0|0|60|gres/gpu:t4=1\n2|b|COMPLETED|0|60|60|gres/gpu:t4=1\n")
    conf.write_text("NodeName=n Gres=gpu:t4:1\n")
    queues.write_text(
        "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: a}\nspec:\n  cohort: c\n"
        "  resourceGroups: [{flavors: [{name: t4, resources: [{name: gpu, nominalQuota: 1}]}]}]\n"
    )
    done = shell("cluster", "whatif", log, "--slurm", conf, "--add", "t4=1", "--json")
    found = json.loads(done.out)
    assert (
        found["metrics"]["wait_mean_s"] == {"before": 30.0, "after": 0.0}
        and found["log"]["wait_mean_s"] == 30.0
    )
    assert found["calibration"]["replayed_mean_s"] == found["calibration"]["observed_mean_s"] == 60.0
    text = shell("cluster", "whatif", log, "--slurm", conf, "--policy", "drf")
    assert text.code == 0 and "calibration: over 1 job (" in text.out
    text = shell("cluster", "whatif", log, "--kueue", queues, "--quota", "a:t4=0")
    assert text.code == 0 and "1 jobs of queues that queues.yaml lacks left out" in text.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--quota", "a:t4=1"), "--quota belongs to a log; give --slurm FILE or --kueue FILE with it"),
        (("--slurm", "a", "--kueue", "b"), "give one of --slurm and --kueue"),
        (("--slurm", "a", "--set", "x"), "--set x: write KEY=VALUE"),
        (("--kueue", "none.yaml"), "the file cannot be read"),
        (("--slurm", "a", "--column", "gpu=x"), "unknown column of jobs 'gpu'; did you mean 'gpus'"),
    ],
)
def test_questions_to_a_log_that_make_no_sense(shell: Shell, words: tuple[str, ...], message: str) -> None:
    Path("a").write_text("NodeName=n Gres=gpu:t4:1\n")
    done = shell("cluster", "whatif", JOBS, *words)
    assert done.code in (1, 2) and message in done.err and len(done.err.strip().splitlines()) == 1


def test_policies_and_jobs(shell: Shell, tmp_path: Path) -> None:
    assert "max_min_fairness_perf" in shell("cluster", "policies").out.split()
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_s,gpus,duration_s\n0,1,60\n5,2,30\n")
    done = shell("cluster", "jobs", trace, "--to", tmp_path / "t.parquet")
    assert done.code == 0 and re.search(r"jobs\s+2", done.out)
    assert (tmp_path / "t.parquet").is_file()


BAD = {
    "unknown policy": (["-p", "max_min_fairnes"], "did you mean 'max_min_fairness'"),
    "unknown setting": (["-p", "max_min_fairness(solvr=simplex)"], "did you mean 'solver'"),
    "no such device": (["--set", "device.tpu.count=4"], "no entry 'tpu'"),
    "unmeasured device": (
        ["--set", "device.gpu.type=tpu"],
        "device type 'tpu' has no throughputs; measured: gpu, npu",
    ),
    "zero throughput": (
        ["--set", "throughputs.model.language.speed={gpu = 0.0, npu = 1.0}"], "job 'tune-language'",
    ),
    "missing throughput": (
        ["--set", "throughputs.model.language.speed={gpu = 2.0}"],
        "'language' with 4 workers was not measured on 'npu'",
    ),
    "negative throughput": (["--set", "throughputs.model.vision.speed={gpu = -1.0, npu = 1.0}"], "at least 0"),
    "too many workers": (
        ["--set", "job.tune-language.gpus=8"],
        "job 'tune-language': no throughput for 'language' with 8",
    ),
    "no fit": (["--set", "job.tune-language.memory_gib=64.0"], "can run nowhere"),
    "nan": (["--set", "job.small.steps=nan"], "job.small.steps is nan"),
    "infinite": (["--set", "job.small.arrival_s=inf"], "arrival_s is inf"),
    "duplicate": (["--set", "job.small.id=train-vision"], "job id 'train-vision' occurs twice"),
    "late deadline": (["--set", "job.small.deadline_s=5.0"], "job 'small': deadline_s is 5.0; it must be later"),
    "unknown key": (["--set", "simulation.rounds_s=5.0"], "did you mean 'round_s'"),
    "two sources": (["--set", "generate={jobs = 4}"], "give exactly one of: [trace], [generate], [[job]]"),
    "weights of nobody": (["--set", "weight_factors={bronze = 2.0}"], "'bronze', which is no job and no tenant"),
    "drop rule": (["--set", "simulation.drop_rule=true"], "drop_rule belongs to Gavel"),
    "tuner of listed jobs": (["--set", "tuner.trials=4"], "tuner.trials makes searches of traced or generated jobs"),
    "tuner elsewhere": (
        ["--set", "tuner.eta=2", "--set", "simulation.mode='ideal'"], "realistic mode only; simulation.mode is 'ideal'",
    ),
    "trials without losses": (
        ["--set", "tuner.eta=2", "--set", "job.small.app='search'", "--set", "job.train-vision.app='search'"],
        "is a trial of a search and has no loss curve",
    ),
    "no peak": (
        ["--set", "throughputs.model=[{name='vision', work={gflop=10.0}, scales=[1, 2, 4]}]"],
        "model 'vision' is estimated from its work, and device type 'gpu' has no peak",
    ),
    "speed and work": (
        ["--set", "throughputs.model.vision.work={gflop=10.0}"], "model 'vision': give exactly one of: speed, work",
    ),
    "slowdown": (["--set", "simulation.slowdown={source = 'levels', rack = 3.0}"], "1 <= rack <= cross_rack"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said_in_one_sentence(shell: Shell, case: str) -> None:
    words, message = BAD[case]
    done = shell("cluster", "simulate", JOBS, "--out", "run", *words)
    assert done.code in (1, 2)
    assert message in done.err
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to change"),
        (("--add", "tpu=2"), "unknown device type 'tpu'"),
        (("--remove", "npu=3"), "there are only 2"),
        (("--add", "npu=1.5"), "whole number of devices"),
        (("--add", "npu=nan"), "whole number of devices"),
        (("--price", "gpu=inf"), "must be a finite number"),
        (("--weight", "bronze=2"), "unknown job or tenant 'bronze'"),
        (("--weight", "gold=0"), "greater than 0"),
        (("--price", "gpu"), "write NAME=NUMBER"),
        (("--add", "npu=1", "--add", "npu=2"), "--add names 'npu' twice"),
        (("--remove", "npu=2", "--remove", "gpu=4"), "no device would be left"),
    ],
)
def test_changes_that_make_no_sense(shell: Shell, words: tuple[str, ...], message: str) -> None:
    done = shell("cluster", "whatif", JOBS, *words)
    assert done.code in (1, 2) and message in done.err and "Traceback" not in done.err


def test_a_wrong_trace_names_file_line_and_column(shell: Shell, tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_s,gpus,steps\n0,1,10\n3,x,10\n")
    done = shell("cluster", "jobs", trace)
    assert done.code == 1
    assert f"{trace}, line 3, column 'gpus': 'x' is not a whole number" in done.err


SLOS = "max_sum_throughput_normalized_by_cost_perf_SLOs"


def test_deadlines_that_cannot_be_met_are_named_with_their_lateness(shell: Shell) -> None:
    """train-vision needs 40,000 steps at 12.6 steps/s at most (two NPUs): 3,175 s, where 2,000 s are left."""
    done = shell("cluster", "simulate", JOBS, "-p", SLOS, "--set", "job.train-vision.deadline_s=2000.0",
                 "--out", "run")  # fmt: skip
    assert done.code == 0, done.err
    assert "relaxed: 1 of 1 deadlines cannot be met: 'train-vision' (1175 s late)" in done.err
    assert re.search(r"finished\s+3", done.out)


def test_where_every_solver_fails_shares_are_isolated_and_nothing_is_lost(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eunomia.cluster.solver import solve
    from eunomia.cluster.solver.highs import SolverError

    def fails(problem: object) -> object:
        raise SolverError("HiGHS ended with status 'Unknown' on a programme of 3 columns, 4 rows")

    monkeypatch.setattr(solve, "solve_embedded_shares", fails)
    done = shell("cluster", "simulate", JOBS, "-p", "max_min_fairness_perf", "--json", "--out", "run")
    assert done.code == 0 and "Traceback" not in done.err
    found = json.loads(done.out)
    (said,) = [text for text in found["remarks"] if "fallback" in text]
    assert "fallback: no solver found an optimum (HiGHS ended with status 'Unknown'" in said
    assert "isolated shares are used instead" in said
    assert found["metrics"]["finished"] == 3


def test_a_policy_that_crashes_is_named(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from eunomia.contract.allocation import Needs\n"
        "class Mine:\n"
        "    needs = Needs()\n"
        "    def reset(self, seed): pass\n"
        "    def allocate(self, view): return 1 / 0\n"
    )
    done = shell("cluster", "simulate", JOBS, "-p", f"{file}:Mine", "--out", "run")
    assert done.code == 1
    assert "raised ZeroDivisionError" in done.err and "mine.py, line 5" in done.err


@pytest.mark.parametrize("path", [JOBS, TWO, SEARCH], ids=lambda path: path.stem)
def test_an_example_compares_all_its_policies(shell: Shell, path: Path) -> None:
    words = SHORT if "two_types" in path.name else ()
    done = shell("cluster", "compare", path, *words, "--seeds", 1, "--out", "out", "--workers", 1, "-q")
    assert done.code == 0, done.err
    assert Path("out/report.html").is_file()


def test_a_configuration_goes_round(tmp_path: Path) -> None:
    config = load_cluster(JOBS)
    assert cluster_from(cluster_table(config)) == config
    assert "device" in cluster_schema()["properties"]


def test_a_plan_of_nodes_answers_in_words_in_data_and_by_its_status(shell: Shell) -> None:
    Path("log.csv").write_text("submit,gpus,duration\n0,1,60\n5,2,60\n10,1,30\n")
    node = '[[node]]\ntype = "a"\ndevices = 2\nmost = 3\nrent_per_h = 2.0\n'
    Path("nodes.toml").write_text(
        f'name = "n"\nlog = "log.csv"\npromise = {{ wait_mean_s = 1.0 }}\npolicies = ["backfill"]\n{node}'
    )
    done = shell("cluster", "plan", "nodes.toml", "--csv", "all.csv")
    assert done.code == 0, done.err
    assert "2 a under backfill keeps every promise: 4 USD" in done.out
    assert Path("all.csv").read_text().startswith("nodes,rent,verdict,why,policy,wait_mean_s\n")
    found = json.loads(shell("cluster", "plan", "nodes.toml", "--json").out)
    assert found["nodes"] == {"a": 2} and found["rent"] == 4.0
    none = shell("cluster", "plan", "nodes.toml", "--set", "bounds.nodes=1")
    assert none.code == 1 and "no nodes within the bounds keep the promises; nearest are 1 a" in none.err
    assert "no nodes" not in none.out
