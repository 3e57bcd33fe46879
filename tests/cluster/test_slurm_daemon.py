"""The daemon on a fake Slurm in this process: shares, leases, and kills at every moment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eunomia.cluster.live_book import Book
from eunomia.cluster.operators.slurm_now import Job
from eunomia.core.errors import ConfigError
from eunomia.engines.slurm.acts import Act, as_text
from eunomia.engines.slurm.submission import Submission
from eunomia.study.cluster.slurm_ask import cancel, status, story, submit
from eunomia.study.cluster.slurm_daemon import ACTS, JOURNAL, Daemon, Orders, alone
from eunomia.study.cluster.slurm_plan import plan
from tests.cluster import fake_slurm
from tests.cluster.fake_slurm import COUNTS, job

PERF = "max_min_fairness_perf"
ROUND_S, LOOK_S, GRACE_S = 60.0, 5.0, 10.0


class Killed(Exception):
    """The daemon ends here."""


class World:
    """A fake Slurm, its clock, and a daemon that may be killed around any command."""

    def __init__(
        self, folder: Path, policy: str = "max_min_fairness_perf", **jobs: dict[str, object]
    ) -> None:
        self.folder, self.policy = folder / "state", policy
        numbered = {name.lstrip("j"): each for name, each in jobs.items()}
        self.now: Any = {"now": 2000, "done": [], "jobs": numbered}
        self.commands, self.kill_at, self.kill_before = 0, -1, True
        self.daemon = self.start()

    def start(self) -> Daemon:
        orders = Orders(self.folder, "eunomia", self.policy, ROUND_S, LOOK_S, GRACE_S)
        return Daemon(orders, self.slurm, lambda: float(self.now["now"]))

    def slurm(self, command: Sequence[str], patience_s: float = 0.0) -> str:
        """The kill falls before or after the command."""
        self.commands += 1
        if self.commands == self.kill_at and self.kill_before:
            raise Killed
        try:
            return fake_slurm.run(command[0], list(command[1:]), self.now)
        except SystemExit as error:
            raise ConfigError(str(error)) from None
        finally:
            if self.commands == self.kill_at:
                raise Killed

    def look(self) -> list[Act]:
        """One look; after a kill a new daemon takes its place. Jobs end when they have run their ``work``."""
        try:
            acts = self.daemon.step()
        except Killed:
            self.kill_at, acts = -1, []
            self.daemon = self.start()
        world = self.now
        world["now"] += LOOK_S
        for each in world["jobs"].values():
            if each["state"] == "RUNNING":
                assert each["priority"], "a job runs that was held"
                each["work"] = each.get("work", 1e9) - LOOK_S
                each["had"] = each.get("had", 0.0) + LOOK_S
                if each["work"] <= 0:
                    each.update(state="COMPLETED", ended=each.get("ended", 0) + 1)
        used = dict.fromkeys(COUNTS, 0)
        for each in world["jobs"].values():
            used[each["kind"]] += each["gpus"] if each["state"] == "RUNNING" else 0
        assert all(used[kind] <= count for kind, count in COUNTS.items())
        return acts


def test_the_plan_is_text_before_it_is_done() -> None:
    plan = [
        Act("requeue", "3", "its lease is over"),
        Act("signal", "4", ""),
        Act("hold", "5", ""),
        Act("start", "6", "promised 0.50 of the time on t4", "5"),
        Act("drop", "7", "it has ended", "5"),
        Act("start", "8", "", again=True),
    ]
    assert as_text(plan) == (
        "# requeue 3: its lease is over\nscontrol requeuehold Incomplete 3\n"
        "# signal 4\nscancel --signal=USR1 --batch 4\n"
        "# hold 5\nscontrol hold 5\n"
        "# start 6: promised 0.50 of the time on t4\nscontrol update JobId=6 StartTime=now\nscontrol release 6\n"
        "# drop 7: it has ended\nscancel --state=PENDING 7\n"
        "# start 8\nscontrol update JobId=8 StartTime=now+2\nscontrol release 8\n"
    )


def test_accounts_have_what_they_were_promised(tmp_path: Path) -> None:
    """Three jobs want both a100: a third of the time each, through leases of a minute."""
    world = World(
        tmp_path, j1=job("gold", 2, "a100"), j2=job("silver", 2, "a100"), j3=job("bronze", 2, "a100")
    )
    for _ in range(150):
        world.look()
    had = [each["had"] for each in world.now["jobs"].values()]
    assert sum(had) >= 0.7 * 150 * LOOK_S  # the grace period and a look pass at each change
    assert all(abs(each / sum(had) - 1 / 3) <= 0.05 for each in had)
    told: Any = status(world.folder)["accounts"]
    assert all(
        abs(each["received_s"] - each["promised_s"]) <= 0.3 * each["promised_s"] for each in told.values()
    )


def test_a_lease_ends_with_a_signal_then_a_requeue(tmp_path: Path) -> None:
    world = World(tmp_path, PERF, j1=job("gold", 2, "a100"), j2=job("silver", 2, "a100"))
    acts = [(act.does, act.job) for _ in range(60) for act in world.look()]
    first = acts.index(("signal", "1"))
    assert acts[:1] == [("start", "1")]
    assert acts[first : first + 3] == [("signal", "1"), ("requeue", "1"), ("start", "2")]
    told = [(each["does"], each["job"]) for each in story(world.folder, "1")]
    assert told[:3] == [("start", "1"), ("signal", "1"), ("requeue", "1")] and len(told) > 3


@pytest.mark.parametrize(
    "policy", ["themis", "finish_time_fairness_perf", "least_attained_service", "drf", "slurm"]
)
def test_every_job_ends_once_under_every_policy(tmp_path: Path, policy: str) -> None:
    kinds = ["a100", "t4", "t4", "a100", "t4"]
    jobs = {
        f"j{n}": job(f"team{n % 2}", 1 + n % 2, kind, work=40 + 30 * n) for n, kind in enumerate(kinds, 1)
    }
    world = World(tmp_path, policy, **jobs)
    for _ in range(150):
        world.look()
    assert [each.get("ended") for each in world.now["jobs"].values()] == [1] * 5


@pytest.mark.parametrize("before", [True, False])
def test_a_kill_at_any_command_loses_and_doubles_nothing(tmp_path: Path, before: bool) -> None:
    """Whoever runs was started once more than it was requeued, and ends once, wherever the daemon was killed."""
    for kill_at in range(1, 60, 5):
        (tmp_path / str(kill_at)).mkdir()
        jobs = {f"j{n}": job("team", 2, "a100", work=90.0) for n in (1, 2)}
        world = World(tmp_path / str(kill_at), "least_attained_service", **jobs)
        world.kill_at, world.kill_before = kill_at, before
        while any(each["state"] != "COMPLETED" for each in world.now["jobs"].values()):
            world.look()
            assert world.now["now"] < 4000
        assert world.kill_at == -1
        for each in world.now["jobs"].values():
            assert each["ended"] == 1 and each["starts"] == each["restarts"] + 1
            assert each["signals"] >= each["restarts"]


def test_a_job_that_has_just_ended_is_not_run_again(tmp_path: Path) -> None:
    """It ends between the look and the requeue: Slurm would run an ended job once more."""
    world = World(tmp_path, PERF, j1=job("gold", 2, "a100"), j2=job("silver", 2, "a100"))
    real = world.slurm

    def slurm(command: Sequence[str], patience_s: float = 0.0) -> str:
        if "requeuehold" in command:
            world.now["jobs"][command[-1]].update(state="COMPLETED")
        return real(command)

    world.daemon.slurm = slurm
    for _ in range(60):
        world.look()
    ended = [each for each in world.now["jobs"].values() if each["state"] == "COMPLETED"]
    assert ended and all(each["restarts"] == 0 for each in ended)


def test_jobs_of_others_are_left_alone(tmp_path: Path) -> None:
    others = job("x", 2, "a100", partition="main", priority=1)
    world = World(tmp_path, PERF, j1=others, j2=job("gold", 2, "a100"), j3=job("gold", 2, "t4"))
    for _ in range(40):
        acts = world.look()
        assert all(act.job != "1" for act in acts)
    states = {name: each["state"] for name, each in world.now["jobs"].items()}
    assert states == {"1": "RUNNING", "2": "PENDING", "3": "RUNNING"}


def test_without_slurm_nothing_is_decided_and_it_is_said_once(tmp_path: Path) -> None:
    world = World(tmp_path, PERF, j1=job("gold", 2, "a100"))
    world.look()
    before = (world.folder / JOURNAL).read_bytes()
    world.now["away"] = True
    said: list[str] = []
    world.daemon.orders = Orders(world.folder, look_s=1e-3)
    world.daemon.run(said.append, looks=3)
    assert len(said) == 1 and said[0].startswith("waiting: slurm_load_jobs error: Unable to contact")
    assert said[0].endswith("; next look in 0.001 s, and so on until Ctrl-C; --no-wait fails")
    with pytest.raises(ConfigError, match="Unable to contact"):
        world.daemon.run(said.append, wait=False)
    assert len(said) == 1
    assert (world.folder / JOURNAL).read_bytes() == before
    world.now["away"] = False
    world.look()
    assert world.now["jobs"]["1"]["starts"] == 1


def test_after_a_controllers_start_its_nodes_report_first(tmp_path: Path) -> None:
    """A killed controller may not know who runs; a job that is started twice drains its node."""
    world = World(tmp_path, PERF, j1=job("gold", 2, "a100"))
    world.now["boot"] = 1990
    with pytest.raises(ConfigError, match="slurmctld has started 10 s ago; its nodes report first"):
        world.daemon.step()
    world.now["now"] += 40
    assert [act.does for act in world.look()] == ["start"]


def test_what_users_report_is_checked(tmp_path: Path) -> None:
    world = World(tmp_path, PERF, j1=job("gold", 2, "a100"), j2=job("gold", 1, "t4"))
    world.look()
    reports = world.folder / "jobs"
    reports.mkdir()
    (reports / "1.steps").write_text('{"steps": 50, "total": 200, "rate": 2.5}')
    (reports / "2.steps").write_text('{"steps": 50, "total": 20, "rate": Infinity}')
    world.look()
    known = world.daemon.book.jobs
    assert (known["1"].steps, known["1"].total, known["1"].rate) == (50.0, 200.0, {"a100": 2.5})
    assert (known["2"].total, known["2"].rate) == (0.0, {})


def test_a_queue_that_says_a_job_twice_is_refused(tmp_path: Path) -> None:
    """An account may hold a line break and forge a line; then nothing is done."""
    world = World(tmp_path, PERF, j1=job("gold", 2, "a100"))
    real = world.slurm

    def slurm(command: Sequence[str], patience_s: float = 0.0) -> str:
        said = real(command)
        return f"{said}\n{said}" if command[0] == "squeue" else said

    world.daemon.slurm = slurm
    with pytest.raises(ConfigError, match="job 1 stands twice; nothing is done"):
        world.daemon.step()
    assert world.now["done"] == []


def test_a_job_that_has_just_begun_gets_its_signal_later() -> None:
    """By hand: its script may not listen yet, and USR1 would end it."""
    book = Book()

    def acts(used_s: float, at_s: float) -> list[str]:
        ran = Job("1", "gold", "u", True, 0.0, 600.0, used_s, 2, "a100", "RUNNING")
        return [act.does for act in plan([ran], book, {"a100": 0}, at_s, GRACE_S)]

    assert acts(1.0, 100.0) == [] and not book.warned
    assert acts(2.0, 101.0) == ["signal"] and book.warned["1"].at_s == 101.0


def test_who_was_handed_in_and_is_gone_is_named(tmp_path: Path) -> None:
    """Forgotten by a killed controller, started and gone, cancelled on purpose, ended, waiting: told apart."""
    world = World(tmp_path, PERF, j1=job("gold", 2, "a100"), j5=job("gold", 1, "t4"))
    numbers = iter(["9", "1", "2", "3", "4", "5", "5", "6"])

    def slurm(command: Sequence[str], patience_s: float = 0.0) -> str:
        return next(numbers) if command[0] == "sbatch" else ""

    folder = world.folder / "jobs"
    for token in ("early", "runs", "ended", "stopped", "gone", "forgotten", "fresh", "never"):
        assert submit(Submission(("x",), "1", folder, token), slurm).isdigit()
    cancel(["3", "77"], "eunomia", world.folder, slurm)
    (folder / "ended.done").write_text("0\n")
    (folder / "torn.handed").write_text("{")
    world.look()
    assert (
        status(world.folder)["lost"] == []
    )  # the look was before the hand-ins, by the clock of the jobs' records
    for n, path in enumerate(sorted(folder.glob("*.handed"), key=lambda path: path.stat().st_mtime_ns)):
        if path.stem != "torn":
            told = json.loads(path.read_text())
            path.write_text(json.dumps(told | {"at_s": told["at_s"] - 1e12 + n}))
    world.now["now"] += 5
    with (world.folder / ACTS).open("a") as file:
        file.write('{"time_s": 1.0, "does": "start", "job": "4", "why": ""}\n')
    found = {Path(one["script"]).stem: one for one in status(world.folder)["lost"]}  # type: ignore[attr-defined]
    assert set(found) == {"early", "gone", "forgotten", "never"}
    assert "has left the queue without an end" in found["gone"]["why"]
    assert "gave its number to fresh.sh" in found["forgotten"]["why"] and found["forgotten"]["job"] == "5"
    assert all("forgotten it, or scancel" in found[name]["why"] for name in ("early", "never"))
    assert (
        found["never"]["again"].startswith("sbatch --parsable --hold")
        and "never.sh" in found["never"]["again"]
    )


def test_whom_the_queue_has_is_not_lost(tmp_path: Path) -> None:
    """On a node that drains, of a type without a node that works, in a rare state, of another partition, an array."""
    world = World(tmp_path, PERF, j1=job("gold", 2, "a100"))
    real, folder = world.slurm, world.folder / "jobs"
    rows = (
        "11|g|u|eunomia|RUNNING|1000|1:00:00|0:10|1|cpu=1|gres:gpu:t4:1|N/A|old|1000|0|0|1",
        "12|g|u|eunomia|PENDING|1000|1:00:00|0:00|1|cpu=1|gres:gpu:v100:1|N/A||0|0|0|1",
        "13|g|u|eunomia|REQUEUE_HOLD|1000|1:00:00|0:00|1|cpu=1|gres:gpu:t4:1|N/A||0|0|0|0",
        "14|g|u|eunomia|SPECIAL_EXIT|1000|1:00:00|0:00|1|cpu=1|gres:gpu:t4:1|N/A||0|0|0|0",
        "15|g|u|main|PENDING|1000|1:00:00|0:00|1|cpu=1|gres:gpu:t4:1|N/A||0|0|0|0",
    )
    numbers = iter(["11", "12", "13", "14", "15", "16"])

    def slurm(command: Sequence[str], patience_s: float = 0.0) -> str:
        if command[0] == "sbatch":
            return next(numbers)
        more = {"sinfo": "old|drng|gpu:t4:2,gpu:v100:2", "squeue": "" if "-j" in command else "\n".join(rows)}
        return "\n".join(filter(None, (real(command), more.get(command[0], ""))))

    world.daemon.slurm = slurm
    for token in ("drains", "untyped", "held", "special", "elsewhere", "gone"):
        submit(Submission(("x",), "1", folder, token), slurm)
    for path in folder.glob("*.handed"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"at_s": 1.0}))
    world.look()
    assert set(world.daemon.book.jobs) == {"1"}  # the daemon governs none of them
    for told in (
        {},
        {"queued": None},
    ):  # None: written by a version before, which had the jobs it governs only
        journal = json.loads((world.folder / JOURNAL).read_text()) | told
        if told:
            del journal["queued"]
            journal["jobs"] |= {f"{n}": journal["jobs"]["1"] for n in range(11, 16)}
        (world.folder / JOURNAL).write_text(json.dumps(journal))
        assert [one["job"] for one in status(world.folder)["lost"]] == ["16"]  # type: ignore[attr-defined]


def test_faults_of_the_folder_are_one_sentence(tmp_path: Path) -> None:
    world = World(tmp_path, PERF, j1=job("gold", 2, "a100"))
    world.look()
    with (world.folder / ACTS).open("a") as file:
        file.write('{"torn": ')
    assert [each["does"] for each in story(world.folder, "1")] == ["start", "shall run on a100"]
    with pytest.raises(ConfigError, match="job 9 is unknown to the daemon"):
        story(world.folder, "9")
    with (
        alone(world.folder),
        pytest.raises(ConfigError, match="another daemon works with"),
        alone(world.folder),
    ):
        pass
    (world.folder / JOURNAL).write_text("{}")
    with pytest.raises(ConfigError, match="is no journal of a daemon"):
        world.start()
    with pytest.raises(ConfigError, match="no daemon has worked with"):
        status(tmp_path)
    with pytest.raises(ConfigError, match="lets jobs share GPUs, which this daemon cannot"):
        Daemon(Orders(tmp_path / "new", policy="max_min_fairness_packed"), world.slurm)
