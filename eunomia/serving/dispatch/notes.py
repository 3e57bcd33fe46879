"""What a policy notes of runs beside which nobody waits: it hears of them before it decides again.

Such a run needs no decision, yet a policy may count what it serves: start tags, credits. To ask it in full each time
took a fifth of the front end's processor time. For a short run, that was between its end and its answer.
"""

from __future__ import annotations

import numpy as np

from eunomia.contract.constants import give_constants
from eunomia.contract.guard import Guarded
from eunomia.contract.rows import CompiledDecide
from eunomia.contract.traits import DECIDE
from eunomia.contract.view import Policy, View
from eunomia.core.arrays import Floats, Records

MOST = 16  # at a time: half a millisecond


def code_of(policy: Policy) -> CompiledDecide | None:
    """The machine code that a policy decides by; None = Python has to be asked, which may take any time."""
    return DECIDE.of(_own(policy))


def _own(policy: Policy) -> Policy:
    return policy.policy if isinstance(policy, Guarded) else policy


def emptied(policy: Policy) -> None:
    """Its memory is empty, and from now on its own."""
    if isinstance(policy, Guarded):
        policy.emptied()


def tell(
    policy: Policy, memory: Floats, ready: Records, accelerators: Records, systems: Records, times_s: Floats
) -> None:
    """Let it decide about the only request of each row, in turn; ``memory`` then holds what it noted.

    What it would not have started, and what goes on while it has noted nothing at all, it does not note. ``ready``,
    ``accelerators``, ``systems`` (n,): READY, ACCELERATOR and SYSTEM; ``times_s`` (n, 1): of the only device.
    """
    code, nothing = code_of(policy), np.zeros((1, 1))
    answer, priority = np.zeros((1, 2), np.int64), np.zeros(1)
    nothing.setflags(write=False)
    give_constants(_own(policy), systems)
    for n, system in enumerate(systems):
        if ready["layers_done"][n] > 0 and not any(memory.tolist()):
            continue
        one, system["memory"] = slice(n, n + 1), memory
        if code is not None:
            numbers = ready[one], times_s[one], nothing, nothing, accelerators[one], system
            started = code(*numbers, answer, priority)
        else:
            started = len(policy(View(system, ready[one], accelerators[one], times_s[one], nothing, nothing)))
        if started:
            memory[:] = system["memory"]
