"""Refusals of inputs of which nobody knew for sure what they take: each that proves wrong is a miss of its pair.

So are requests whose deadline passed while the server found out what their size takes. The proof is a measurement of
their size, by a trial of the server or by a later request that is answered. What never proves anything counts for
nobody: a client that asks for what no device can do in time moves no indicator. ``MOST`` of a tenant are remembered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from eunomia.serving.devices.climbs import Known
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.state import State

MOST = 128
Noted = tuple[Job, float, Known | None]  # the second: for how long it might have held a device


class Unproven:
    """``fits``: whether a request of a tenant would be let in that may hold a device for so long; changes it.

    ``bound_s``: how long that is now. ``missed``: hears the pair of each that was refused wrongly. ``follow``: has one
    run on what came of its network. ``soon``: does work once what has run is written up. All of one class and so many
    rows are judged at once: tenants choose how many there are.
    """

    def __init__(
        self, state: State, fits: Callable[[str, Job, float], bool], bound_s: Callable[[str], float]
    ) -> None:
        self._state, self._fits, self._bound_s = state, fits, bound_s
        self.follow: Callable[[Job], None] = lambda job: None
        self.missed: Callable[[int], None] = lambda pair: None
        self.soon: Callable[[Callable[[], None]], object] = lambda work: work()
        self._of: dict[str, deque[Noted]] = {}
        self._awaited = set[tuple[str, Known]]()

    def note(self, tenant: str, job: Job, known: Known | None = None) -> None:
        """It is refused; ``known`` is done once the server may have found out what it takes."""
        self._of.setdefault(tenant, deque(maxlen=MOST)).append((job, self._bound_s(tenant), known))
        if known is not None and (tenant, known) not in self._awaited:
            self._awaited.add((tenant, known))
            known.add_done_callback(partial(self._found_out, tenant))

    def answered(self, tenant: str, job: Job) -> None:
        """One that was let in has its answer: what it took says something of its like, once it is written up."""
        if tenant in self._of:
            self.soon(partial(self._look, tenant, lambda noted: _alike(job, noted[0])))

    def _found_out(self, tenant: str, known: Known) -> None:
        self._awaited.discard((tenant, known))
        self._look(tenant, lambda noted: noted[2] is known)

    def _look(self, tenant: str, which: Callable[[Noted], bool]) -> None:
        found = [noted for noted in self._of.get(tenant, ()) if which(noted)]
        if not found:
            return
        self._state.later.settle()
        needs_s, wrong = dict[tuple[int, int, bool, float], float | None](), set[Job]()
        for job, bound_s, _ in found:
            self._follow(job)
            like = job.cost_row, job.batch, job.even, bound_s
            if like not in needs_s:
                needs_s[like] = self._needs_s(tenant, replace(job), bound_s)
            least_s = needs_s[like]
            if least_s is not None and least_s <= min(job.deadline_s, job.hard_timeout_s) - job.arrival_s:
                wrong.add(job)
                self.missed(job.pair)
        kept = [noted for noted in self._of[tenant] if noted[0] not in wrong]
        self._of[tenant] = deque(kept, MOST)
        if not kept:
            del self._of[tenant]

    def _follow(self, job: Job) -> None:
        before = job.network
        self.follow(job)
        if job.network is not before:
            self._state.classify(job)

    def _needs_s(self, tenant: str, job: Job, bound_s: float) -> float | None:
        """How long it would take; None = it would not be let in."""
        self._state.classify(job)
        return self._state.rest_s(job) if self._fits(tenant, job, bound_s) else None


def _alike(job: Job, refused: Job) -> bool:
    """Of one class, or of one size, as which either may run a few rows at a time."""
    if refused.network.name != job.network.name:
        return False
    return refused.cost_row == job.cost_row or refused.shapes == job.shapes
