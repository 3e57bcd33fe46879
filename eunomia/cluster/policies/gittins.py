"""Tiresias' Gittins index: who is most likely to end soon, given what he has had so far (NSDI 2019)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from eunomia.cluster.policies.serving_order import Types, fastest_s, serve
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.arrays import Floats

GRID = 256  # ages at which the index is tabled


def gittins_index(samples_s: Floats, age_s: float) -> float:
    """max over delta of P(S - a <= delta | S > a) / E[min(S - a, delta) | S > a], S from ``samples_s``.

    In 1/s; 0 where no sample exceeds the age. The maximum lies at delta = s_k - a for a sample s_k. Source:
    Gittins 1979; Aalto, Ayesta, Righter 2009.
    """
    rest = np.sort(samples_s[samples_s > age_s]) - age_s
    n = len(rest)
    if n == 0:
        return 0.0
    ended = np.arange(1, n + 1)
    spent = np.cumsum(rest) + (n - ended) * rest
    return float((ended / spent).max())


@dataclass
class Gittins:
    """Serve in order of the Gittins index of attained service (device-seconds), largest first.

    ``samples_s``: service of earlier jobs. Jobs that end during the run are added; before ``enough`` are known
    the order is least attained service. Optimal mean completion time on one machine if the distribution is known
    (Gittins 1979). Does badly when jobs do not come from one distribution, and where it drifts.
    """

    samples_s: tuple[float, ...] = ()
    enough: int = 10
    types: Types = "stay"
    needs: Needs = Needs(answer="devices")
    _known: list[float] = field(default_factory=list, repr=False)
    _open: dict[int, float] = field(
        default_factory=dict, repr=False
    )  # service that each active job will need
    _tabled: int = field(default=0, repr=False)
    _table: tuple[Floats, Floats] | None = field(default=None, repr=False)

    def reset(self, seed: int) -> None:
        """Forget what was learned during the run."""
        self._known, self._open, self._tabled, self._table = list(self.samples_s), {}, 0, None

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices in order of the index."""
        self._learn(view)
        service = view.service_s
        rank = service if len(self._known) < self.enough else -self.index(service)
        return Allocation(devices=serve(view, np.lexsort((service, rank)), types=self.types))

    def index(self, service_s: Floats) -> Floats:
        """(M,) index at the attained services, from a table renewed when a tenth more samples are known."""
        if self._table is None or len(self._known) > 1.1 * self._tabled:
            samples = np.array(self._known)
            ages = np.concatenate([[0.0], np.quantile(samples, np.linspace(0.0, 1.0, GRID))])
            self._table = ages, np.array([gittins_index(samples, age) for age in ages])
            self._tabled = len(self._known)
        ages, index = self._table
        return np.asarray(index[np.searchsorted(ages, service_s, side="right") - 1])

    def _learn(self, view: ClusterView) -> None:
        """A job that is gone has ended: its service becomes a sample. (Its length was never looked at before.)"""
        here = set(view.key.tolist())
        for key in [key for key in self._open if key not in here]:
            self._known.append(self._open.pop(key))
        need = view.service_s + fastest_s(view) * view.scale
        self._open.update(zip(view.key.tolist(), need.tolist(), strict=True))
