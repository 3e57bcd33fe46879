"""What all modes of the simulator share: the view, the question to the policy, devices in hands, the recorder."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.cluster.answers import check
from eunomia.cluster.estimates import Beliefs
from eunomia.cluster.ledger import Ledger
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.placement import Held, Servers
from eunomia.cluster.problem import ClusterProblem
from eunomia.cluster.recorder import Recorder
from eunomia.cluster.rounds import Units
from eunomia.contract.allocation import Allocation, Allocator, ClusterView, Elastic, Holdings
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import PolicyError

PAIR = -1  # second member of a unit that is one job


@dataclass(frozen=True, slots=True)
class Floor:
    """Who stands where: units placed, their type (-1 = waits) and their servers."""

    first: Ints  # (U,) keys
    second: Ints  # (U,)
    kind: Ints  # (U,) type, -1 = waits, -2 = a gang over several types
    scale: Ints  # (U,)
    held: Held

    @classmethod
    def empty(cls) -> Floor:
        """Nobody."""
        none = np.zeros(0, np.int64)
        return cls(none, none, none, none, Held.none(0))


class Engine:
    """State of one run; the modes drive it."""

    def __init__(
        self, problem: ClusterProblem, allocator: Allocator, options: SimulationOptions, name: str
    ) -> None:
        self.problem, self.allocator, self.options, self.name = problem, allocator, options, name
        self.needs = allocator.needs
        self.ledger = Ledger(problem)
        self.beliefs = Beliefs(problem, options)
        self.recorder = Recorder(options.record)
        self.servers = Servers(problem.cluster)
        self.up = self.servers.size.copy()
        self.active = np.zeros(0, np.int64)
        self.arrived = 0  # jobs that have arrived so far
        self.floor = Floor.empty()
        self.unit_of = np.full(len(problem), -1, np.int64)  # of the floor
        self._mark = np.zeros(len(problem), np.bool_)  # scratch of ``among``
        missing, entries = problem.spread_unmeasured
        if missing and options.mode == "realistic" and options.slowdown.source == "table":
            self.recorder.say(
                f"{missing} of {entries} throughputs of gangs were not measured with the workers spread over servers; "
                "being spread costs those jobs nothing"
            )
        if self.needs.overcommits and options.mode != "gavel":
            raise PolicyError(
                f"policy '{name}' hands out more devices than there are, as Gavel's code does; "
                f"it runs with simulation.mode = 'gavel' only, not '{options.mode}'"
            )
        allocator.reset(options.seed)
        wide = np.flatnonzero(problem.scale > 1)
        if self.needs.one_device and len(wide):
            job = problem.jobs[int(wide[0])]
            raise PolicyError(
                f"policy '{name}' takes jobs of one device; job '{job.job_id}' needs {job.scale_factor}; "
                "use another policy"
            )

    # --- arrivals and departures

    def next_arrival_s(self) -> float:
        """Time of the next arrival; inf = all are here."""
        if self.arrived == len(self.problem):
            return np.inf
        return float(self.problem.arrival_s[self.arrived])

    def admit(self, now_s: float) -> Ints:
        """Jobs that arrived up to now join; their keys."""
        after = int(np.searchsorted(self.problem.arrival_s, now_s, "right"))
        new = np.arange(self.arrived, after)
        self.arrived = max(after, self.arrived)
        self.active = np.concatenate([self.active, new])
        return new

    def dismiss(self, keys: Ints) -> None:
        """Jobs that ended leave."""
        self.active = self.active[~self.among(self.active, keys)]

    def among(self, keys: Ints, others: Ints) -> npt.NDArray[np.bool_]:
        """Whether each key is one of ``others``."""
        self._mark[others] = True
        found = self._mark[keys]
        self._mark[others] = False
        return np.asarray(found)

    # --- the policy

    def view(self, now_s: float) -> ClusterView:
        """What the policy may know now."""
        p, g, rows = self.problem, self.ledger, self.active
        held, holdings = self._held_now()
        return ClusterView(
            now_s=now_s,
            cluster=p.cluster,
            key=rows,
            throughput=self.beliefs.speed(rows, g.scale[rows]),
            scale=g.scale[rows],
            weight=p.weight[rows],
            arrival_s=p.arrival_s[rows],
            total_steps=p.total_steps[rows],
            steps_left=g.steps_left[rows],
            attained_s=g.attained_s[rows],
            isolated_s=g.isolated_s[rows],
            deadline_s=p.deadline_s[rows],
            held=held,
            holdings=holdings,
            first_start_s=g.first_start_s[rows],
            up=self.up,
            row=p.row[rows],
            tenant=p.tenant[rows],
            app=p.app[rows],
            tenants=p.tenants,
            tenant_weight=p.tenant_weight,
            beside=self.beliefs.beside if self.needs.pairs else None,
            elastic=self._elastic(rows) if self.needs.elastic else None,
            traits={name: values[rows] for name, values in p.traits.items()},
        )

    def _elastic(self, rows: Ints) -> Elastic:
        scales = self.problem.scales
        speed = np.stack(
            [self.beliefs.speed_at(rows, k, int(scale)) for k, scale in enumerate(scales)], axis=1
        )
        return Elastic(scales, speed)

    def _held_now(self) -> tuple[Ints, Holdings]:
        floor, types = self.floor, len(self.problem.cluster.types)
        held = np.zeros((len(self.active), types), np.int64)
        position = np.full(len(self.problem), -1, np.int64)
        position[self.active] = np.arange(len(self.active))
        unit = floor.held.unit
        members = [floor.first[unit]]
        places = [np.arange(len(unit))]
        both = floor.second[unit] >= 0
        if both.any():
            members.append(floor.second[unit[both]])
            places.append(np.flatnonzero(both))
        key, row = np.concatenate(members), np.concatenate(places)
        job = position[key]
        here = (job >= 0) & (self.unit_of[key] == unit[row])
        job, row = job[here], row[here]
        server, count = floor.held.server[row], floor.held.count[row]
        np.add.at(held, (job, self.servers.type[server]), count)
        return held, Holdings(job, server, count)

    def ask(self, now_s: float) -> Allocation:
        """One timed, checked and recorded answer of the policy."""
        view = self.view(now_s)
        began = time.perf_counter()
        answer = self.allocator.allocate(view)
        took = time.perf_counter() - began
        mixed = self.options.cross_type != "off"
        check(self.name, view, answer, self.needs, self.name_of, mixed)
        self.recorder.allocation(now_s, took, view, answer, self.name_of)
        return answer

    def name_of(self, row: int) -> str:
        """Id of the job in a row of the view."""
        return self.problem.jobs[int(self.active[row])].job_id

    # --- devices

    def before(self, first: Ints, second: Ints) -> Held:
        """Where each of these units stood; empty for one that did not, or not in this company."""
        unit = self.unit_of[first]
        same = (unit >= 0) & (np.append(self.floor.second, -9)[unit] == second)
        same &= np.append(self.floor.first, -9)[unit] == first
        return self.floor.held.of(np.where(same, unit, -1))

    def stand(self, floor: Floor) -> None:
        """Take a new floor."""
        self.floor = floor
        self.unit_of[:] = -1
        placed = np.flatnonzero(floor.kind != -1)
        self.unit_of[floor.first[placed]] = placed
        pairs = placed[floor.second[placed] >= 0]
        self.unit_of[floor.second[pairs]] = pairs

    def capacity(self) -> Ints:
        """Devices per type that work now."""
        return np.asarray(np.bincount(self.servers.type, self.up, len(self.problem.cluster.types)), np.int64)

    def choose(self, units: Units, unit: Ints, kind: Ints, free: Ints, taken: np.ndarray) -> Ints:
        """Types chosen for units by serving the queue in order, -1 = waits; ``free`` and ``taken`` are changed."""
        from eunomia.cluster.round_core import pick

        chosen = np.full(len(units.first), -1, np.int64)
        pick(unit, kind, units.first, units.second, self.ledger.scale[units.first], free, taken, chosen)
        return chosen


def alone_units(keys: Ints, types: int, share: Floats | None = None) -> Units:
    """Units of single jobs without a queue: outright answers."""
    zero = np.zeros((len(keys), types)) if share is None else share
    return Units(keys, np.full(len(keys), PAIR, np.int64), zero, zero, zero)
