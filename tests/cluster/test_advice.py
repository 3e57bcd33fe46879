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
from eunomia.study.cluster.advising import POLICIES, slurm_now
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
        asked = [
            "sbatch",
            "-o",
            "/dev/null",
            "--array=0-3%1",
            "--hold",
            "--gres=gpu:t4:1",
            "-t",
            "5",
            "--wrap",
            "true",
        ]
        children.run(asked, env=conf, check=True, cwd=tmp_path)
        until(lambda: "R" in children.run(["squeue", "-h", "-o", "%t"], env=conf).stdout)
        words = children.eunomia("cluster", "advise", "--json", "-p", "slurm")
        found = json.loads(children.run(words, env=conf, check=True).stdout)
        assert found["gpus"] == {"a100": 2, "t4": 4} and (found["running"], found["waiting"]) == (1, 1)
        assert [each["does"] for each in found["advice"]["slurm"]] == [
            "keep",
            "wait",
        ]  # the array waits as one


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


NEW = "cpu=8,mem=64G,node=1,billing=12"  # of Slurm 23.11 and 24.05, which write gres/gpu where 22.05 wrote gres:gpu


@pytest.mark.parametrize(
    ("alloc", "per_node", "per_job", "nodes", "wanted"),
    [
        (f"{NEW},gres/gpu:a100=2,gres/gpu=2", "gres/gpu:a100:2", "N/A", 1, (2, "a100")),
        (f"{NEW},gres/gpu=4", "gres/gpu:4", "N/A", 1, (4, "")),
        (NEW, "gres/gpu:a100:2(S:0-1)", "N/A", 2, (4, "a100")),
        (NEW, "gres/gpu:1g.5gb:3", "N/A", 1, (3, "1g.5gb")),
        (NEW, "gres/gpu:nvidia_a100-sxm4-80gb:1,gres/shard:4", "N/A", 1, (1, "nvidia_a100-sxm4-80gb")),
        (NEW, "N/A", "gres/gpu:a100=6", 3, (6, "a100")),
        (f"{NEW},gres/gpumem=40G,gres/gpuutil=0", "gres:gpu:t4", "N/A", 1, (1, "t4")),
    ],
)
def test_gpus_of_newer_slurms_are_read(
    alloc: str, per_node: str, per_job: str, nodes: int, wanted: tuple[int, str]
) -> None:
    sinfo = (
        "n1|mix-|gpu:a100:8(S:0-1),shard:a100:16(S:0-1)\nn2|idle~|gpu:1g.5gb:4(S:0),gpu:2g.10gb:2(S:0)\n"
        "n3|alloc|gpu:nvidia_a100-sxm4-80gb:4(S:0-3)\nn4|idle|gpu:t4:1(IDX:0)\n"
    )
    line = f"7|a|u|p,q|PENDING|{AT}|1-00:00:00|0:00|{nodes}|{alloc}|{per_node}|{per_job}||N/A|5|0|12|"
    found = read_now(sinfo, line)
    assert [(job.gpus, job.kind) for job in found.jobs] == [wanted] and found.left_out == 0
    assert found.counts == {"a100": 8, "1g.5gb": 4, "2g.10gb": 2, "nvidia_a100-sxm4-80gb": 4, "t4": 1}


@pytest.mark.parametrize("request_", ["gres/shard:2", "gres/mps:50", "N/A"])
def test_parts_of_gpus_are_left_out_and_counted(request_: str) -> None:
    line = f"7|a|u|p|RUNNING|{AT}|5:00|0:10|1|{NEW},gres/shard=0.5|{request_}|N/A|vm|{AT}|0|0|12|"
    found = read_now(SINFO, line)
    assert found.jobs == () and found.left_out == 1


@pytest.mark.parametrize(
    ("state", "works"),
    [
        (s, True)
        for s in (
            "idle",
            "mix",
            "alloc",
            "alloc+",
            "comp",
            "plnd",
            "mix-",
            "idle~",
            "idle#",
            "mix@",
            "pow_up",
        )
    ]
    + [
        (s, False)
        for s in ("idle*", "mix*", "down~", "drain*", "drng@", "maint$", "idle$", "reboot^", "idle^", "boot#")
    ]
    + [(s, False) for s in ("idle!", "idle%", "pow_dn%", "futr", "resv", "inval", "unk*", "failg", "npc")],
)
def test_states_of_nodes_with_their_marks(state: str, works: bool) -> None:
    found = read_now(f"n1|{state}|gpu:t4:4\nn2|idle|gpu:t4:1", "")
    assert found.counts == {"t4": 5 if works else 1}


def test_arrays_that_wait_are_left_out_and_their_tasks_and_parts_of_jobs_are_single_jobs() -> None:
    """Slurm writes what waits of an array as one job; its number alone would release all of them."""
    line = f"{{}}|a|u|p|{{}}|{AT}|5:00|{{}}|1|{NEW}|gres/gpu:t4:1|N/A|vm|{AT}|0|0|{{}}|"
    told = [
        ("9_[2-5%2]", "PENDING", "0:00", 5),
        ("9_[7]", "PENDING", "0:00", 5),
        ("9_0", "RUNNING", "1:00", 5),
    ]
    told += [
        ("10+1", "RUNNING", "INVALID", 5),
        ("11", "PENDING", "0:00", 0),
        ("12", "REQUEUE_HOLD", "0:00", 0),
    ]
    found = read_now(SINFO, "\n".join(line.format(*each) for each in told))
    assert {job.name: (job.running, job.held) for job in found.jobs} == {
        "9_0": (True, False),
        "10+1": (True, False),
        "11": (False, True),
    }
    assert found.left_out == 3 and found.jobs[1].used_s in (0.0, 60.0)


def test_jobs_that_hold_gpus_without_running_are_not_taken_for_waiting(tmp_path: Path) -> None:
    """A node that is woken up or cleans up is nobody else's."""
    line = f"{{}}|a|u|p|{{}}|{AT}|5:00|0:10|1|{NEW}|gres/gpu:t4:2|N/A|vm|{AT}|0|0|5|\n"
    told = [("1", "CONFIGURING"), ("2", "COMPLETING"), ("3", "PENDING")]
    (tmp_path / "sinfo").write_text("vm|mix|gpu:t4:4\n")
    (tmp_path / "squeue").write_text("".join(line.format(*each) for each in told))
    now = slurm_now(tmp_path / "sinfo", tmp_path / "squeue")
    assert [each.does for each in advise(now, own_allocator("slurm"), {}, {})] == ["keep", "keep", "wait"]


def test_nodes_with_two_ranges_are_those_of_the_job() -> None:
    line = f"1|a|u|p|RUNNING|{AT}|5:00|0:10|2|{NEW}|gres/gpu:t4:1|N/A|r[0-1]n[08-09],x|{AT}|0|0|5|"
    for away, left in (("r1n08", 0), ("x", 0), ("r1n10", 1), ("r[0-1]n", 1)):
        found = read_now(f"{away}|drain|gpu:t4:1\nvm|idle|gpu:t4:8", line)
        assert len(found.jobs) == left


@pytest.mark.parametrize("text", ['{"meta": {"slurm": {"version": {"major": "24"}}}}', "{"])
def test_json_of_slurm_is_refused_with_the_command_to_use(text: str) -> None:
    for given, said in (
        ((text, ""), "sinfo, line 1: .*; write it with sinfo"),
        ((SINFO, text), "squeue, line 1: .*squeue"),
    ):
        with pytest.raises(ConfigError, match=said):
            read_now(*given)
