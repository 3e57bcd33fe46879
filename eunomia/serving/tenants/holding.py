"""How long a request may hold a device where nothing can stop it.

Networks are cut for inputs of the trial's size. With a larger input a block takes longer, and everybody waits for its
end. So a request is refused whose longest block takes longer than ``SHARE`` of the shortest deadline that any other
tenant was promised; never one that takes ``LEAST_S`` or less, or ``USUAL`` times the longest block of the trial. The
longest block is measured for its shape; one that never ran counts as grown with the square of its elements from those
that did, or in proportion to the trial. A run that held its device for ``FAR`` times the bound, whatever its shape,
closes its class to its tenant, too.

A refusal may be wrong. With ``explore``, the server tries such sizes itself, in short steps, and the request waits
for what comes of it; a network that is too long for them is cut anew (``devices.by_size``). Where that is in vain,
the first such request of each tenant and network runs. After ``AGAIN_S`` another one does, and half as often after
each that was indeed too long; sizes that never ran are refused until then with that time (429), those that are known
for good (413). ``shapes`` of a network give the trial the usual size, and need no such runs. A size of which a run had
to be ended is too long for the blocks that there are: the next one has it cut anew, too.

A batch that is too long runs a few rows at a time (``devices.portions``), if its network answers each row as if it
were alone. No cut is made for all of its rows then.

A network on which no made-up input runs (``untried``) has no usual size, and nobody can try one. Its first request is
such a run, whatever its size; those of the same tenant that come meanwhile wait for its end.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass

from eunomia.serving.dispatch.costs import Network
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.less import less
from eunomia.serving.dispatch.state import State
from eunomia.serving.protocol.errors import Refused, Untried
from eunomia.serving.tenants.grants import Directory, Grant
from eunomia.serving.tenants.unproven import Unproven
from eunomia.serving.tenants.vain import CRASHED_S, Vain
from eunomia.serving.tenants.words import in_ms, refused, too_large

log = logging.getLogger("eunomia.serving")
SHARE, LEAST_S, USUAL, FAR = 0.5, 0.01, 4.0, 4.0
AGAIN_S, SEEN_S, LONGEST_S = (
    30.0,
    2.0,
    960.0,
)  # to the second probe; after a long run of a usual size; at most
KNOWN_S = 1.0  # so long the promises of all tenants are not looked at again

Known = asyncio.Future[None]  # is done once the server knows


@dataclass
class _Probe:
    due_s: float
    pause_s: float
    cost_row: int = -1  # the class that was tried last
    number: int = -1  # of its request, while that runs
    known: Known | None = None  # is done when it has run


class Holding:
    """``most_s``: the bound for tenants without one; None = by what the others were promised, inf = none."""

    def __init__(self, state: State, directory: Directory, most_s: float | None = None) -> None:
        self._state, self._directory, self.most_s = state, directory, most_s
        self.explore: Callable[[str, Job, float], bool | Known] = lambda tenant, job, bound_s: False
        self.helped: Callable[[str, Job], bool] = lambda tenant, job: False  # whether a cut may
        self.being_cut: Callable[[Job], Known | None] = lambda job: None  # by a request's input
        self.unguarded: Callable[[Job], Known | None] = lambda job: None  # until a process stands by
        self.hollow: Callable[[str, Job], Known | None] = lambda tenant, job: None  # of inputs that are empty
        self._shortest: list[tuple[float, str]] = []  # deadlines of the two tenants with the shortest
        self._read_s = -math.inf
        self._trial_s: dict[int, float] = {}  # longest block of the trial, by number of network
        self._probes: dict[tuple[str, int], _Probe] = {}  # by tenant and network, since somebody loaded it
        self._said: set[int] = set()  # networks of which the log says that inputs are refused
        self.vain = Vain(state.clock)
        self.unproven = Unproven(state, self._fits, self.bound_s)
        self._seen_s: dict[
            tuple[str, int], float
        ] = {}  # what a run took that was far too long, by tenant and class

    def check(self, grant: Grant, job: Job) -> Known | None:
        """None: it may run. Else ask again once the server has found out. Raises TooLarge, Unavailable, Refused."""
        if self.vain:
            if self.vain.pauses(grant.name, job) and (cut := self.being_cut(job)) is not None:
                return cut
            self.vain.check(grant.name, job)
        if (guarded := self.unguarded(job)) is not None and self.bound_s(grant.name) < math.inf:
            return guarded
        if job.hollow and (tried := self.hollow(grant.name, job)) is not None:
            return tried
        seen_s = self._seen_s.get((grant.name, job.cost_row), 0.0) if self._seen_s else 0.0
        if unsure := not self._state.costs.evident(job.cost_row):  # one like it may have run a moment ago
            self._state.later.settle()
            unsure = not self._state.costs.evident(job.cost_row)
        job.unsure = unsure
        rest_s = math.inf if job.unsure else self._state.rest_s(job)
        if not seen_s and rest_s <= LEAST_S:
            return None
        bound_s = self.bound_s(grant.name)
        if not seen_s and rest_s <= bound_s:
            return None
        bound_s = self._least(job, bound_s)
        longest_s = self._longest_s(grant.name, job)
        if longest_s <= bound_s:
            return None
        found = self._under_way(grant.name, job) or self.explore(grant.name, job, bound_s)
        if self._in_portions(grant.name, job, bound_s):  # whatever becomes known of all its rows together
            self.vain.check(grant.name, job)
            return None
        if not isinstance(found, bool):
            return found
        if self._probed(grant.name, job, found=found):
            return None
        self._say(grant.name, job, longest_s, bound_s)
        self.unproven.note(grant.name, job)
        known = seen_s or self._state.costs.evident(job.cost_row)
        if not (found or known):
            raise self._untried(grant.name, job, longest_s)
        remedy = less(self._state.costs, job, bound_s)
        raise too_large(grant.name, longest_s if known else math.inf, bound_s, remedy)

    def _longest_s(self, tenant: str, job: Job) -> float:
        """How long it may hold a device in a block."""
        longest_s = self._state.costs.longest_s(job.network, job.cost_row) * job.rows
        return max(longest_s, self._seen_s.get((tenant, job.cost_row), 0.0))

    def _fits(self, tenant: str, job: Job, bound_s: float) -> bool:
        """Whether it would be let in by what has been measured."""
        costs, bound_s = self._state.costs, self._least(job, bound_s)
        known = costs.evident(job.cost_row)
        return (known and self._longest_s(tenant, job) <= bound_s) or self._in_portions(tenant, job, bound_s)

    def _in_portions(self, tenant: str, job: Job, bound_s: float) -> bool:
        """Whether it runs a few rows at a time instead, as many as are known to be short; it is changed to do so."""
        costs, whole, cost_row = self._state.costs, job.batch, job.cost_row
        if not job.divides(costs):
            return False
        known = costs.evident(job.row_of_one(costs))
        while job.batch > 1:
            job.batch = (job.batch + 1) // 2
            self._state.classify(job)
            if (known or costs.evident(job.cost_row)) and self._longest_s(tenant, job) <= bound_s:
                job.later, job.unsure = whole - job.batch, False
                job.probe = False  # of all rows together
                return True
        job.batch, job.cost_row = whole, cost_row
        return False

    def too_long(self, tenant: str, job: Job) -> bool:
        """Whether one that was let in, and is no probe, would not be by what is known now."""
        probe = self._probes.get(self._key(tenant, job.network))
        if not job.unsure or (probe is not None and probe.number == job.number):
            return False
        bound_s = self.bound_s(tenant)
        longest_s = self._state.costs.longest_s(job.network, job.cost_row) * job.rows
        return bound_s < math.inf and longest_s > self._least(job, bound_s)

    def _say(self, tenant: str, job: Job, longest_s: float, bound_s: float) -> None:
        """Once of each network: an operator may do something for such inputs, and its tenants may not."""
        if job.network.index in self._said or self._strange(
            job.network
        ):  # the log has said so when it was loaded
            return
        self._said.add(job.network.index)
        values = (tenant, job.cost_row) in self._seen_s and self._short(job, bound_s)
        log.warning("%s", refused(job, longest_s, bound_s, values=values))

    def _under_way(self, tenant: str, job: Job) -> Known | None:
        """Of a network that nobody can try: the run by which it becomes known."""
        probe = self._probes.get(self._key(tenant, job.network)) if self._strange(job.network) else None
        if probe is None or probe.number < 0:
            return None
        probe.known = probe.known or asyncio.get_running_loop().create_future()
        return probe.known

    def retired(self, tenant: str, job: Job, *, answered: bool) -> None:
        """A request has left, or does not come to run after ``check``: who waited for its run may ask again."""
        if answered:
            self.vain.answered(tenant, job)
            self.unproven.answered(tenant, job)
        probe = self._probes.get(self._key(tenant, job.network)) if self._strange(job.network) else None
        if probe is not None and probe.number == job.number:
            known, probe.number, probe.known = probe.known, -1, None
            if not answered and not job.attained_s:  # it never ran: the next one may try at once
                probe.due_s, probe.pause_s = 0.0, max(probe.pause_s / 2.0, AGAIN_S / 2.0)
            if known is not None and not known.done():
                known.set_result(None)

    def watches(self, grant: Grant, network: Network) -> bool:
        """Whether ``foresee`` may refuse anything of this tenant and network."""
        return bool(self.vain) or self._key(grant.name, network) in self._probes

    def foresee(self, grant: Grant, job: Job) -> None:
        """Before its tensors are here: raises what ``check`` would for a size that is known; changes nothing."""
        if self.vain and self.being_cut(job) is None:
            self.vain.foresee(grant.name, job)
        if not self._state.costs.evident(job.cost_row):
            return
        bound_s = self._least(job, self.bound_s(grant.name))
        longest_s = self._longest_s(grant.name, job)
        probe = self._probes.get(self._key(grant.name, job.network))
        if longest_s <= bound_s or probe is None or job.accepted_s >= probe.due_s:
            return
        costs = self._state.costs
        if self._in_portions(grant.name, job, bound_s) or (
            job.divides(costs) and not costs.evident(job.row_of_one(costs))
        ):
            return
        if not self.helped(grant.name, job):
            self.unproven.note(grant.name, job)
            raise too_large(grant.name, longest_s, bound_s, less(costs, job, bound_s))

    def ran(self, tenant: str, job: Job, took_s: float) -> None:
        """A run has ended after so long, without what others had of its core meanwhile."""
        key, held_s = (tenant, job.cost_row), took_s / job.network.blocks
        if held_s <= LEAST_S and job.network.index in self._trial_s and not (self._seen_s or self._probes):
            return
        if held_s > FAR * (bound_s := self._least(job, self.bound_s(tenant))):
            self._has_held(tenant, job, held_s)
            return
        if self._seen_s:
            self._seen_s.pop(key, None)
        probe = self._probes.get(self._key(tenant, job.network))
        if (
            probe is not None and probe.cost_row == job.cost_row and held_s <= bound_s
        ):  # what was tried is short: the next may come at once
            probe.due_s = 0.0

    def _has_held(self, tenant: str, job: Job, held_s: float) -> None:
        """Its class is closed to its tenant, but for one now and then, or until it is cut anew."""
        key, own = (tenant, job.cost_row), self._probe(tenant, job.network, _Probe(0.0, SEEN_S))
        if key not in self._seen_s:  # who waits for it goes on to wait
            own.due_s, own.pause_s, own.cost_row = self._state.clock.now_s() + SEEN_S, SEEN_S, -1
        self._seen_s[key] = held_s

    def in_vain(self, tenant: str, job: Job) -> bool:
        """A request has ended without an answer; whether others may have suffered, so that such inputs must pause.

        One that took its device down, or had to be ended there, counts however short its run was. Where others of its
        size are short, its values are at fault: its size is taken for too long once two such runs follow each other.
        """
        bound_s, blocks = self.bound_s(tenant), job.network.blocks * job.parts
        held_s, may_s = job.attained_s / blocks, self._least(job, bound_s)
        if bound_s == math.inf or (not job.felled and held_s <= may_s):
            return False
        if job.felled:  # in its midst, nobody knows how many blocks that were
            held_s, blocks = job.attained_s, 1
        if job.felled and not (job.crashed or self._strange(job.network)):
            if self.vain.again(tenant, job) or not self._short(job, may_s):
                self._has_held(tenant, job, max(held_s, FAR * may_s))
        beyond_s, killed = max(held_s - may_s, 0.0) * blocks, job.killed or job.crashed
        return self.vain.close(tenant, job, CRASHED_S if job.crashed else held_s, beyond_s, killed=killed)

    def _short(self, job: Job, bound_s: float) -> bool:
        """Whether inputs of its size are known to be, so that its values are at fault if it is not."""
        costs = self._state.costs
        return (
            costs.evident(job.cost_row) and costs.longest_s(job.network, job.cost_row) * job.rows <= bound_s
        )

    def died(self, job: Job) -> Refused | None:
        """A device died under it: what those hear that wait like it, where they are not to run."""
        tenant = self._state.agreements[job.pair].tenant
        if self.bound_s(tenant) == math.inf or not self.vain.died(tenant, job):
            return None
        return self.vain.why(tenant, job)

    def patience_s(self, job: Job) -> float:
        """Of processor time that a run may take beyond what is known of its size; inf where nobody else would wait."""
        bound_s = self.bound_s(self._state.agreements[job.pair].tenant)
        return math.inf if bound_s == math.inf else self._least(job, bound_s)

    def bound_s(self, tenant: str) -> float:
        """What no request of this tenant may exceed; inf where nobody else was promised anything."""
        own = self._directory.by_name(tenant)
        if own is not None and own.max_block_s is not None:
            return own.max_block_s or math.inf
        if self.most_s is not None:
            return self.most_s
        now_s = self._state.clock.now_s()
        if now_s - self._read_s >= KNOWN_S:
            self._read_s = now_s
            promised = [g for g in self._directory.all() if g.promises]
            self._shortest = sorted(
                (min(p.deadline_s for p in g.promises.values()), g.name) for g in promised
            )[:2]
        return next((SHARE * deadline_s for deadline_s, name in self._shortest if name != tenant), math.inf)

    def _least(self, job: Job, bound_s: float) -> float:
        network = job.network
        if self._strange(network):  # a client chose the input by which it is known
            return max(bound_s, LEAST_S)
        usual = self._state.costs.usual.get(network.index, network.index)
        if usual not in self._trial_s:  # before anybody's input has moved it
            trial_s = self._state.costs.longest_s(network, network.first_row) * network.rows
            self._trial_s[usual] = trial_s
            if max(bound_s, LEAST_S) < trial_s < math.inf:
                log.warning(
                    "'%s' holds a device for %s without a pause even with its trial's sizes, and others can "
                    "wait for %s: give smaller shapes, or serve it elsewhere",
                    network.name,
                    *in_ms(trial_s, bound_s),
                )
        return max(bound_s, LEAST_S, USUAL * self._trial_s[usual])

    def _key(self, tenant: str, network: Network) -> tuple[str, int]:
        """Of one that was cut otherwise since it was loaded, as of what it was before."""
        return tenant, self._state.costs.usual.get(network.index, network.index)

    def _probe(self, tenant: str, network: Network, first: _Probe) -> _Probe:
        """What there is, or this first one; those of networks that serve no more are forgotten."""
        key, costs = self._key(tenant, network), self._state.costs
        if key not in self._probes:
            served = {costs.usual.get(one.index, one.index) for one in costs.networks.values()}
            kept = {k: one for k, one in self._probes.items() if k[1] in served or one.number >= 0}
            self._probes = {**kept, key: first}
        return self._probes[key]

    @staticmethod
    def _strange(network: Network) -> bool:
        return network.untried

    def _untried(self, tenant: str, job: Job, longest_s: float) -> Untried:
        """It may be short for all that anybody knows: another one of this tenant and network runs now, or did."""
        wait_s = max(self._probes[self._key(tenant, job.network)].due_s - job.accepted_s, 0.001)
        length = f"{longest_s * 1e3:.0f} ms" if longest_s < math.inf else "any time"
        return Untried(
            f"no input of this size has run yet, the server could not try one on '{job.network.name}', and it may hold "
            f"a device for {length}; tenant '{tenant}' may try one such input at a time: again in "
            f"{math.ceil(wait_s)} s, or have its operator give usual sizes (shapes)",
            retry_after_s=wait_s,
        )

    def _probed(self, tenant: str, job: Job, *, found: bool) -> bool:
        """Whether this one may run all the same, to see what it takes; ``found``: the server has tried its size."""
        now_s = job.accepted_s
        first_s = now_s + AGAIN_S if found else now_s
        probe = self._probe(tenant, job.network, _Probe(first_s, AGAIN_S / 2.0))
        if now_s < probe.due_s:
            return False
        self._state.costs.doubt(job.network, job.cost_row)
        probe.pause_s = min(2.0 * probe.pause_s, LONGEST_S)
        probe.due_s, probe.cost_row, probe.number = now_s + probe.pause_s, job.cost_row, job.number
        return True
