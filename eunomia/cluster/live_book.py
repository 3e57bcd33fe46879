"""What is remembered of a real cluster's jobs from one look to the next; a value that is written down as JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from eunomia.cluster.operators.slurm_now import UNTYPED, Job
from eunomia.core.data import Json

STICKINESS = 1.0  # rounds of credit for standing somewhere, as in the simulator


@dataclass
class Known:
    """One job. Credit and time are in seconds of the job, by type of GPU."""

    key: int  # ascending with the first look
    free: bool  # runs on several types
    submit_s: float  # when Slurm had it first; a requeue changes what squeue says
    began_s: float | None = None
    share: dict[str, float] = field(default_factory=dict)  # of time, since the last round
    credit: dict[str, float] = field(default_factory=dict)  # promised minus received
    had_s: dict[str, float] = field(default_factory=dict)
    isolated_s: float = 0.0
    rate: dict[str, float] = field(default_factory=dict)  # steps/s that it reported
    steps: float = 0.0
    total: float = 0.0  # steps; 0 = it does not say
    speed: dict[str, float] = field(default_factory=dict)  # as the last view had it: steps/s, or relative
    isolated_rate: float = 0.0  # the same under equal division
    token: str = ""  # of twins: one job for any type, handed in once for each
    twins: list[str] = field(default_factory=list)  # their numbers at the last look
    released: str = ""  # the one that was started last


@dataclass
class Warned:
    """A checkpoint signal: of which run, when, and whether it is certain that it was sent."""

    restarts: int
    at_s: float
    sent: bool = False


@dataclass
class Book:
    """All jobs, who shall run where until ``round_ends_s``, and what accounts were promised and had, device-seconds.

    ``queued``: numbers of the whole queue at the last look, of jobs that are left alone, too. ``boot``: when the
    controller had started then.
    """

    jobs: dict[str, Known] = field(default_factory=dict)
    target: dict[str, str] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    warned: dict[str, Warned] = field(default_factory=dict)
    accounts: dict[str, list[float]] = field(default_factory=dict)  # promised, received
    rounds: int = 0
    round_ends_s: float = 0.0
    looked_s: float = 0.0
    next_key: int = 0
    queued: list[str] = field(default_factory=list)
    boot: str = ""

    def as_json(self) -> Json:
        """To be written down."""
        return asdict(self)

    @classmethod
    def of_json(cls, told: Mapping[str, object]) -> Book:
        """What ``as_json`` gave."""
        jobs: dict[str, dict[str, object]] = told["jobs"]  # type: ignore[assignment]
        given = {"queued": list(jobs), **told}  # of versions before, which knew these only
        del given["jobs"]
        warned: dict[str, dict[str, object]] = given.pop("warned")  # type: ignore[assignment]
        book = cls(**given)  # type: ignore[arg-type]
        book.jobs = {name: Known(**each) for name, each in jobs.items()}  # type: ignore[arg-type]
        book.warned = {name: Warned(**each) for name, each in warned.items()}  # type: ignore[arg-type]
        return book

    def look(self, jobs: Sequence[Job], at_s: float, round_s: float, kept: Collection[str] = ()) -> None:
        """Book what passed since the last look; jobs that are gone are forgotten, those in ``kept`` not yet.

        A pause of the daemon counts for one round at most: who ran meanwhile is not known.
        """
        passed_s = min(max(at_s - self.looked_s, 0.0), round_s) if self.looked_s else 0.0
        self.looked_s = at_s
        for job in jobs:
            known = self.jobs.get(job.name)
            if known is None:
                known = Known(self.next_key, False, job.submit_s)
                self.jobs[job.name] = known
                self.next_key += 1
            known.free = bool(job.twins)  # a book of before has free jobs that name a type
            self._pass(job, known, passed_s, round_s)
        here = {job.name for job in jobs} | set(kept)
        for table in (self.jobs, self.target, self.why, self.warned):
            for name in [name for name in table if name not in here]:
                del table[name]

    def kind_of(self, job: Job) -> str:
        """The type on which a job runs; one that only waits may be given another."""
        return job.kind or UNTYPED

    def _pass(self, job: Job, known: Known, passed_s: float, round_s: float) -> None:
        account = self.accounts.setdefault(job.account, [0.0, 0.0])
        for kind, share in known.share.items():
            known.credit[kind] = known.credit.get(kind, 0.0) + share * passed_s
            account[0] += share * passed_s * job.gpus
        kind = self.kind_of(job)
        if not job.running or not kind:
            return
        ran_s = min(passed_s, job.used_s)
        if known.began_s is None:
            known.began_s = self.looked_s - job.used_s
        least = -(1.0 + STICKINESS) * round_s
        known.credit[kind] = max(known.credit.get(kind, 0.0) - ran_s, least)
        known.had_s[kind] = known.had_s.get(kind, 0.0) + ran_s
        account[1] += ran_s * job.gpus
        if known.isolated_rate > 0.0:
            known.isolated_s += ran_s * known.speed.get(kind, 0.0) / known.isolated_rate
