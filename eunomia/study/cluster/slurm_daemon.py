"""A daemon that lets an allocator start and stop jobs of one partition of a Slurm cluster.

Each look: read, book what passed, decide if a round ends or GPUs are free, plan, write everything down, act. What it
decided is on disk before the first act, and acts follow from the difference between that and what Slurm says. A daemon
or a controller that is killed at any moment therefore goes on where it stood.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from eunomia.cluster.live_book import Book, Known
from eunomia.cluster.live_rounds import decide, refuse_what_slurm_cannot, view_with_past
from eunomia.cluster.operators.slurm_now import CLOCK, SINFO, SQUEUE, Job, SlurmNow, read_now
from eunomia.cluster.policies.catalogue import own_allocator
from eunomia.cluster.traces.slurm_text import moment_s
from eunomia.core.atomic import clear_output_errors, write_text
from eunomia.core.errors import ConfigError
from eunomia.engines.slurm.acts import Act, commands
from eunomia.engines.slurm.ask import ask
from eunomia.study.cluster.slurm_plan import STATES, governed, plan, room, somebody_could_start, taken
from eunomia.study.cluster.slurm_twins import Tokens, drops, merged, note, out_of_sight

Ask = Callable[..., str]
JOURNAL, ACTS, LOCK, JOBS = "daemon.json", "acts.jsonl", "daemon.lock", "jobs"
ACT_PATIENCE_S = 15.0
LOOKS_AFTER_BOOT = 6
BOOT = re.compile(r"BOOT_TIME\s*= (\S+)")
MOST_REPORT = 4096  # bytes


@dataclass(frozen=True)
class Orders:
    """What the daemon is to do. ``folder``: its memory, and what jobs report; one per partition."""

    folder: Path
    partition: str = "eunomia"
    policy: str = "max_min_fairness_perf"
    round_s: float = 360.0
    look_s: float = 5.0
    grace_s: float = 30.0
    speeds: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("round_s", "look_s", "grace_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise ConfigError(f"--{name.replace('_', '-')} {value}: it must be positive, in seconds")


class Daemon:
    """``slurm`` runs a command and gives its output; ``clock`` is this machine's."""

    def __init__(self, orders: Orders, slurm: Ask = ask, clock: Callable[[], float] = time.time) -> None:
        self.orders, self.slurm, self.clock = orders, slurm, clock
        self.allocator = own_allocator(orders.policy)
        refuse_what_slurm_cannot(self.allocator, orders.policy)
        self.allocator.reset(0)
        self.book = read_book(orders.folder)
        self.tokens = Tokens(slurm, orders.partition)

    def step(self) -> list[Act]:
        """One look, and its acts performed. Raises ConfigError where Slurm does not answer; nothing is lost by it."""
        acts = self.planned()
        self._write()
        for act in acts:
            self._perform(act)
        if any(act.does == "signal" for act in acts):
            self._write()
        return acts

    def planned(self) -> list[Act]:
        """The acts of a look, not performed. Raises ConfigError."""
        orders, book, at_s = self.orders, self.book, self.clock()
        clock = self.slurm(CLOCK)
        now = read_now(self.slurm(SINFO), self.slurm(SQUEUE), clock, STATES)
        self._let_nodes_report(clock, now.now_s)
        said = BOOT.search(clock)
        boot = said[1] if said else ""
        anew = boot != book.boot or not boot
        tokens = self.tokens.read(now.names, anew)
        ours = merged(governed(now, orders.partition), tokens, book)
        ended = drops(ours, book, tokens, anew, orders.folder / JOBS)
        book.boot = boot
        ours = tuple(job for job in ours if job.name not in ended)
        for name in orders.speeds:
            if name not in now.counts:
                raise ConfigError(f"--speed {name}: there is no such GPU; there are {', '.join(now.counts)}")
        book.look(ours, at_s, orders.round_s, ended.keys() | out_of_sight(book, tokens))
        note(ours, book, self.tokens)
        book.queued = sorted(now.names)
        for job in ours:
            if job.running:
                path = orders.folder / JOBS / f"{job.number or job.name}.steps"
                read_report(path, book.jobs[job.name], job.kind)
        others = taken(now, ours)
        full = at_s >= book.round_ends_s
        if full or somebody_could_start(now, ours, book, others):
            self._decide(now, ours, others, full)
            if full:
                book.rounds, book.round_ends_s = book.rounds + 1, at_s + orders.round_s
        left = [act for acts in ended.values() for act in acts]
        return left + plan(ours, book, room(now, ours, others), at_s, orders.grace_s)

    def _decide(self, now: SlurmNow, ours: Sequence[Job], others: dict[str, int], full: bool) -> None:
        orders, jobs = self.orders, tuple(job for job in ours if job.state != "COMPLETING")
        jobs = tuple(sorted(jobs, key=lambda job: self.book.jobs[job.name].key))
        view = view_with_past(replace(now, jobs=jobs), self.book, orders.speeds, orders.weights, others)
        decide(view, jobs, self.book, self.allocator, full, orders.round_s)

    def _let_nodes_report(self, clock: str, now_s: float) -> None:
        """A killed controller may have forgotten a start; to start that job again would drain its node."""
        said = BOOT.search(clock)
        boot_s = moment_s(said[1]) if said else None
        if boot_s is not None and now_s - boot_s < LOOKS_AFTER_BOOT * self.orders.look_s:
            raise ConfigError(f"slurmctld has started {now_s - boot_s:.0f} s ago; its nodes report first")

    def _write(self) -> None:
        write_text(self.orders.folder / JOURNAL, json.dumps(self.book.as_json(), indent=1) + "\n")

    def _perform(self, act: Act) -> None:
        failed = ""
        try:
            for command in commands(act):
                self.slurm(command, ACT_PATIENCE_S)
        except ConfigError as error:
            failed = str(error)
        if act.does == "signal" and not failed:
            self.book.warned[act.name].sent = True
        told = {"time_s": self.clock(), "round": self.book.rounds, "does": act.does, "job": act.name}
        more = {"on": self.book.target.get(act.name), "failed": failed, "number": act.job if act.of else ""}
        told |= {"why": act.why} | {key: value for key, value in more.items() if value}
        path = self.orders.folder / ACTS
        with clear_output_errors(path), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")

    def run(self, say: Callable[[str], None], looks: int | None = None, wait: bool = True) -> None:
        """Look for ever, or so many times. Where Slurm does not answer, say so once and try again.

        Without ``wait`` raises ConfigError where the first look has no answer.
        """
        silent, count, look_s = "", 0, self.orders.look_s
        with alone(self.orders.folder):
            while looks is None or count < looks:
                try:
                    for act in self.step():
                        say(f"{act.does} {act.job}: {act.why}")
                    silent = ""
                except ConfigError as error:
                    if not (wait or count):
                        raise
                    if str(error) != silent:
                        say(
                            f"waiting: {error}; next look in {look_s:g} s, and so on until Ctrl-C; --no-wait fails"
                        )
                    silent = str(error)
                count += 1
                time.sleep(look_s if looks is None or count < looks else 0.0)


class alone:
    """Hold the lock of a folder for a block. Raises ConfigError where another daemon has it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK
        self.file: TextIO | None = None

    def __enter__(self) -> None:
        with clear_output_errors(self.path):
            (self.path.parent / JOBS).mkdir(parents=True, exist_ok=True)
            self.file = self.path.open("w", encoding="utf-8")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.file.close()
            raise ConfigError(
                f"another daemon works with {self.path.parent}; stop it, or give --state"
            ) from None
        self.file.write(f"{os.getpid()}\n")
        self.file.flush()

    def __exit__(self, *_: object) -> None:
        assert self.file is not None
        self.file.close()


def read_book(folder: Path) -> Book:
    """What a daemon has written down; an empty book where there is nothing. Raises ConfigError."""
    try:
        return Book.of_json(json.loads((folder / JOURNAL).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Book()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{folder / JOURNAL} is no journal of a daemon ({type(error).__name__}); move it away to begin anew"
        ) from None


def read_report(path: Path, known: Known, kind: str) -> None:
    """Steps and their rate as the job reports them. A job's own words: what is no such report is passed over."""
    try:
        with path.open("rb") as file:
            told = json.loads(file.read(MOST_REPORT))
        steps, total, rate = (float(told[name]) for name in ("steps", "total", "rate"))
    except (OSError, ValueError, KeyError, TypeError):
        return
    if all(map(math.isfinite, (steps, total, rate))) and 0.0 <= steps <= total and rate > 0.0:
        known.steps, known.total, known.rate[kind] = steps, total, rate
