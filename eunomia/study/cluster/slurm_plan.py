"""From what a Slurm cluster is to what it shall be: the acts of one look, as a value."""

from __future__ import annotations

from collections.abc import Sequence

from eunomia.cluster.live_book import Book, Warned
from eunomia.cluster.operators.slurm_now import UNTYPED, Job, SlurmNow
from eunomia.core.errors import ConfigError
from eunomia.engines.slurm.acts import Act

SETTLES_S = 2.0  # a script listens by then; squeue counts whole seconds
STATES = (
    "PENDING",
    "RUNNING",
    "CONFIGURING",
    "COMPLETING",
    "SUSPENDED",
    "STOPPED",
    "RESIZING",
    "SIGNALING",
    "STAGE_OUT",
)


def governed(now: SlurmNow, partition: str) -> tuple[Job, ...]:
    """Jobs that the daemon starts and stops. Raises ConfigError for a job that stands twice.

    A job without a type of GPU is left alone where there are types, as Slurm would choose one.
    """
    names = [job.name for job in now.jobs]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ConfigError(f"squeue: job {twice[0]} stands twice; nothing is done until that ends")
    return tuple(
        job
        for job in now.jobs
        if job.partition == partition and job.name.isdigit() and (job.kind or UNTYPED) in now.counts
    )


def taken(now: SlurmNow, ours: Sequence[Job]) -> dict[str, int]:
    """GPUs that other jobs hold, by type; of an unknown type: where most are left."""
    held = dict.fromkeys(now.counts, 0)
    names = {number for job in ours for number in (job.name, *(twin for _, twin in job.twins))}
    for job in sorted(now.jobs, key=lambda job: not job.kind):
        if job.name not in names and not job.waits:
            most = max(held, key=lambda kind: now.counts[kind] - held[kind])
            held[job.kind or most] += job.gpus
    return held


def room(now: SlurmNow, ours: Sequence[Job], others: dict[str, int]) -> dict[str, int]:
    """GPUs by type that nobody holds or has been released for."""
    left = {kind: count - others[kind] for kind, count in now.counts.items()}
    for job in ours:
        if not (job.waits and job.held):
            left[job.kind or UNTYPED] -= job.gpus
    return left


def somebody_could_start(now: SlurmNow, ours: Sequence[Job], book: Book, others: dict[str, int]) -> bool:
    """Whether GPUs are promised to nobody while a job waits that they would do for."""
    left = {kind: count - others[kind] for kind, count in now.counts.items()}
    waiting = []
    for job in ours:
        kind = book.target.get(job.name, "" if job.waits else job.kind or UNTYPED)
        if kind in left:
            left[kind] -= job.gpus
        elif job.waits:
            waiting.append(job)
    for job in waiting:
        if any(job.gpus <= count and (kind == UNTYPED or job.may(kind)) for kind, count in left.items()):
            return True
    return False


def plan(ours: Sequence[Job], book: Book, left: dict[str, int], at_s: float, grace_s: float) -> list[Act]:
    """What brings the cluster to the book's target. A start waits until its GPUs are free."""
    acts: list[Act] = []
    left = dict(left)
    for job in ours:
        target, why = book.target.get(job.name), book.why.get(job.name, "")
        of = job.name if job.twins else ""
        number = job.number or job.name
        if job.twins and not (job.waits and job.held) and target != job.kind:
            target = None  # it is to run on another type: first this one is given back
        if target:
            book.warned.pop(job.name, None)
        acts += [Act(does, spare, "another of its twins runs", of) for does, spare in job.spare]
        if job.state in ("RUNNING", "CONFIGURING") and not target:
            acts += _take_back(job, book, at_s, grace_s, why)
        elif job.waits and not job.held and not target:
            acts.append(Act("hold", number, why, of))
        elif job.waits and job.held and target and job.gpus <= left.get(target, 0):
            left[target] -= job.gpus
            known = book.jobs[job.name]
            again = known.began_s is not None or job.restarts > 0 or bool(known.released)
            number = known.released = dict(job.twins).get(target, job.name)
            acts.append(Act("start", number, why, of, again))
    order = {"drop": 0, "requeue": 0, "hold": 1, "signal": 2, "start": 3}
    return sorted(acts, key=lambda act: order[act.does])


def _take_back(job: Job, book: Book, at_s: float, grace_s: float, why: str) -> list[Act]:
    """First the signal to save, after the grace period the requeue."""
    warned, number, of = book.warned.get(job.name), job.number or job.name, job.name if job.twins else ""
    if job.state != "RUNNING":
        return [Act("requeue", number, why, of)]  # it has not begun, so there is nothing to save
    if job.used_s < SETTLES_S:
        return []  # its script may not listen yet, and the signal would end it
    if warned is None or warned.restarts != job.restarts:
        book.warned[job.name] = Warned(job.restarts, at_s)
        return [Act("signal", number, why, of)]
    if not warned.sent:  # the daemon ended between writing and sending
        return [Act("signal", number, why, of)]
    return [Act("requeue", number, why, of)] if at_s >= warned.at_s + grace_s else []
