"""Start decisions of a real slurmctld, one change of the queue at a time, and what the model decides in their place.

Jobs end when they are told, and nothing is changed before the controller has looked twice, so that it is known what it
has decided on what. Submissions, ends and starts are of its log. Judged one by one: before each start, does the model
start this job now, and once all is quiet, does it start anybody else? A job that only the model starts counts as a
disagreement, once.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.slurm.private import FACTOR, GPUS, WEIGHTS, Log, private_slurm
from eunomia.cluster.advice import view_of
from eunomia.cluster.operators.slurm_now import Job, SlurmNow
from eunomia.cluster.policies.slurm.allocator import Slurm

SETTLE_S = 2.3  # more than two intervals of backfill
SCRIPT = "#!/bin/sh\ncat {folder}/$SLURM_JOB_ID >/dev/null\n"
MODELS: dict[str, dict[str, object]] = {
    "slurm, one_node": {"one_node": True},
    "slurm, GPUs reserved one by one (as before)": {},
    "EASY": {"backfill": "easy"},
    "no backfill": {"backfill": "none"},
}
Event = dict[str, object]


def record(path: Path, folder: Path, seed: int, starts: int) -> None:
    """Drive a private Slurm until it has started so many jobs; events as lines of ``path``."""
    rng = random.Random(seed)
    gates, log = folder / "gates", Log(folder)
    part = path.with_suffix(".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    with private_slurm(folder) as env, part.open("w", encoding="utf-8") as file:
        gates.mkdir(exist_ok=True)
        (folder / "job.sh").write_text(SCRIPT.format(folder=gates))
        driver = _Driver(env, folder, gates, log, rng)
        while driver.started < starts:
            for event in driver.turn():
                file.write(json.dumps(event) + "\n")
            file.flush()
        driver.open_all()
    part.replace(path)


@dataclass
class _Driver:
    """Jobs by number: what each wants, who waits, who runs since when."""

    env: dict[str, str]
    folder: Path
    gates: Path
    log: Log
    rng: random.Random

    def __post_init__(self) -> None:
        self.want: dict[int, Event] = {}
        self.waiting: set[int] = set()
        self.running: dict[int, float] = {}
        self.started, self.number, self.depth = 0, 0, 8

    def turn(self) -> Iterator[Event]:
        """One change, and what the controller made of it."""
        if self.number % 20 == 0:
            self.depth = self.rng.randint(4, 14)
        if len(self.waiting) < self.depth:
            while True:
                event = self._submit()
                yield event
                if self._fits(event) or len(self.waiting) >= self.depth:
                    break
        elif self.running:
            for job in self.rng.sample(
                sorted(self.running), min(1 + (self.rng.random() < 0.2), len(self.running))
            ):
                self._end(job)
        time.sleep(SETTLE_S)
        for at_s, what, job in self.log.new():
            if what == "start":
                self.waiting.discard(job)
                self.running[job] = at_s
                self.started += 1
            else:
                self.running.pop(job, None)
            yield {"t": at_s, "what": what, "job": job}
        yield {"t": time.time(), "what": "quiet"}

    def _submit(self) -> Event:
        rng = self.rng
        kind = rng.choice(sorted(GPUS))
        gpus = rng.choice((1, 1, 2) if kind == "a100" else (1, 1, 2, 3, 4))
        minutes, nice = rng.choice((2, 3, 5, 8, 12, 20, 30)), rng.choice((0, 0, 40, 80, 160))
        partition = rng.choice(("main", "main", "fast"))
        words = ["sbatch", "--parsable", "--output=/dev/null", f"--gres=gpu:{kind}:{gpus}"]
        words += [f"--time={minutes}", f"--nice={nice}", f"--partition={partition}", f"--ntasks={10 * gpus}"]
        self.number += 1
        os.mkfifo(self.gates / str(self.number))
        said = subprocess.run(
            [*words, str(self.folder / "job.sh")], capture_output=True, text=True, env=self.env
        )
        job = int(said.stdout)
        if job != self.number:
            raise SystemExit(f"Slurm numbered a job {job} instead of {self.number}; begin anew")
        self.waiting.add(job)
        asked = {"gpus": gpus, "kind": kind, "limit_s": 60 * minutes}
        self.want[job] = {**asked, "nice": nice, "partition": partition}
        return {"t": time.time(), "what": "submit", "job": job, **self.want[job]}

    def _fits(self, event: Event) -> bool:
        held = sum(
            int(str(self.want[job]["gpus"]))
            for job in self.running
            if self.want[job]["kind"] == event["kind"]
        )
        return int(str(event["gpus"])) <= GPUS[str(event["kind"])] - held

    def _end(self, job: int) -> None:
        handle = os.open(self.gates / str(job), os.O_RDWR)  # whether the job reads already or not
        os.write(handle, b"x")
        time.sleep(0.3)
        os.close(handle)

    def open_all(self) -> None:
        """End every job that runs."""
        subprocess.run(["scancel", "--user=root"], env=self.env, capture_output=True)


@dataclass
class Verdict:
    """Starts of Slurm that the model makes, too, those it does not, and those that only it makes."""

    agreed: int = 0
    missed: int = 0
    extra: int = 0

    @property
    def part(self) -> float:
        """Agreement over all starts that either makes."""
        return self.agreed / max(self.agreed + self.missed + self.extra, 1)


def judge(events: Iterable[Event], settings: dict[str, object]) -> Verdict:
    """What the model with these settings decides in Slurm's place, in Slurm's states."""
    policy = Slurm(age=0.0, fair_share=0.0, qos=0.0, **{**WEIGHTS, **settings})  # type: ignore[arg-type]
    verdict, jobs, extra = Verdict(), dict[int, Job](), set[int]()
    about: dict[int, Event] = {}
    for event in sorted(events, key=lambda event: float(str(event["t"]))):
        at_s, number = float(str(event["t"])), int(str(event.get("job", 0)))
        if event["what"] == "submit":
            about[number] = event
            jobs[number] = _job(event, number)
        elif event["what"] == "end":
            jobs.pop(number, None)
        elif event["what"] == "quiet":
            extra |= starts(policy, list(jobs.values()), about, at_s)
        else:
            would = starts(policy, list(jobs.values()), about, at_s)
            verdict.agreed += number in would
            verdict.missed += number not in would
            jobs[number] = replace(jobs[number], running=True, state="RUNNING", used_s=-at_s)
    verdict.extra = len(extra)
    return verdict


def as_lines(events: Iterable[Event], seed: int) -> str:
    """To be kept: times from the last full hour before the first on, as Slurm rounds to whole minutes."""
    found = sorted(events, key=lambda event: float(str(event["t"])))
    zero_s = float(str(found[0]["t"])) // 3600.0 * 3600.0
    return "".join(
        json.dumps({"seed": seed, **event, "t": round(float(str(event["t"])) - zero_s, 3)}) + "\n"
        for event in found
    )


def _job(event: Event, number: int) -> Job:
    gpus, limit_s = int(str(event["gpus"])), float(str(event["limit_s"]))
    return Job(str(number), "", "", False, float(number), limit_s, 0.0, gpus, str(event["kind"]))


def starts(policy: Slurm, jobs: Sequence[Job], about: dict[int, Event], now_s: float) -> set[int]:
    """Numbers of the jobs that the model would start now. ``used_s`` of a running job is minus its start."""
    if not jobs:
        return set()
    here = tuple(replace(job, used_s=now_s + job.used_s) if job.running else job for job in jobs)
    view = view_of(SlurmNow(GPUS, GPUS, here, 0, now_s), {}, {})
    asked = [about[int(job.name)] for job in here]
    traits = {
        **view.traits,
        "nice": np.array([float(str(one["nice"])) for one in asked]),
        "partition_factor": np.array([FACTOR[str(one["partition"])] for one in asked]),
    }
    policy.reset(0)
    began = np.where([job.running for job in here], now_s - np.array([job.used_s for job in here]), np.nan)
    policy._started.put(view.key, began)
    devices = np.asarray(policy.allocate(replace(view, traits=traits)).devices)
    return {int(job.name) for job, row in zip(here, devices, strict=True) if row.any() and not job.running}
