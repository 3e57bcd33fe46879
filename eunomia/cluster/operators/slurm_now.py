"""A Slurm cluster as it is now: ``sinfo`` and ``squeue`` in the formats below, from the commands or from saved files.

GPUs of a job: of ``tres-alloc`` where Slurm counts them (``AccountingStorageTRES=gres/gpu``), else of ``--gres`` times
its nodes, or of ``--gpus``. Jobs without GPUs and array tasks that have not begun (``12_[3-9%2]``) are left out and
counted. So are running jobs on nodes that drain, reboot, do not answer or are down, as their GPUs are not counted.
Times have no zone; all are of the same clock. The look is of the moment that ``scontrol show config`` prints. Saved
output lacks it: there the newest moment counts, a start plus the time used, or a submission plus the wait.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from eunomia.cluster.traces.slurm_text import gpus_of, gres_of, moment_s, span_s
from eunomia.core.errors import ConfigError

SINFO = ("sinfo", "-a", "-h", "-N", "-o", "%N|%t|%G")
WANTED = "JobArrayID Account UserName Partition State SubmitTime TimeLimit TimeUsed NumNodes"
GRANTED = ("tres-alloc", "tres-per-node", "tres-per-job", "NodeList")
FIELDS = (*WANTED.split(), *GRANTED, "StartTime", "PendingTime", "RestartCnt", "PriorityLong")
SQUEUE = ("squeue", "-a", "-h", "-O", ",".join(f"{field}:|" for field in FIELDS))
SSHARE = ("sshare", "-a", "-P")
CLOCK = ("scontrol", "show", "config")
CLOCK_SAYS = re.compile(r"Configuration data as of (\S+)")
AWAY = (
    *(
        "down",
        "drain",
        "drng",
        "fail",
        "maint",
        "boot",
        "reboot",
        "unk",
        "resv",
        "inval",
        "futr",
        "npc",
        "no_resp",
    ),
    *(
        "pow_dn",
        "power_down",
        "powering_down",
    ),  # it is on its way; one that sleeps ("idle~") is woken for a job
)
GOES = "*$^%!"  # behind a state: does not answer, maintenance, reboots, goes to sleep
HOSTS = re.compile(r",(?![^\[]*\])")
NUMBERS = re.compile(r"\[([^\]]*)\]")
UNTYPED = "gpu"


@dataclass(frozen=True)
class Job:
    """One job of the queue; ``kind``: the type of GPU that it wants, "" = any. Times: of the controller's clock."""

    name: str
    account: str
    user: str
    running: bool
    submit_s: float
    limit_s: float
    used_s: float
    gpus: int
    kind: str
    state: str = "PENDING"
    partition: str = ""
    nodes: int = 1
    restarts: int = 0
    held: bool = False  # waits for a release
    twins: tuple[tuple[str, str], ...] = ()  # of a job for any type: (type, number in Slurm)
    number: str = ""  # of the twin that this says; "" = ``name``
    spare: tuple[tuple[Literal["hold", "requeue"], str], ...] = ()  # what holds more twins, and their numbers

    @property
    def waits(self) -> bool:
        """It holds no GPU."""
        return self.state == "PENDING"

    def may(self, kind: str) -> bool:
        """Whether it may run on this type."""
        return self.kind in ("", kind) and (not self.twins or kind in dict(self.twins))


@dataclass(frozen=True)
class SlurmNow:
    """``counts``, ``per_node``: GPUs by type that work now. ``names``: the whole queue. ``now_s``: when it was read."""

    counts: dict[str, int]
    per_node: dict[str, int]
    jobs: tuple[Job, ...]
    left_out: int
    now_s: float
    names: frozenset[str] = frozenset()


def read_now(
    sinfo: str, squeue: str, clock: str = "", states: Sequence[str] = ("PENDING", "RUNNING")
) -> SlurmNow:
    """From the output of the commands. Raises ConfigError with the line and what is expected."""
    counts, per_node = _nodes(sinfo.splitlines())
    away = _away(sinfo.splitlines())
    jobs, names, moments, left_out = [], set(), [0.0], 0
    for number, line in enumerate(squeue.splitlines(), 1):
        if line.strip():
            cell = _cells(line, number)
            names.add(cell["JobArrayID"])
            job = _job(cell, number, states)
            moments += _moments(cell)
            if job is not None and not job.waits and away & _hosts(cell["NodeList"]):
                job = None
            jobs.append(job) if job is not None else None
            left_out += job is None
    unknown = sorted({job.kind for job in jobs if job.kind and job.kind not in counts})
    left_out += sum(job.kind in unknown for job in jobs)
    jobs = [job for job in jobs if job.kind not in unknown]
    jobs.sort(key=lambda job: (job.submit_s, len(job.name), job.name))
    said = CLOCK_SAYS.search(clock)
    said_s = moment_s(said[1]) if said else None
    now_s = max(moments) if said_s is None else said_s
    return SlurmNow(counts, per_node, tuple(jobs), left_out, now_s, frozenset(names))


def types_of(sinfo: str) -> list[str]:
    """Types of GPU, those of nodes that are away, too."""
    lines = [line.strip().split("|") for line in sinfo.splitlines()]
    return list(
        dict.fromkeys(kind or UNTYPED for cells in lines if len(cells) > 2 for kind in gres_of(cells[2]))
    )


def _moments(cell: Mapping[str, str]) -> list[float]:
    """Moments up to the look that a job speaks of."""
    submit_s, start_s = moment_s(cell["SubmitTime"]), moment_s(cell["StartTime"])
    used_s, waited = span_s(cell["TimeUsed"]), cell["PendingTime"]
    if submit_s is None or used_s is None:
        return []
    if cell["State"] == "PENDING":
        return [submit_s + (float(waited) if waited.isdigit() else 0.0)]
    return [(submit_s if start_s is None else start_s) + used_s]


def _away(lines: Iterable[str]) -> set[str]:
    """Names of nodes whose GPUs are not counted."""
    cells = [line.strip().split("|") for line in lines]
    return {cell[0] for cell in cells if len(cell) > 2 and _is_away(cell[1])}


def _is_away(state: str) -> bool:
    """``down*``, ``mix*``, ``idle%``; not ``idle~``, ``mix-``, ``alloc@``."""
    return state.lower().startswith(AWAY) or state.endswith(tuple(GOES))


def _hosts(nodes: str) -> set[str]:
    """Nodes of a job: ``a,n[1-3,07],r[0-1]n[1-2]`` are a, n1, n2, n3, n07, r0n1, r0n2, r1n1 and r1n2."""
    found: set[str] = set()
    for part in HOSTS.split(nodes):
        texts = NUMBERS.split(part)  # text, numbers, text, numbers, ..., text
        found |= set(
            map("".join, product(*([t] if at % 2 == 0 else _numbers(t) for at, t in enumerate(texts))))
        )
    return found


def _numbers(text: str) -> list[str]:
    """``1-3,07`` as 1, 2, 3 and 07."""
    found: list[str] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if low.isdigit() and high.isdigit() and int(high) - int(low) < 100_000:
            found += [f"{n:0{len(low)}}" for n in range(int(low), int(high) + 1)]
        else:
            found.append(part)
    return found


def _nodes(lines: Iterable[str]) -> tuple[dict[str, int], dict[str, int]]:
    counts: dict[str, int] = {}
    most: dict[str, int] = {}
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        cells = line.strip().split("|")
        if not line.strip():
            continue
        if len(cells) < 3:
            raise ConfigError(f"sinfo, line {number}: '{line[:60]}'; write it with {' '.join(SINFO)}")
        name, state, gres = cells[:3]
        if name in seen or _is_away(state):
            continue
        seen.add(name)
        for kind, count in gres_of(gres).items():
            counts[kind or UNTYPED] = counts.get(kind or UNTYPED, 0) + count
            most[kind or UNTYPED] = max(most.get(kind or UNTYPED, 0), count)
    if not counts:
        raise ConfigError(
            "sinfo: no node that works has GPUs; they stand as gpu:TYPE:COUNT in the third field"
        )
    return counts, most


def _cells(line: str, number: int) -> dict[str, str]:
    """A line by field; files saved by an earlier version lack the last ones."""
    cells = [cell.strip() for cell in line.rstrip("|").split("|")]
    cells += [""] * (len(FIELDS) - len(cells))
    if len(cells) > len(FIELDS) or not cells[4]:
        raise ConfigError(f"squeue, line {number}: '{line[:60]}'; write it with {' '.join(SQUEUE)}")
    return dict(zip(FIELDS, cells, strict=True))


def _job(cell: Mapping[str, str], number: int, states: Sequence[str]) -> Job | None:
    """None for a job without GPUs, or one in no such state."""
    name, state, nodes = cell["JobArrayID"], cell["State"], cell["NumNodes"]
    count = int(nodes) if nodes.isdigit() else 1
    gpus, kind = _wanted(cell["tres-alloc"], cell["tres-per-node"], cell["tres-per-job"], count)
    if not gpus or state not in states or "[" in name:
        return None
    submit, used = (
        cell["SubmitTime"],
        "0:00" if cell["TimeUsed"] == "INVALID" else cell["TimeUsed"],
    )  # clocks differ
    submit_s, limit_s, used_s = moment_s(submit), span_s(cell["TimeLimit"]), span_s(used)
    if submit_s is None or used_s is None:
        raise ConfigError(
            f"squeue, line {number}: job {name} has times '{submit}' and '{used}', which are none"
        )
    account = "" if cell["Account"] == "(null)" else cell["Account"]
    restarts = cell["RestartCnt"]
    return Job(
        name,
        account or cell["UserName"],
        cell["UserName"],
        state == "RUNNING",
        submit_s,
        math.inf if limit_s is None else limit_s,
        used_s,
        gpus,
        kind,
        state=state,
        partition=cell["Partition"],
        nodes=max(count, 1),
        restarts=int(restarts) if restarts.isdigit() else 0,
        held=cell["PriorityLong"] == "0",
    )


def _wanted(alloc: str, per_node: str, per_job: str, nodes: int) -> tuple[int, str]:
    found = gpus_of(alloc) if "gres/gpu" in alloc else None
    if found is not None and found[0]:
        return found[0], found[1][0] if len(found[1]) == 1 else ""
    for text, times in ((per_node, nodes), (per_job, 1)):
        gres = gres_of(text)
        if gres:
            kinds = [kind for kind in gres if kind]
            return sum(gres.values()) * times, kinds[0] if len(kinds) == 1 and len(gres) == 1 else ""
    return 0, ""
