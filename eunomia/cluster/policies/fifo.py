"""First in, first out, as Gavel's baselines do it: whole devices, no programme, the head of the line blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.contract.allocation import Allocation, ClusterView, Needs, PairShares
from eunomia.core.arrays import Ints
from eunomia.core.errors import ConfigError

FORMS = ("random", "best", "packed")


@dataclass
class Fifo:
    """Serve jobs in order of arrival; stop at the first for which no type has devices enough.

    A job for which devices are free, but only of types where it cannot run, is passed over and does not block the line:
    Gavel's code does so, too.

    ``form="random"``: a job takes a random type among those with enough free devices where it can run, and
    keeps it to the end; one long job on a slow type sets the makespan. ``"best"``: the type where it is
    fastest among those with enough free devices. It is chosen anew each time, earlier jobs first, so jobs
    move to faster types. ``"packed"``: as best; then waiting jobs, in order, join a running job of equal
    scale where the pair's summed relative speed is highest and above ``threshold``; the line stops at the
    first that finds none. Gavel, OSDI 2020.
    """

    form: str = "random"
    threshold: float = 1.5

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ConfigError(f"form is '{self.form}'; choose one of: {', '.join(FORMS)}")
        self.reset(0)

    @property
    def needs(self) -> Needs:
        """Pairs if packed; a random choice is kept."""
        random = self.form == "random"
        return Needs("devices", pairs=self.form == "packed", sticky=random, agnostic=random, every_event=True)

    def reset(self, seed: int) -> None:
        """Forget who was placed where."""
        self._rng = np.random.default_rng(seed)
        self._chosen: dict[int, int] = {}

    def allocate(self, view: ClusterView) -> Allocation:
        """Shares of 0 or 1, and the same as devices."""
        chosen = np.full(len(view), -1, np.int64)
        free = view.capacity
        if self.form == "random":
            self._keep(view, chosen, free)
        waiting = self._serve(view, chosen, free)
        pairs = self._pack(view, chosen, waiting) if self.form == "packed" else None
        self._chosen = {int(key): int(j) for key, j in zip(view.key, chosen, strict=True) if j >= 0}
        alone = chosen.copy()
        if pairs is not None:
            alone[pairs.first] = -1
        shares = np.zeros(view.throughput.shape)
        rows = np.flatnonzero(alone >= 0)
        shares[rows, alone[rows]] = 1.0
        return Allocation(shares=shares, devices=(shares * view.scale[:, None]).astype(np.int64), pairs=pairs)

    def _keep(self, view: ClusterView, chosen: Ints, free: Ints) -> None:
        """Jobs that run already keep their type, while enough of its devices work."""
        for m, key in enumerate(view.key.tolist()):
            j = self._chosen.get(key, -1)
            if j >= 0 and free[j] >= view.scale[m]:
                chosen[m] = j
                free[j] -= view.scale[m]

    def _serve(self, view: ClusterView, chosen: Ints, free: Ints) -> list[int]:
        """Place the line up to the first job that fits nowhere; returns who waits from there on."""
        line = np.flatnonzero(chosen < 0).tolist()
        runs = view.usable
        for position, m in enumerate(line):
            roomy = free >= view.scale[m]
            if not roomy.any():
                return list(line[position:])
            open_types = np.flatnonzero(runs[m] & roomy)
            if len(open_types) == 0:
                continue
            if self.form == "random":
                j = int(self._rng.choice(open_types))
            else:
                j = int(open_types[np.argmax(view.throughput[m, open_types])])
            chosen[m] = j
            free[j] -= view.scale[m]
            if not free.any():
                return list(line[position + 1 :])
        return []

    def _pack(self, view: ClusterView, chosen: Ints, waiting: list[int]) -> PairShares | None:
        """Waiting jobs join running ones, in order."""
        if view.beside is None:
            raise ConfigError("a packed policy needs throughputs of pairs; this table has none")
        hosts = np.flatnonzero(chosen >= 0)
        first, second = [], []
        for m in waiting:
            if len(hosts) == 0:
                break
            speed = view.pair_speed(hosts, np.full(len(hosts), m))
            at = chosen[hosts]
            pair, row = speed[np.arange(len(hosts)), at], np.arange(len(hosts))
            alone_host, alone_new = view.throughput[hosts, at], view.throughput[m, at]
            with np.errstate(divide="ignore", invalid="ignore"):
                gain = np.where(pair[:, 0] > 0.0, pair[:, 0] / alone_host + pair[:, 1] / alone_new, 0.0)
            best = int(np.argmax(gain[row]))
            if not gain[best] > self.threshold:
                break
            first.append(int(hosts[best]))
            second.append(m)
            hosts = np.delete(hosts, best)
        if not first:
            return None
        one, two = np.array(first, np.int64), np.array(second, np.int64)
        shares = np.zeros((len(one), view.throughput.shape[1]))
        shares[np.arange(len(one)), chosen[one]] = 1.0
        return PairShares(one, two, shares, view.pair_speed(one, two))
