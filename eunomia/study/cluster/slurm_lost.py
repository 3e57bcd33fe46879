"""Jobs that were handed in and stand nowhere: no end is written down, and the queue does not have them.

slurmctld saves its state every few seconds. What it has acknowledged since, a kill makes it forget, and the next job
gets the same number. So each hand-in leaves a record beside its script, and each ``eunomia cluster cancel`` another.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from eunomia.core.atomic import write_text
from eunomia.core.data import Json

HANDED, CANCELLED, DONE = ".handed", ".cancelled", ".done"


@dataclass(frozen=True)
class Handed:
    """One hand-in: ``job``: its number in Slurm; ``words``: of ``sbatch``. ``twins``: the same of its others."""

    script: Path
    job: str
    at_s: float
    words: Sequence[str]
    twins: Sequence[tuple[str, Sequence[str]]] = ()

    @property
    def jobs(self) -> tuple[str, ...]:
        """All of its numbers."""
        return (self.job, *(job for job, _ in self.twins))

    @property
    def open(self) -> bool:
        """Whether neither an end nor a cancellation is written down."""
        return not any(self.script.with_suffix(suffix).exists() for suffix in (DONE, CANCELLED))


def note_handed(handed: Handed) -> None:
    """Write it down. Raises OutputError."""
    told = {"job": handed.job, "at_s": handed.at_s, "words": handed.words, "twins": handed.twins}
    write_text(handed.script.with_suffix(HANDED), json.dumps(told) + "\n")


def handed_in(folder: Path) -> list[Handed]:
    """All hand-ins, the first first; a record that cannot be read is passed over."""
    found = []
    for path in folder.glob(f"*{HANDED}"):
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            twins = [(str(job), list(words)) for job, words in told.get("twins", ())]
            script, words = path.with_suffix(".sh"), list(told["words"])
            found.append(Handed(script, str(told["job"]), float(told["at_s"]), words, twins))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return sorted(found, key=lambda one: one.at_s)


def note_cancelled(folder: Path, jobs: Collection[str]) -> None:
    """These jobs were cancelled on purpose. Raises OutputError."""
    for job, handed in _owners(handed_in(folder)).items():
        if job in jobs and handed.open:
            write_text(handed.script.with_suffix(CANCELLED), f"{job}\n")


def lost(folder: Path, queued: Collection[str], acted: Collection[str], looked_s: float) -> list[Json]:
    """Hand-ins without an end that a look at ``looked_s`` did not find; ``acted``: jobs that the daemon acted on."""
    handed = handed_in(folder)
    owners = _owners(handed)
    found: list[Json] = []
    for one in handed:
        mine = [job for job in one.jobs if owners[job] is one]
        again = one.job not in mine
        if not one.open or one.at_s >= looked_s or any(job in queued for job in mine):
            continue
        why = "it has left the queue without an end: cancelled by scancel, killed, or its node failed"
        if again:
            why = f"slurmctld has forgotten it, and gave its number to {owners[one.job].script.name}"
        elif not any(job in acted for job in one.jobs):
            why = "slurmctld has forgotten it, or scancel has cancelled it before it ran"
        words = [shlex.join(map(str, each)) for each in (one.words, *(words for _, words in one.twins))]
        found.append({"job": one.job, "script": str(one.script), "why": why, "again": "; ".join(words)})
    return found


def _owners(handed: Sequence[Handed]) -> dict[str, Handed]:
    """Who has a number now: the last that got it."""
    return {job: one for one in handed for job in one.jobs}


def with_twins(folder: Path, jobs: Collection[str]) -> list[str]:
    """The numbers, and those of their twins."""
    owners = _owners(handed_in(folder))
    return list(dict.fromkeys(one for job in jobs for one in (owners[job].jobs if job in owners else (job,))))
