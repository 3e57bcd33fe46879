"""A learned policy as the engine takes it: compiled, with its weights in a block of the View."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from eunomia.contract.contention import CONTENTION
from eunomia.contract.rows import CompiledDecide
from eunomia.contract.view import Assign, View
from eunomia.core.arrays import Floats
from eunomia.inference.kernel.jit import compile_cached
from eunomia.inference.kernel.setup import DECIDE, Rules
from eunomia.inference.kernel.signatures import DECIDE_SIGNATURE
from eunomia.inference.linear.seat import fits, take_seat
from eunomia.inference.policies.compiled import ask
from eunomia.inference.policies.reasons import Reasons
from eunomia.inference.policies.sharing import WAY_OF, WAYS
from eunomia.inference.rehearsal import Rehearsing
from eunomia.learning.observation.table import JOB, SHARE, START
from eunomia.learning.policy import weights as at
from eunomia.learning.policy.decide import decide
from eunomia.learning.policy.weights import Weights

# Ways of sharing in which no layer slows another.
WITHOUT_SHARING = tuple(name for name, model in CONTENTION.items() if model.described_as is None)
# Of what the decision calls.
FOLDERS = ("inference/kernel", "inference/policies", "learning/observation", "learning/policy")

PLANNED = 1.0  # periods: what a tick queues would start before the next one


@cache
def compiled_decision() -> CompiledDecide:
    """The decision as machine code, from the cache if there."""
    return compile_cached(decide, DECIDE_SIGNATURE, "learned", *FOLDERS)


class LearnedPolicy(Rehearsing):
    """Runs inside the event loop and, unchanged, in stepped mode.

    The weights stand in one block, which the View's SYSTEM record points to (core/addresses.py). The policy must live
    as long as the runs that it decides. Pickling copies the weights and forgets the counts. ``shared``:
    where accelerators do not share bandwidth, it decides as if that were infinite.
    """

    rules = Rules(DECIDE, ahead=PLANNED)
    decides_in_place = fits

    def __init__(
        self,
        weights: Weights,
        name: str = "eunomia",
        starve: float = np.inf,
        alarm: float = 0.5,
        shared: bool = False,
        budget: int = 0,
    ) -> None:
        self.weights, self.name, self.starve, self.alarm, self.shared = weights, name, starve, alarm, shared
        self.budget = budget
        self.block = weights.pack(starve, alarm)

    def __reduce__(self) -> tuple[Any, ...]:
        made = (self.weights, self.name, self.starve, self.alarm, self.shared, self.budget)
        return LearnedPolicy, made, {"aim": self.aim}

    def attach(self, engine: Any) -> Any:
        """A run begins. Room for reasons, if it is recorded."""
        self.share(engine.problem.contention)
        take_seat(engine, self)
        return Reasons.of_run(engine.state, JOB, (*START, *SHARE))

    def share(self, contention: str) -> None:
        """Is there anything that the accelerators share, and how?"""
        apart = self.shared and contention in WITHOUT_SHARING
        self.block[at.APART] = float(apart)
        self.block[at.WAY] = WAYS.index(WAY_OF.get(contention, WAYS[0]))
        self.block[at.COUNTERS + at.UNSHARED] += float(apart)

    @property
    def decide(self) -> Any:
        """The compiled function."""
        return compiled_decision()

    decide_tick = decide

    @property
    def blocks(self) -> tuple[Floats, ...]:
        """Arrays that the compiled function reads and writes."""
        return (self.block,)

    @property
    def counts(self) -> dict[str, int]:
        """What happened since the policy was made: decisions, starts, holds, and how often each guard acted."""
        return {name: int(self.block[at.COUNTERS + i]) for i, name in enumerate(at.COUNTED)}

    def collect(self, wanted: bool = True) -> None:
        """Record the ranges of job features from now on, or stop."""
        self.block[at.COLLECT] = float(wanted)
        needed = 1.0 if wanted else self.weights.pack()[[at.LOGS, at.PROMISES]]
        self.block[[at.LOGS, at.PROMISES]] = needed

    @property
    def seen(self) -> tuple[Floats, Floats]:
        """Least and greatest value of each job feature while recording."""
        return self.block[at.SEEN_LOW : at.SEEN_HIGH].copy(), self.block[at.SEEN_HIGH : at.CENTRE].copy()

    def __call__(self, view: View) -> list[Assign]:
        """Ask the compiled function about one View, at a tick that for ticks."""
        return ask(self, view)
