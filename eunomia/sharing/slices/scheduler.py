"""Whose turn it is: a token for a quantum of profiled device time, passed on at the boundary of a node."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eunomia.core.errors import ConfigError, PolicyError, UnknownNameError
from eunomia.sharing.slices.profile import CostProfile


@dataclass
class Turn:
    """A job that takes part. ``credit_s``: what is left of its quantum, below 0 after overuse."""

    name: str
    profile: CostProfile
    weight: float = 1.0
    priority: int = 0
    wants: bool = False
    credit_s: float = 0.0
    charged_s: float = 0.0


Quantum = Callable[[Turn, Sequence[Turn], float], float]


def fair(job: Turn, among: Sequence[Turn], quantum_s: float) -> float:
    """The same quantum for all, in turn. Does badly where one tenant starts many jobs: it gets as many turns."""
    return quantum_s


def weighted(job: Turn, among: Sequence[Turn], quantum_s: float) -> float:
    """Quanta in proportion to weights, ``quantum_s`` for the mean one. Does badly with weights far apart."""
    return quantum_s * job.weight * len(among) / sum(other.weight for other in among)


def priority(job: Turn, among: Sequence[Turn], quantum_s: float) -> float:
    """Turns for the highest priority alone, equals in turn. Does badly for all others: they starve while it works."""
    return quantum_s if job.priority == max(other.priority for other in among) else 0.0


POLICIES: dict[str, Quantum] = {"fair": fair, "weighted": weighted, "priority": priority}


class TurnScheduler:
    """One token. ``charge`` says when it has to be passed on; ``advance`` passes it.

    A quantum is credit in device seconds by the profile. Overuse, the part of the last node beyond it, is taken off the
    next quantum, unless ``charges_overuse`` is off. The only job that wants the device goes on without a switch.
    """

    def __init__(self, policy: str, quantum_s: float, charges_overuse: bool = True) -> None:
        if policy not in POLICIES:
            raise UnknownNameError("policy of time slices", policy, POLICIES)
        if not (math.isfinite(quantum_s) and quantum_s > 0.0):
            raise ConfigError(f"the quantum is {quantum_s} s; more than 0")
        self.quantum, self.quantum_s, self.charges_overuse = POLICIES[policy], quantum_s, charges_overuse
        self.holder: Turn | None = None
        self.switches = 0
        self._jobs: list[Turn] = []
        self._next = 0  # whose turn comes next, by place

    def join(self, job: Turn) -> None:
        """Take in a job. Raises ConfigError for a name that is taken, and a weight that is not positive."""
        if any(other.name == job.name for other in self._jobs):
            raise ConfigError(f"two jobs are called '{job.name}'; give each a name of its own")
        if not (math.isfinite(job.weight) and job.weight > 0.0):
            raise ConfigError(f"job '{job.name}': weight is {job.weight}; more than 0")
        self._jobs.append(job)

    def leave(self, name: str) -> None:
        """A job is over, or its thread has died; a token that it held goes on."""
        job = self._job(name)
        place = self._jobs.index(job)
        self._jobs.remove(job)
        if place < self._next:
            self._next -= 1
        if self.holder is job:
            self.holder = None
            self.advance()

    def want(self, name: str) -> bool:
        """The job has work; whether it may begin at once."""
        self._job(name).wants = True
        if self.holder is None:
            self.advance()
        return self.holder is not None and self.holder.name == name

    def rest(self, name: str) -> None:
        """The job has no work for now."""
        job = self._job(name)
        job.wants = False
        if self.holder is job:
            self.advance()

    def charge(self, name: str, node: int) -> bool:
        """The holder has run a node; whether its quantum is over and somebody else's turn may come."""
        job = self._job(name)
        if self.holder is not job:
            raise PolicyError(
                f"job '{name}' runs a node, but {self.holder and self.holder.name!r} holds the token"
            )
        seconds = job.profile.seconds(node)
        job.charged_s += seconds
        job.credit_s -= seconds
        return job.credit_s <= 0.0

    def advance(self) -> Turn | None:
        """Pass the token on; its next holder, None if nobody wants it."""
        before, wanting = self.holder, [job for job in self._jobs if job.wants]
        if before is not None and not self.charges_overuse:
            before.credit_s = max(0.0, before.credit_s)
        self.holder = None
        if any(self.quantum(job, wanting, self.quantum_s) > 0.0 for job in wanting):
            self.holder = self._turn(wanting)
        self.switches += self.holder is not None and self.holder is not before
        return self.holder

    def _turn(self, wanting: Sequence[Turn]) -> Turn:
        """Round after round of quanta, until one leaves somebody with credit."""
        while True:
            job = self._jobs[self._next % len(self._jobs)]
            self._next = (self._next + 1) % len(self._jobs)
            if job.wants and (quantum_s := self.quantum(job, wanting, self.quantum_s)) > 0.0:
                job.credit_s = min(job.credit_s, 0.0) + quantum_s
                if job.credit_s > 0.0:
                    return job

    def _job(self, name: str) -> Turn:
        found = next((job for job in self._jobs if job.name == name), None)
        if found is None:
            raise UnknownNameError("job", name, [job.name for job in self._jobs])
        return found
