"""Jobs for any type of GPU: one twin for each type, of which one runs at a time, through moves and kills."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from eunomia.core.errors import ConfigError
from eunomia.engines.slurm.submission import Submission
from eunomia.study.cluster.slurm_ask import cancel, story, submit
from tests.cluster import fake_slurm
from tests.cluster.fake_slurm import job
from tests.cluster.test_slurm_daemon import LOOK_S, PERF, ROUND_S, World


def twins(**more: object) -> dict[str, dict[str, object]]:
    """One job for any type, as jobs 2 and 3, and what stands beside it."""
    comment = {"comment": "eunomia:any:abc"} | more
    return {"j2": job("g", 1, "a100", **comment), "j3": job("g", 1, "t4", **comment)}


def test_a_job_for_any_type_runs_where_there_is_room(tmp_path: Path) -> None:
    """A type that a job of Slurm 22.05 has named cannot be taken back, so it stands there once for each."""
    world = World(tmp_path, PERF, j1=job("x", 2, "a100", partition="main", priority=1), **twins())
    assert [(act.job, act.of) for act in world.look()] == [("3", "2")] and world.look() == []
    jobs = world.now["jobs"]
    assert (jobs["2"]["state"], jobs["3"]["state"]) == ("PENDING", "RUNNING")
    jobs["1"].update(state="COMPLETED")
    jobs["9"] = job("x", 4, "t4", partition="main", priority=1)  # others want the t4s, once they are free
    jobs["3"].update(state="PENDING", priority=0, now=False, restarts=1)
    fake_slurm.settle(world.now)
    world.now["now"] += int(ROUND_S) + 1
    world.look()
    assert (jobs["2"]["state"], jobs["3"]["state"]) == ("RUNNING", "PENDING")
    assert [each["does"] for each in story(world.folder, "3")] == ["start", "start", "shall run on a100"]
    (world.folder / "jobs").mkdir(exist_ok=True)
    (world.folder / "jobs" / "abc.done").write_text("0\n")
    jobs["2"]["state"] = "COMPLETED"
    assert [(act.does, act.job) for act in world.look()] == [("drop", "3")]
    assert world.look() == [] and jobs["3"]["state"] == "CANCELLED" and jobs["3"]["starts"] == 1


def test_a_twin_that_runs_is_not_counted_as_another_s(tmp_path: Path) -> None:
    """Four jobs for any type fill the four t4, as the a100 are taken; nothing moves for three rounds."""
    more = {
        f"j{10 + 2 * n + second}": job("g", 1, kind, comment=f"eunomia:any:abc{n}")
        for n in range(4)
        for second, kind in enumerate(("a100", "t4"))
    }
    world = World(tmp_path, PERF, j1=job("x", 2, "a100", partition="main", priority=1), **more)
    world.look()
    for _ in range(int(3 * ROUND_S / LOOK_S)):
        assert [world.now["jobs"][str(name)]["state"] for name in (11, 13, 15, 17)] == ["RUNNING"] * 4
        assert world.look() == []


@pytest.mark.parametrize("before", [True, False])
def test_twins_never_run_at_once(tmp_path: Path, before: bool) -> None:
    """Through leases, moves and a kill of the daemon at any command; the job ends once, and nothing of it is left."""
    for kill_at in range(3, 80, 19):
        (tmp_path / str(kill_at)).mkdir()
        more = {
            f"j{n}": job("h", 4 if n % 2 else 2, "t4" if n % 2 else "a100", work=70.0) for n in (4, 5, 6, 7)
        }
        world = World(tmp_path / str(kill_at), "least_attained_service", **twins(), **more)
        world.kill_at, world.kill_before = kill_at, before
        jobs, had = world.now["jobs"], 0.0
        while any(each["state"] in ("PENDING", "RUNNING") for each in jobs.values()):
            up = [jobs[name] for name in "23" if jobs[name]["state"] == "RUNNING"]
            assert len(up) <= 1
            had += LOOK_S * len(up)
            if up and had >= 60.0:
                up[0]["state"] = "COMPLETED"
                (world.folder / "jobs").mkdir(exist_ok=True)
                (world.folder / "jobs" / "abc.done").write_text("0\n")
            world.look()
            assert world.now["now"] < 4000
        assert sorted(jobs[name]["state"] for name in "23") == ["CANCELLED", "COMPLETED"]


def test_a_job_is_left_alone_while_a_twin_of_it_is_out_of_sight(tmp_path: Path) -> None:
    """It may still run on a node that drains, whose GPUs are not counted."""
    world = World(tmp_path, PERF, **twins())
    jobs, real = world.now["jobs"], world.slurm
    world.look()
    ran = next(name for name in "23" if jobs[name]["state"] == "RUNNING")
    drains = {"sinfo": "\nold|drng|gpu:v100:1"}

    def slurm(command: Sequence[str], patience_s: float = 0.0) -> str:
        return real(command).replace(f"|vm|{jobs[ran]['began']}", f"|old|{jobs[ran]['began']}") + drains.get(
            command[0], ""
        )

    world.daemon.slurm = world.daemon.tokens.slurm = slurm
    for _ in range(20):
        assert world.look() == []
    jobs[ran]["state"] = "TIMEOUT"  # there, out of sight
    (other,) = {"2", "3"} - {ran}
    assert [(act.does, act.job) for act in world.look()] == [("drop", other)]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("rebooted", [False, True])
def test_a_twin_that_is_gone(tmp_path: Path, rebooted: bool, restarted: bool) -> None:
    """Cancelled or out of time while it ran: the job has ended. Forgotten by a killed controller: the others go on.

    That the daemon has started anew meanwhile says neither.
    """
    world = World(tmp_path, PERF, **twins())
    jobs = world.now["jobs"]
    world.look()
    ran, other = sorted("23", key=lambda name: jobs[name]["state"] != "RUNNING")
    jobs[ran]["state"] = "CANCELLED"
    if rebooted:
        world.now["boot"] = 1.0
    if restarted:
        world.daemon = world.start()
    acts = [(act.does, act.job) for act in world.look()]
    assert acts == [("start" if rebooted else "drop", other)]


@pytest.mark.parametrize("number", ["3", "4", "99"])
def test_a_comment_that_looks_like_a_line_changes_nothing(tmp_path: Path, number: str) -> None:
    """squeue of Slurm 22.05 prints line breaks of comments as they are, and cuts the field at its width."""
    forged = job("h", 1, "t4", partition="main", comment=f"x\n{number:40}{'u':40}eunomia:any:abc")
    world = World(tmp_path, PERF, **twins(), j4=forged)
    started = [(act.does, act.name) for act in world.look()]
    assert started == [("start", "2")]


def test_a_job_for_any_type_is_handed_in_for_each(tmp_path: Path) -> None:
    numbers = iter(["7", "8", "9"])
    done: list[Sequence[str]] = []

    def slurm(command: Sequence[str], patience_s: float = 0.0) -> str:
        done.append(command)
        if "--gres=gpu:big:2" in command:
            raise ConfigError("Requested node configuration is not available")
        return (
            next(numbers) if command[0] == "sbatch" else "a|idle|gpu:t4:4,gpu:big:1\nb|down|gpu:a100:2(S:0)"
        )

    made = Submission(("x",), "a100:2", tmp_path / "jobs", "abc", any_type=True)
    assert submit(made, slurm) == "7"
    assert [word for each in done for word in each if "gres" in word] == [
        f"--gres=gpu:{kind}:2" for kind in ("a100", "t4", "big")
    ]
    cancel(["8"], "eunomia", tmp_path, slurm)
    assert (
        done[-1] == ("scancel", "--partition=eunomia", "7", "8")
        and (tmp_path / "jobs/abc.cancelled").exists()
    )

    def killed(command: Sequence[str]) -> str:
        if "--gres=gpu:t4:2" in command:
            raise KeyboardInterrupt
        return slurm(command)

    numbers = iter(["11"])
    with pytest.raises(KeyboardInterrupt):
        submit(Submission(("x",), "a100:2", tmp_path / "jobs", "uvw", any_type=True), killed)
    assert '"job": "11"' in (tmp_path / "jobs/uvw.handed").read_text()
    with pytest.raises(ConfigError, match="no node has that type; there are t4, big, a100"):
        submit(Submission(("x",), "k80:2", tmp_path / "jobs", "xyz", any_type=True), slurm)
