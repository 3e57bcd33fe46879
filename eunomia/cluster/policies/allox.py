"""AlloX: jobs to devices by a minimum-cost matching (EuroSys 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.cluster.policies.serving_order import serve
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError, PolicyError


def match(time_s: Floats, release_s: Floats) -> tuple[Ints, Ints]:
    """Device and place from the end (both (n,)) of each job that minimise the sum of completion times.

    ``time_s`` (n, devices), inf = cannot run; ``release_s`` (devices,) when a device is free. The k-th job from
    the end of a device delays itself and k - 1 others: cost k * p + release. Exact for unrelated machines
    (Horn 1973; Bruno, Coffman, Sethi 1974).
    """
    from scipy.optimize import linear_sum_assignment

    n, devices = time_s.shape
    place = np.arange(1, n + 1)
    cost = place[None, None, :] * time_s[:, :, None] + release_s[None, :, None]
    cost = np.where(np.isfinite(cost), cost, 1e30).reshape(n, devices * n)
    _, column = linear_sum_assignment(cost)
    return np.asarray(column // n, np.int64), np.asarray(column % n + 1, np.int64)


@dataclass
class Allox:
    """Start the jobs that the matching puts first on free devices; running jobs keep theirs.

    Jobs of one device only: a run with any other is refused by name of the job. Matched are the oldest waiting jobs, as
    many as devices are free but at least the part ``alpha`` of those that wait (AlloX's knob: a smaller one keeps new
    short jobs from passing old long ones), and the devices that are free now. At most ``window`` jobs are matched, and
    devices of a type are counted at most once per job. (A job's age, which Gavel adds to the cost, is the same in all
    of its places and changes no matching.)

    Does badly for long jobs under steady load: the matching always finds shorter ones to put before them.
    """

    alpha: float = 0.3
    window: int = 200
    needs: Needs = Needs(answer="devices", sticky=True, every_event=True, one_device=True)

    def __post_init__(self) -> None:
        if not 0.0 <= self.alpha <= 1.0:
            raise ConfigError(f"allox: alpha is {self.alpha}; it must lie in [0, 1]")
        if self.window < 1:
            raise ConfigError(f"allox: window is {self.window}; at least one job must be matched")

    def reset(self, seed: int) -> None:
        """Nothing to forget."""

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices: what runs, and what the matching starts now."""
        wide = np.flatnonzero(view.scale > 1)
        if len(wide):
            m = int(wide[0])
            raise PolicyError(
                f"allox takes jobs of one device; row {m} of the view needs {view.scale[m]}; use another policy"
            )
        devices = serve(view, np.flatnonzero(view.held.any(axis=1)))
        free = view.capacity - devices.sum(axis=0)
        waits = np.flatnonzero(~devices.any(axis=1))
        waits = waits[: min(max(int(free.sum()), int(self.alpha * len(waits))), self.window)]
        if len(waits) and free.any():
            kinds = np.repeat(np.arange(len(free)), np.minimum(free, len(waits)))
            speed = np.where(view.runnable, view.throughput, 0.0)[waits][:, kinds]
            with np.errstate(divide="ignore"):
                time_s = view.steps_left[waits][:, None] / speed
            device, place = match(time_s, np.zeros(len(kinds)))
            for d in np.unique(device).tolist():
                first = np.flatnonzero(device == d)
                m = int(first[np.argmax(place[first])])
                if np.isfinite(time_s[m, d]):
                    devices[waits[m], kinds[d]] = 1
        return Allocation(devices=devices)
