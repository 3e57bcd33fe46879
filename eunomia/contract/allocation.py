"""The contract of the cluster wing: what an allocator sees, and what it may answer.

An allocator maps a :class:`ClusterView` to time shares (which :mod:`~eunomia.cluster.rounds` turns into leases)
or to devices outright. Row m of every array is the m-th active job, in order of arrival; column j is
``cluster.types[j]``. Arrays are read-only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from eunomia.contract.cluster import Cluster
from eunomia.core.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class Holdings:
    """Which job holds how many devices of which server: three parallel arrays (H,)."""

    job: Ints  # row of the view
    server: Ints  # number of the server, see Cluster.server_type
    count: Ints


@dataclass(frozen=True, slots=True)
class Elastic:
    """Throughputs at other scale factors, for policies that choose them."""

    scales: Ints  # (K,) ascending
    throughput: Floats  # (M, K, J) steps/s; 0 = not allowed, does not fit, or not measured


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All that an allocator may know now; never the future, nor true throughputs."""

    now_s: float
    cluster: Cluster
    key: Ints  # (M,) number of the job, the same over the whole run, ascending with arrival
    throughput: Floats  # (M, J) estimated steps/s at ``scale``; 0 = cannot run there
    scale: Ints  # (M,) workers
    weight: Floats  # (M,)
    arrival_s: Floats  # (M,)
    total_steps: Floats  # (M,)
    steps_left: Floats  # (M,) > 0
    attained_s: Floats  # (M, J) device-seconds received so far (time x workers), per type
    isolated_s: Floats  # (M,) C_m: sum over past intervals of steps done / isolated throughput at that time
    deadline_s: Floats  # (M,) absolute; inf = none
    held: Ints  # (M, J) devices held now, or in the last round; 0 = waits
    holdings: Holdings  # the same by server
    first_start_s: Floats  # (M,) when it first ran; nan = never
    up: Ints  # (S,) devices of each server that work now
    row: Ints  # (M,) row of the throughput table: (job type, scale factor)
    tenant: Ints  # (M,) index into ``tenants``
    app: Ints  # (M,) number of the app; jobs of one app share it
    tenants: tuple[str, ...] = ("",)
    tenant_weight: Floats = field(default_factory=lambda: np.ones(1))  # (tenants,)
    beside: Floats | None = None  # (R, R, J) steps/s of table row a sharing its devices with row b; 0 = no
    elastic: Elastic | None = None
    traits: Mapping[str, Floats] = field(default_factory=dict)  # name -> (M,), nan = the job does not say

    def __len__(self) -> int:
        return len(self.key)

    @property
    def age_s(self) -> Floats:
        """Time since arrival, shape (M,)."""
        return self.now_s - self.arrival_s

    @property
    def steps_done(self) -> Floats:
        """Steps finished, shape (M,)."""
        return self.total_steps - self.steps_left

    @property
    def time_left_s(self) -> Floats:
        """Time until the deadline, shape (M,); negative = late, inf = no deadline."""
        return self.deadline_s - self.now_s

    @property
    def service_s(self) -> Floats:
        """Attained service in device-seconds over all types, shape (M,): what least attained service sorts by."""
        return np.asarray(self.attained_s.sum(axis=1))

    @property
    def capacity(self) -> Ints:
        """Devices per type that work now, shape (J,)."""
        total = np.bincount(self.cluster.server_type, self.up, len(self.cluster.types))
        return np.asarray(total, np.int64)

    @property
    def runnable(self) -> npt.NDArray[np.bool_]:
        """Where a job can run at all, shape (M, J): its throughput is positive and enough devices exist."""
        return (self.throughput > 0.0) & (self.scale[:, None] <= self.cluster.counts[None, :])

    @property
    def usable(self) -> npt.NDArray[np.bool_]:
        """Where a job can run with the devices that work now, shape (M, J)."""
        return (self.throughput > 0.0) & (self.scale[:, None] <= self.capacity[None, :])

    def take(self, rows: Ints) -> ClusterView:
        """The same moment seen with some of the jobs only; holdings of the others are left out."""
        place = np.full(len(self), -1, np.int64)
        place[rows] = np.arange(len(rows))
        kept = place[self.holdings.job] >= 0
        held = Holdings(place[self.holdings.job[kept]], self.holdings.server[kept], self.holdings.count[kept])
        names = (
            "key throughput scale weight arrival_s total_steps steps_left attained_s isolated_s deadline_s held "
            "first_start_s row tenant app"
        )
        elastic = None
        if self.elastic is not None:
            elastic = Elastic(self.elastic.scales, self.elastic.throughput[rows])
        return replace(
            self,
            holdings=held,
            elastic=elastic,
            traits={name: value[rows] for name, value in self.traits.items()},
            **{name: getattr(self, name)[rows] for name in names.split()},
        )

    def pair_speed(self, first: Ints, second: Ints) -> Floats:
        """Throughputs of both jobs of each pair on each type, shape (P, J, 2); 0 = they cannot share it."""
        assert self.beside is not None, "the allocator must say needs.pairs"
        a, b = self.row[first], self.row[second]
        speed = np.stack([self.beside[a, b], self.beside[b, a]], axis=2)
        together = (self.scale[first] == self.scale[second])[:, None] & (speed > 0.0).all(axis=2)
        return np.where(together[:, :, None], speed, 0.0)


@dataclass(frozen=True, slots=True)
class Note:
    """Something a user should know about an allocation: a fallback, a relaxed objective, a solver's status."""

    kind: Literal["solve", "fallback", "relaxed", "info"]
    text: str
    jobs: tuple[int, ...] = ()  # rows of the view
    values: tuple[float, ...] = ()  # per job: for example by how many seconds a deadline is missed


@dataclass(frozen=True, slots=True)
class PairShares:
    """Shares of pairs of jobs that run together on the same devices; parallel arrays over P pairs."""

    first: Ints  # (P,) row of the view
    second: Ints
    shares: Floats  # (P, J) for shares; devices held for an outright answer
    speed: Floats  # (P, J, 2) estimated steps/s of both


@dataclass(frozen=True, slots=True)
class Allocation:
    """An answer: ``shares`` (fractions of wall time), or ``devices`` outright, with or without servers.

    Shares: X >= 0, a job's shares (pairs included) sum to at most 1, and sum_m scale_m X[m, j] stays within
    the devices of type j. Devices: row m is 0 or has ``scale[m]`` devices in one column. ``servers`` may say
    where. ``scale`` is set by elastic policies and replaces the jobs' own scale factors.
    """

    shares: Floats | None = None  # (M, J)
    devices: Ints | None = None  # (M, J)
    pairs: PairShares | None = None
    servers: Holdings | None = None
    scale: Ints | None = None  # (M,)
    objective: float | None = None  # of the programme, in the policy's own unit
    notes: tuple[Note, ...] = ()
    reasons: tuple[
        str, ...
    ] = ()  # (M,) why a job has nothing, as "kind: details"; "" = not said; () = for nobody


@dataclass(frozen=True, slots=True)
class Needs:
    """What an allocator needs from its engine."""

    answer: Literal["shares", "devices"] = "shares"
    pairs: bool = False  # wants ``beside``
    elastic: bool = False  # wants throughputs at other scale factors, may change them
    sticky: bool = False  # devices once given are kept until the job ends
    agnostic: bool = False  # does not look at types: rounds serve them in random order
    every_event: bool = False  # wants to be asked at each arrival and finish, not only at round starts
    one_device: bool = False  # takes jobs of one device only; a run with others is refused
    fills: bool = False  # in Gavel's mode, jobs without devices run on those that the answer leaves
    overcommits: bool = (
        False  # hands out more devices than there are; Gavel's mode alone shares them by rounds
    )


@runtime_checkable
class Allocator(Protocol):
    """What a policy of this wing is. ``reset`` is called once before a run."""

    @property
    def needs(self) -> Needs:
        """What it needs from its engine."""

    def reset(self, seed: int) -> None:
        """Forget everything; draw random choices from this seed."""

    def allocate(self, view: ClusterView) -> Allocation:
        """Answer for this moment; an empty view gets an empty answer."""
