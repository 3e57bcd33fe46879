"""Isolated and proportional shares as policies: closed forms, no programme."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.cluster.shares import isolated_shares, proportional_share
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.arrays import Floats


@dataclass(frozen=True)
class Isolated:
    """Give every job the M-th part of each type: x_mj = N_j / (M s_m), rows cut to sum 1. Gavel, OSDI 2020.

    Does badly when jobs differ in where they are fast: nobody trades. Time on types where a job cannot run is
    lost, not moved.
    """

    needs: Needs = Needs(agnostic=True)

    def reset(self, seed: int) -> None:
        """Nothing to forget."""

    def allocate(self, view: ClusterView) -> Allocation:
        """Shares (M, J)."""
        shares = isolated_shares(view.capacity, view.scale)
        return Allocation(shares=np.where(view.usable, shares, 0.0))


@dataclass(frozen=True)
class Proportional:
    """Spread every job over the types as the devices are: x_j = N_j / sum(N), scaled to fit. Gavel, OSDI 2020.

    The reference of max-min fairness ignores how many jobs there are; as an allocation it is divided by
    max(1, sum_m s_m / sum N), so that demand fits the devices.
    """

    needs: Needs = Needs(agnostic=True)

    def reset(self, seed: int) -> None:
        """Nothing to forget."""

    def allocate(self, view: ClusterView) -> Allocation:
        """Shares (M, J)."""
        working = view.capacity
        crowding = max(1.0, view.scale.sum() / max(working.sum(), 1))
        shares: Floats = np.tile(proportional_share(working) / crowding, (len(view), 1))
        return Allocation(shares=np.where(view.usable, shares, 0.0))
