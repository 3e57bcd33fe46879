"""AlloX: jobs to devices by a minimum-cost matching (EuroSys 2020)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError, PolicyError


def match(time_s: Floats, added_s: Floats) -> tuple[Ints, Ints]:
    """Device and place from the end (both (n,)) of each job that minimise the sum of completion times.

    ``time_s`` (n, devices), inf = cannot run. The k-th job from the end of a device delays itself and k - 1 others:
    cost k * p. Exact for unrelated machines (Horn 1973; Bruno, Coffman, Sethi 1974). ``added_s`` (n,) is the same in
    all places of a job, so it moves ties alone.
    """
    from scipy.optimize import linear_sum_assignment

    n, devices = time_s.shape
    place = np.arange(1, n + 1)
    cost = place[None, :, None] * time_s[:, None, :] + added_s[:, None, None]
    cost = np.where(np.isfinite(cost), cost, 1e30).reshape(n, n * devices)
    _, column = linear_sum_assignment(cost)
    return np.asarray(column % devices, np.int64), np.asarray(column // devices + 1, np.int64)


@dataclass
class Allox:
    """Start the jobs that the matching puts first on free devices; running jobs keep theirs.

    Jobs of one device only: a run with any other is refused by name of the job. Matched are the oldest waiting jobs, as
    many as devices are free but at least the part ``alpha`` of those that wait (AlloX's knob: a smaller one keeps new
    short jobs from passing old long ones), and the devices that are free now. At most ``window`` jobs are matched, and
    devices of a type are counted at most once per job. In Gavel's mode, as in its code, who is not matched runs on what
    is left over.

    Many matchings are best: of three jobs on two devices the shortest may run before either of the others.
    ``as_gavel`` chooses among them as its code does: all devices, types by name, a job's age added to its costs.

    Does badly for long jobs under steady load: the matching always finds shorter ones to put before them.
    """

    alpha: float = 0.3
    window: int = 200
    as_gavel: bool = False
    needs: Needs = Needs(answer="devices", sticky=True, every_event=True, one_device=True, fills=True)
    _matched: dict[int, int] = field(default_factory=dict, repr=False)  # type of every job, -1 = not yet

    def __post_init__(self) -> None:
        if not 0.0 <= self.alpha <= 1.0:
            raise ConfigError(f"allox: alpha is {self.alpha}; it must lie in [0, 1]")
        if self.window < 1:
            raise ConfigError(f"allox: window is {self.window}; at least one job must be matched")

    def reset(self, seed: int) -> None:
        """Forget who was started where."""
        self._matched = {}

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices: what runs, and what the matching starts now."""
        wide = np.flatnonzero(view.scale > 1)
        if len(wide):
            m = int(wide[0])
            raise PolicyError(
                f"allox takes jobs of one device; row {m} of the view needs {view.scale[m]}; use another policy"
            )
        devices = self._kept(view)
        free = view.capacity - devices.sum(axis=0)
        waits = np.flatnonzero(~devices.any(axis=1))
        waits = waits[: min(max(int(free.sum()), int(self.alpha * len(waits))), self.window)]
        if len(waits) and free.any():
            order, most, added_s = np.arange(len(free)), len(waits), np.zeros(len(waits))
            if self.as_gavel:
                order, most, added_s = np.argsort(view.cluster.names), int(free.max()), view.age_s[waits]
            kinds = np.repeat(order, np.minimum(free, most)[order])
            speed = np.where(view.runnable, view.throughput, 0.0)[waits][:, kinds]
            with np.errstate(divide="ignore"):
                time_s = view.steps_left[waits][:, None] / speed
            device, place = match(time_s, added_s)
            for d in np.unique(device).tolist():
                first = np.flatnonzero(device == d)
                m = int(first[np.argmax(place[first])])
                if np.isfinite(time_s[m, d]):
                    devices[waits[m], kinds[d]] = 1
        kind = np.where(devices.any(axis=1), devices.argmax(axis=1), -1)
        self._matched = dict(zip(view.key.tolist(), kind.tolist(), strict=True))
        return Allocation(devices=devices)

    def _kept(self, view: ClusterView) -> Ints:
        """Devices of the jobs that were matched and run, on the type they were matched to."""
        devices, free = np.zeros(view.throughput.shape, np.int64), view.capacity
        for m in np.flatnonzero(view.held.any(axis=1)).tolist():
            j = self._matched.get(int(view.key[m]), int(view.held[m].argmax()))
            if j >= 0 and free[j] > 0:
                devices[m, j] = 1
                free[j] -= 1
        return devices
