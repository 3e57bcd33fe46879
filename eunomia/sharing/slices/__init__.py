"""Slices of device time for several large jobs, inspired by Olympian (Middleware 2018).

:mod:`profile` holds what the nodes of a network cost; :mod:`scheduler` decides whose turn it is, without a clock;
:mod:`simulate` drives it in virtual time, :mod:`gate` for threads of this process. :mod:`quantum` chooses the slice.
"""

from eunomia.sharing.slices.profile import CostProfile
from eunomia.sharing.slices.quantum import choose_quantum, floor_and_cost
from eunomia.sharing.slices.scheduler import POLICIES, Turn, TurnScheduler
from eunomia.sharing.slices.simulate import Finished, Job, simulate_slices, simulate_ungated

__all__ = [
    "POLICIES",
    "CostProfile",
    "Finished",
    "Job",
    "Turn",
    "TurnScheduler",
    "choose_quantum",
    "floor_and_cost",
    "simulate_slices",
    "simulate_ungated",
]
