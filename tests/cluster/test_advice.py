"""Advice for Slurm: its commands' own output in, decisions of allocators out, and nothing changed.

The texts below were written by Slurm 22.05 with ``scripts/slurm-dev``, fake GPUs and jobs of three accounts.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from eunomia.cli.main import app
from eunomia.cluster.advice import advise, view_of
from eunomia.cluster.operators.slurm_now import SlurmNow, read_now
from eunomia.cluster.policies.catalogue import own_allocator
from eunomia.cluster.traces.slurm_text import moment_s
from eunomia.core.errors import ConfigError
from eunomia.study.cluster.advising import POLICIES
from tests import children
from tests.cluster.private_slurm import private_slurm
from tests.patience import until

SINFO = "vm|idle|gpu:a100:2,gpu:t4:4\nvm|idle|gpu:a100:2,gpu:t4:4\nold|down*|gpu:k80:8\n"
AT = "2026-11-23T19:57:30"
SQUEUE = f"""\
4|gold|root|main|PENDING|{AT}|30:00|0:00|1|cpu=1,mem=1M,node=1,billing=1|gres:gpu:a100:1|N/A||
5|bronze|root|main|PENDING|{AT}|5:00|0:00|1|cpu=1,mem=1M,node=1,billing=1|gres:gpu:1|N/A||
6|bronze|root|main|PENDING|{AT}|5:00|0:00|1|cpu=1,mem=1M,node=1,billing=1|N/A|gres:gpu:a100:2||
1|gold|root|main|RUNNING|{AT}|10:00|1:33|1|cpu=1,node=1,billing=1|gres:gpu:t4:2|N/A|vm|
2|gold|root|main|RUNNING|{AT}|10:00|1:33|1|cpu=1,node=1,billing=1|gres:gpu:t4:2|N/A|vm|
3|silver|root|main|RUNNING|{AT}|30:00|1:33|1|cpu=1,node=1,billing=1|gres:gpu:a100:2|N/A|vm|
7|(null)|root|main|RUNNING|{AT}|5:00|1:32|1|cpu=1,node=1,billing=1|N/A|N/A|vm|
"""


@pytest.fixture
def now() -> SlurmNow:
    return read_now(SINFO, SQUEUE)


def test_what_slurm_wrote_is_read(now: SlurmNow) -> None:
    assert now.counts == {"a100": 2, "t4": 4} and now.left_out == 1
    assert [job.name for job in now.jobs] == list("123456")
    assert [(job.gpus, job.kind) for job in now.jobs] == [
        (2, "t4"),
        (2, "t4"),
        (2, "a100"),
        (1, "a100"),
        (1, ""),
        (2, "a100"),
    ]
    view = view_of(now, {}, {"gold": 3.0})
    assert view.held.tolist() == [[0, 2], [0, 2], [2, 0], [0, 0], [0, 0], [0, 0]]
    assert view.weight.tolist() == [3.0, 3.0, 1.0, 3.0, 1.0, 1.0] and view.steps_left[0] == 600.0 - 93.0


def test_counted_gpus_win_over_requests() -> None:
    tres = "cpu=4,node=2,gres/gpu=4,gres/gpu:a100=4"
    line = f"9|a|u|main|RUNNING|{AT}|UNLIMITED|1-00:00:00|2|{tres}|gres:gpu:2|N/A|n[1-2]|"
    job = read_now("n1|mix|gpu:a100:2\nn2|mix|gpu:a100:2", line).jobs[0]
    assert (job.gpus, job.kind, job.used_s, job.limit_s) == (4, "a100", 86_400.0, float("inf"))


@pytest.mark.parametrize("policy", [*POLICIES, "fifo_perf", "srtf"])
def test_decisions_fit_the_cluster(now: SlurmNow, policy: str) -> None:
    found = advise(now, own_allocator(policy), {"a100": 2.0}, {})
    used = {kind: sum(each.job.gpus for each in found if each.on == kind) for kind in now.counts}
    assert all(used[kind] <= count for kind, count in now.counts.items())
    for each in found:
        assert not each.on or not each.job.kind or each.on == each.job.kind
        assert each.does in (("keep", "stop") if each.job.running else ("start", "wait"))


def test_slurms_model_differs_in_nothing_from_slurm(now: SlurmNow) -> None:
    found = advise(now, own_allocator("slurm"), {}, {})
    assert [each.does for each in found] == ["keep"] * 3 + ["wait"] * 3


def test_the_look_is_as_old_as_the_clock_says_not_as_the_queue_was_long() -> None:
    """A job that waited an hour and runs for two minutes: the look is an hour and two minutes after its submission."""
    line = "9|a|u|main|RUNNING|2026-11-23T10:00:00|30:00|2:00|1|cpu=1|gres:gpu:t4:1|N/A|vm|2026-11-23T11:00:00|3600|1|7"
    waits = "8|a|u|main|PENDING|2026-11-23T10:59:00|30:00|0:00|1|cpu=1|gres:gpu:t4:1|N/A||N/A|190|0|0"
    began_s = moment_s("2026-11-23T10:00:00")
    assert began_s is not None
    assert read_now(SINFO, line).now_s == began_s + 3720.0
    look = read_now(SINFO, f"{line}\n{waits}\n")
    assert look.now_s == began_s + 3730.0 and [job.held for job in look.jobs] == [False, True]
    assert look.jobs[0].restarts == 1
    later = read_now(
        SINFO, line, "Configuration data as of 2026-11-23T11:05:00\nAccountingStorageTRES = cpu\n"
    )
    assert later.now_s == began_s + 3900.0
    assert view_of(look, {}, {}).first_start_s[0] == began_s + 3610.0


def test_an_empty_queue_has_no_advice() -> None:
    empty = read_now(SINFO, "")
    assert advise(empty, own_allocator("themis"), {}, {}) == [] and np.isfinite(empty.now_s)


@pytest.mark.parametrize(
    ("sinfo", "squeue", "said"),
    [
        ("vm idle", "", "sinfo, line 1: 'vm idle'; write it with sinfo"),
        ("vm|idle|(null)", "", "no node that works has GPUs"),
        (SINFO, "JOBID PARTITION\n", "squeue, line 1: 'JOBID PARTITION'; write it with squeue"),
        (SINFO, SQUEUE.replace(AT, "soon"), "job 4 has times 'soon'"),
    ],
)
def test_what_is_no_output_of_slurm_is_one_sentence(sinfo: str, squeue: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        read_now(sinfo, squeue)


def test_the_verb_reads_files_and_records_each_look(tmp_path: Path) -> None:
    for name, text in (("sinfo", SINFO), ("squeue", SQUEUE)):
        (tmp_path / name).write_text(text)
    words = [
        "cluster",
        "advise",
        "--sinfo",
        tmp_path / "sinfo",
        "--squeue",
        tmp_path / "squeue",
        "-p",
        "slurm",
    ]
    words += ["-p", "least_attained_service", "--record", tmp_path / "shadow.jsonl"]
    for _ in range(2):
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output
    assert (
        "slurm: 0 differences from what Slurm has done" in done.output
        and "start 4 (gold, 1 GPU) on a100" in done.output
    )
    looks = [json.loads(line) for line in (tmp_path / "shadow.jsonl").read_text().splitlines()]
    assert len(looks) == 2 and looks[0] == looks[1] and len(looks[0]["advice"]["slurm"]) == 6


def test_a_private_slurm_starts_and_is_read(tmp_path: Path) -> None:
    with private_slurm(tmp_path / "slurm") as conf:
        for gres in ("gpu:a100:2", "gpu:a100:1"):
            asked = ["sbatch", "-o", "/dev/null", f"--gres={gres}", "-t", "5", "--wrap", "sleep 600"]
            children.run(asked, env=conf, check=True, cwd=tmp_path)
        until(lambda: "R" in children.run(["squeue", "-h", "-o", "%t"], env=conf).stdout)
        words = children.eunomia("cluster", "advise", "--json", "-p", "slurm")
        found = json.loads(children.run(words, env=conf, check=True).stdout)
        assert found["gpus"] == {"a100": 2, "t4": 4} and (found["running"], found["waiting"]) == (1, 1)
        assert [each["does"] for each in found["advice"]["slurm"]] == ["keep", "wait"]


def test_jobs_on_draining_nodes_are_left_out_and_every_job_counts() -> None:
    line = f"{{}}|a|u|main|RUNNING|{AT}|30:00|1:00|1|cpu=1|gres:gpu:{{}}:1|N/A|{{}}|\n"
    told = [
        ("1", "t4", "n01"),
        ("2", "t4", "n[02-03]"),
        ("3", "t4", "n04"),
        ("4", "h9", "n04"),
        ("5", "h9", "n04"),
    ]
    sinfo = "n01|drng|gpu:t4:2\nn03|drain|gpu:t4:2\nn04|mix|gpu:t4:2\nn02|mix|gpu:t4:2\n"
    found = read_now(sinfo, "".join(line.format(*each) for each in told))
    assert [job.name for job in found.jobs] == ["3"] and found.left_out == 4 and found.counts == {"t4": 4}
