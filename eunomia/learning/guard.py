"""A guard around any Python policy: whatever it does, a legal answer comes out, and what went wrong is counted.

The inner policy's answer is replaced by the fallback's when it raises, is not a list of Assign, names a sub-job that
is not ready, a busy or unknown accelerator, one that cannot run the layer, something twice, or a priority that
is not a number; when it holds while nothing runs; and when it took longer than ``limit_s``. After ``patience`` slow
answers in a row the inner policy is not asked again for ``rest`` decisions: a policy that hangs for good needs a
process of its own, which this guard is not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eunomia.contract.traits import BLOCKS, PARAMETERS, forget
from eunomia.contract.view import Assign, View
from eunomia.core.errors import ConfigError
from eunomia.inference.policies import load_policy, policy_name

FALLBACK = "edf+f+eft"


class Guarded:
    """``inner`` with a fallback. ``clock`` gives seconds; tests pass their own. Raises ConfigError for bad limits."""

    def __init__(
        self,
        inner: Callable[[View], Sequence[Assign]],
        fallback: str | Callable[..., Any] = FALLBACK,
        limit_s: float = math.inf,
        patience: int = 3,
        rest: int = 1000,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if not limit_s > 0.0 or patience < 1 or rest < 0:
            raise ConfigError(
                f"guard with limit_s {limit_s}, patience {patience}, rest {rest}: the first must be positive, the "
                "second at least 1, the third at least 0"
            )
        self.inner, self.fallback = inner, load_policy(fallback)
        self.limit_s, self.patience, self.rest, self._clock = limit_s, patience, rest, clock
        self.name = f"guarded {policy_name(inner)}"
        self.parameters = PARAMETERS.of(self.fallback)
        self.blocks = BLOCKS.of(self.fallback)
        self.reset(0)

    def reset(self, seed: int) -> None:
        """A run begins: counts start at 0."""
        self.counts = dict.fromkeys(("decisions", "raised", "invalid", "slow", "rested", "fallback"), 0)
        self._slow_in_row, self._resting = 0, 0
        for policy in (self.inner, self.fallback):
            forget(policy, seed)

    def __call__(self, view: View) -> list[Assign]:
        """The inner policy's answer if it is good and in time, else the fallback's."""
        self.counts["decisions"] += 1
        if self._resting > 0:
            self._resting -= 1
            self.counts["rested"] += 1
            return self._fall_back(view)
        began = self._clock()
        try:
            answer = self.inner(view)
        except Exception:  # whatever a foreign policy raises: the schedule must go on
            self.counts["raised"] += 1
            return self._fall_back(view)
        if self._clock() - began > self.limit_s:
            self.counts["slow"] += 1
            self._slow_in_row += 1
            if self._slow_in_row >= self.patience:
                self._slow_in_row, self._resting = 0, self.rest
            return self._fall_back(view)
        self._slow_in_row = 0
        if not is_legal(view, answer):
            self.counts["invalid"] += 1
            return self._fall_back(view)
        return list(answer)

    def _fall_back(self, view: View) -> list[Assign]:
        self.counts["fallback"] += 1
        return list(self.fallback(view))


def is_legal(view: View, answer: object) -> bool:
    """Whether the engine would accept an answer to an event-driven decision, and time would go on."""
    if not isinstance(answer, list | tuple):
        return False
    rows = {(int(r["request"]), int(r["layer"])): i for i, r in enumerate(view.ready)}
    free = set(view.idle.tolist())
    if not answer:
        return len(free) < len(view.accelerators)
    for assign in answer:
        if (
            not isinstance(assign, Assign)
            or not np.isfinite(assign.priority)
            or assign.accelerator not in free
        ):
            return False
        row = rows.pop((assign.request, assign.layer), None)
        if row is None or not np.isfinite(view.latency_s[row, assign.accelerator]):
            return False
        free.remove(assign.accelerator)
    return True
