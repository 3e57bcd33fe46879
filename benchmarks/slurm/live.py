"""One run on a private Slurm: jobs handed in on time, a daemon (or Slurm alone), kills, and what jobs wrote down."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.page import ROOT
from benchmarks.slurm.jobs import WEIGHTS, Asked
from benchmarks.slurm.private import GPUS, private_slurm
from eunomia.core.atomic import write_text
from eunomia.core.provenance import environment
from eunomia.engines.slurm.submission import Submission
from eunomia.study.cluster.slurm_daemon import JOBS, JOURNAL

ROUND_S, LOOK_S, GRACE_S = 20.0, 1.0, 5.0
PATIENCE_S = 2400.0
WORKER = """\
import os, re, subprocess, sys, time
from eunomia.engines.slurm.lease import Lease
log, total, step_s = sys.argv[1], int(sys.argv[2]), {"a100": 0.5, "t4": 1.0}
def now(): return f"{time.time():.3f}"
def say(*words):
    with open(log, "a") as file: file.write(" ".join(map(str, words)) + "\\n")
began, kind = now(), None
while kind is None:
    ask = ["scontrol", "show", "job", os.environ["SLURM_JOB_ID"]]
    kind = re.search("gpu:(a100|t4)", subprocess.run(ask, capture_output=True, text=True).stdout)
    kind or time.sleep(1.0)
kind = kind[1]
say("begin", began, kind)
lease, done = Lease(total), sum(line.startswith("step") for line in open(log))
at = time.monotonic()
while done < total:
    at += step_s[kind]
    time.sleep(max(at - time.monotonic(), 0.0))
    done += 1
    say("step", done, now())
    if lease.step(done) and done < total:
        say("end", now())
        lease.give_back()
say("end", now())
"""
Facts = dict[str, object]


@dataclass
class Live:
    """``policy``: an allocator of the daemon, or ``slurm``: no daemon. ``kills_s``: when the daemon is killed."""

    policy: str
    jobs: list[Asked]
    folder: Path
    kills_s: tuple[float, ...] = ()
    controller_s: float = float(
        "inf"
    )  # from when on slurmctld is killed, once, as soon as its state is saved
    said: dict[str, list[float]] = field(default_factory=lambda: {"daemon": [], "controller": []})

    def run(self) -> Facts:
        """Everything that happened. Ends with a sentence where jobs stand still."""
        slurm = self.folder / "slurm"
        self.commit = str(environment()["commit"])[:7]
        self.state, self.logs = self.folder / "state", self.folder / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        (self.folder / "worker.py").write_text(WORKER)
        with private_slurm(slurm) as env:
            self.env = {**env, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
            self.daemon = self._daemon()
            try:
                return self._watch(slurm)
            finally:
                if self.daemon is not None:
                    self.daemon.kill()
                    self.daemon.wait()

    def _daemon(self) -> subprocess.Popen[bytes] | None:
        if self.policy == "slurm":
            return None
        words = ["cluster", "daemon", "--actuator", "slurm", "--state", str(self.state)]
        words += ["--partition", "main"]
        words += ["--policy", self.policy, "--round-s", str(ROUND_S), "--look-s", str(LOOK_S)]
        words += ["--grace-s", str(GRACE_S), "--speed", "a100=2", "--speed", "t4=1"]
        words += [word for name, weight in WEIGHTS.items() for word in ("--weight", f"{name}={weight}")]
        out = (self.folder / "daemon.log").open("ab")
        with out:
            return subprocess.Popen(
                [sys.executable, "-m", "eunomia", *words], env=self.env, stdout=out, stderr=out, cwd=ROOT
            )

    def _watch(self, slurm: Path) -> Facts:
        while self.daemon is not None and not (self.state / JOURNAL).exists():
            time.sleep(0.5)  # it waits for the nodes of a new controller
        zero_s, todo = time.time(), list(self.jobs)
        window_s = self.jobs[-1].at_s
        kills, submits, promised = list(self.kills_s), dict[int, float](), None
        while True:
            at_s = time.time() - zero_s
            while todo and todo[0].at_s <= at_s:
                job = todo.pop(0)
                submits[job.number] = time.time() - zero_s
                self._submit(job)
            if kills and kills[0] <= at_s and self.daemon is not None:
                kills.pop(0)
                self.said["daemon"].append(at_s)
                self.daemon.kill()
                self.daemon.wait()
                self.daemon = self._daemon()
            if at_s >= self.controller_s and self._saved(slurm):
                self.controller_s = float("inf")
                self.said["controller"].append(at_s)
                os.kill(int((slurm / "slurmctld.pid").read_text()), signal.SIGKILL)
                subprocess.run(["slurmctld", "-f", self.env["SLURM_CONF"]], env=self.env, capture_output=True)
            if promised is None and not todo:
                promised = self._accounts()
            if not todo and int(at_s * 5) % 10 == 0 and self._finished():
                break
            if at_s > PATIENCE_S:
                raise SystemExit(f"{self.policy}: jobs stand still after {at_s:.0f} s; see {self.folder}")
            time.sleep(0.2)
        return self._facts(zero_s, submits, window_s, promised)

    def _submit(self, job: Asked) -> None:
        command = (
            sys.executable,
            str(self.folder / "worker.py"),
            str(self.logs / str(job.number)),
            str(job.steps),
        )
        made = Submission(
            command, f"{job.kind}:{job.gpus}", self.state / JOBS, f"job{job.number}", job.account, "main",
            str(job.minutes), f"j{job.number}", job.anywhere, ("--output=/dev/null", f"--ntasks={10 * job.gpus}"),
        )  # fmt: skip
        made.folder.mkdir(parents=True, exist_ok=True)
        made.path.write_text(made.script())
        kinds = GPUS if job.anywhere and self.policy != "slurm" else ("",)
        for words in map(made.sbatch, kinds):
            self._hand_in([word for word in words if self.policy != "slurm" or word != "--hold"])

    def _hand_in(self, words: list[str]) -> None:
        for _ in range(30):  # a controller that was killed a moment ago
            if subprocess.run(words, env=self.env, capture_output=True).returncode == 0:
                return
            time.sleep(1.0)
        raise SystemExit(f"sbatch fails: {' '.join(words)}")

    def _saved(self, slurm: Path) -> bool:
        """Whether the controller has saved its state after the last act: else it may forget a start."""
        with contextlib.suppress(OSError):
            acts = (self.state / "acts.jsonl").stat().st_mtime
            return (slurm / "state" / "job_state").stat().st_mtime > acts + 1.0
        return False

    def _accounts(self) -> Mapping[str, list[float]]:
        with contextlib.suppress(OSError, ValueError, KeyError):
            found: Mapping[str, list[float]] = json.loads((self.state / JOURNAL).read_text())["accounts"]
            return found
        return {}

    def _finished(self) -> bool:
        return all((self.state / JOBS / f"job{job.number}.done").exists() for job in self.jobs)

    def _facts(self, zero_s: float, submits: dict[int, float], window_s: float, promised: object) -> Facts:
        leases, done, ended = [], {}, {}
        for job in self.jobs:
            steps: list[int] = []
            begun: tuple[float, str] | None = None
            for line in (self.logs / str(job.number)).read_text().splitlines():
                word, *rest = line.split()
                if word == "begin":
                    begun = float(rest[0]) - zero_s, rest[1]
                elif word == "step":
                    steps.append(int(rest[0]))
                    last_s = float(rest[1]) - zero_s
                elif begun is not None:
                    leases.append(
                        [job.number, begun[1], round(begun[0], 2), round(float(rest[0]) - zero_s, 2)]
                    )
                    begun = None
            done[job.number] = steps == list(range(1, job.steps + 1))
            ended[job.number] = round(last_s, 2)
        codes = [(self.state / JOBS / f"job{job.number}.done").read_text().strip() for job in self.jobs]
        return {
            "policy": self.policy, "window_s": window_s, "submits": list(submits.values()), "leases": leases,
            "steps once": sum(done.values()), "ended with 0": codes.count("0"), "ends": list(ended.values()),
            "kills": self.said, "promised": promised, "commit": self.commit,
        }  # fmt: skip


def kept(path: Path, live: Live) -> Facts:
    """What was written down by an earlier call, or is measured now."""
    if not path.exists():
        write_text(path, json.dumps(live.run()) + "\n")
    found: Facts = json.loads(path.read_text(encoding="utf-8"))
    return found
