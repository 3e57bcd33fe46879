"""A job for any type of GPU: handed in once for each type, all held; the daemon releases one at a time.

Slurm 22.05 takes no type back from a job: an update adds the new one, and the old one still asks for a free GPU on the
same node. A node with GPUs of one type never has it. So each of the twins keeps its type, and they are one job to the
daemon. They share a script, which writes down its end once; then the daemon cancels the twins that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from eunomia.cluster.live_book import Book, Known
from eunomia.cluster.operators.slurm_now import Job
from eunomia.core.errors import ConfigError
from eunomia.engines.slurm.acts import Act
from eunomia.engines.slurm.submission import ANY_TYPE
from eunomia.study.cluster.slurm_lost import CANCELLED, DONE

WIDTH = 40
CELLS = ((0, WIDTH), (WIDTH, WIDTH), (2 * WIDTH, WIDTH + len(ANY_TYPE) + 40))
ASKED = ",".join(
    f"{name}:{size}" for name, (_, size) in zip(("JobID", "UserName", "Comment"), CELLS, strict=True)
)
LENGTH = sum(size for _, size in CELLS)


@dataclass
class Tokens:
    """User and token of each twin by its number, "" for other jobs. Asked when the queue has a new number."""

    slurm: Callable[..., str]
    partition: str
    said: dict[str, str] = field(default_factory=dict)

    def read(self, queued: Collection[str], anew: bool) -> dict[str, str]:
        """Of the queue, ``anew`` where numbers may mean other jobs.

        squeue fills each field up. So a line of another length is a piece of a comment with a line break, or has
        letters that are not ASCII: it is not ours. Raises ConfigError for a number that stands twice.
        """
        if anew:
            self.said = {}
        if not set(queued) <= self.said.keys():
            found: dict[str, str] = {}
            for line in self.slurm(("squeue", "-a", "-h", "-p", self.partition, "-O", ASKED)).split("\n"):
                if len(line) != LENGTH:
                    continue
                number, user, comment = (line[at : at + size].strip() for at, size in CELLS)
                if number in found:
                    raise ConfigError(f"squeue: job {number} stands twice; nothing is done until that ends")
                mark, _, token = comment.rpartition(":")
                found[number] = f"{user}/{token}" if mark == ANY_TYPE and token.isalnum() else ""
            self.said = found
        self.said = {number: self.said.get(number, "") for number in queued}
        return self.said


def merged(jobs: Sequence[Job], tokens: Mapping[str, str], book: Book) -> tuple[Job, ...]:
    """The jobs, twins as one. Those with a twin that is not among them, as its node drains, are left out."""
    found, groups = [], dict[str, list[Job]]()
    for job in jobs:
        if tokens.get(job.name):
            groups.setdefault(tokens[job.name], []).append(job)
        else:
            found.append(job)
    names = {known.token: name for name, known in book.jobs.items() if known.token}
    for token, group in groups.items():
        numbers = {job.name for job in group}
        name = names.get(token, "")
        if name not in numbers and name in tokens:
            name = ""  # another job has this number now
        if sum(one == token for one in tokens.values()) == len(numbers):
            found.append(_one(group, name or min(numbers, key=int)))
    return tuple(sorted(found, key=lambda job: (job.submit_s, len(job.name), job.name)))


def _one(group: Sequence[Job], name: str) -> Job:
    up = [job for job in group if not (job.waits and job.held)]
    head = min(up or group, key=lambda job: (job.waits, int(job.name)))
    return replace(
        head,
        name=name,
        number=head.name,
        kind=head.kind if up else "",
        submit_s=min(job.submit_s for job in group),
        twins=tuple(sorted((job.kind, job.name) for job in group)),
        spare=tuple(("hold" if job.waits else "requeue", job.name) for job in up if job is not head),
    )


def drops(
    jobs: Sequence[Job], book: Book, said: Collection[str], anew: bool, folder: Path
) -> dict[str, list[Act]]:
    """Jobs whose run has ended, each with what cancels the twins that are left.

    ``said``: numbers of the queue. ``anew``: the controller has started since the last look that is in the book, so
    that it may have forgotten numbers; who is gone otherwise has ended, whether a daemon saw it or not.
    """
    found = {}
    for job in jobs:
        known = book.jobs.get(job.name)
        if not job.twins or known is None:
            continue
        gone = set(known.twins) - set(said)
        if gone and _over(known, gone, anew, folder):
            found[job.name] = [Act("drop", number, "it has ended", job.name) for _, number in job.twins]
        elif known.released in gone:
            known.released = ""
    return found


def out_of_sight(book: Book, tokens: Mapping[str, str]) -> set[str]:
    """Jobs of which a twin is in the queue; one on a node that drains has them left alone, not forgotten."""
    return {name for name, known in book.jobs.items() if known.token and known.token in tokens.values()}


def note(jobs: Sequence[Job], book: Book, tokens: Tokens) -> None:
    """Write down the twins of jobs."""
    for job in jobs:
        if job.twins:
            known = book.jobs[job.name]
            known.token, known.twins = tokens.said[job.number], [number for _, number in job.twins]


def _over(known: Known, gone: Collection[str], anew: bool, folder: Path) -> bool:
    token = known.token.rpartition("/")[2]
    said = any((folder / f"{token}{suffix}").exists() for suffix in (DONE, CANCELLED))
    return said or (known.released in gone and not anew)
