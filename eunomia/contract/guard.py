"""A policy that may fail, behind one that does not: whatever it does, a legal answer comes out.

The fallback answers in its place when it raises, when its answer is illegal, or when it holds too long. Illegal are
answers that are no list of Assign, or name something twice. So are sub-jobs that are not ready, and accelerators that
are busy, unknown or unable to run the layer. After ``patience`` slow answers in a row the fallback answers for
``rest_s``. So it does after fewer where more than a twentieth of the time goes beyond the limit. A policy that never
returns cannot be stopped from within its own thread: that needs a process of its own, which this guard is not.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence

from eunomia.contract.constants import give_constants
from eunomia.contract.traits import (
    CHARGE_ELSEWHERE,
    CHARGE_RUN,
    STARTS_ALONE,
    STEADY,
    WAKE_S,
    WORK_CONSERVING,
    forget,
    title,
)
from eunomia.contract.view import Assign, View
from eunomia.core.errors import ConfigError

log = logging.getLogger("eunomia.guard")
Policy = Callable[[View], Sequence[Assign]]
OVER, FEW = (
    0.05,
    2,
)  # such a share of time may answers take beyond the limit; more slow ones than FEW begin a rest


class Guarded:
    """Ask ``policy``; use ``fallback`` when it raises, is illegal, holds or was too slow ``patience`` times running.

    A slow answer is used, since its time is spent. Not so with ``strict``, which is for simulations: there an answer
    after ``limit_s`` comes too late, and none may hold while nothing runs, as nothing would wake the platform.
    Elsewhere one that asks for no time to be woken may hold so for ``rest_s``; from then on the fallback decides.
    ``counts`` says how often each happened. ``clock`` gives seconds. Raises ConfigError for bad limits.
    """

    def __init__(
        self,
        policy: Policy,
        fallback: Policy,
        limit_s: float = 0.02,
        patience: int = 10,
        rest_s: float = 5.0,
        strict: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if math.isnan(limit_s) or patience < 1 or not rest_s >= 0.0:
            raise ConfigError(
                f"guard with limit_s {limit_s}, patience {patience}, rest_s {rest_s}: the first must be a number, the "
                "second at least 1, the third at least 0"
            )
        self.policy, self.fallback = policy, fallback
        self.limit_s, self.patience, self.rest_s = limit_s, patience, rest_s
        self._strict, self._clock = strict, clock
        self.generation = 0  # counts policies, so that whoever keeps their memory notices
        self._fresh = False
        self.counts: Counter[str] = (
            Counter()
        )  # raised, illegal, held (nobody started), slow (rests begun), resting (answers meanwhile)
        self._begin()

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"guarded {title(self.policy)}"

    def reset(self, seed: int) -> None:
        """A run begins: nothing was counted, and both policies forget."""
        self.counts.clear()
        self._begin()
        for policy in (self.policy, self.fallback):
            forget(policy, seed)

    def replace(self, policy: Policy) -> None:
        """Another policy from the next decision on; what the old one had noted down is forgotten."""
        self.policy, self._fresh = policy, True
        self._begin()
        self.generation += 1

    def emptied(self) -> None:
        """What the old policy had noted down is forgotten already; what is there by its next decision is its own."""
        self._fresh = False

    @property
    def work_conserving(self) -> bool:
        """Whether both say so of themselves: while the policy rests, the fallback decides."""
        return WORK_CONSERVING.of(self.policy) and WORK_CONSERVING.of(self.fallback)

    @property
    def starts_alone(self) -> bool:
        """Whether each says so of itself, or is never asked about a lone request."""
        one, other = self.policy, self.fallback
        return (STARTS_ALONE.of(one) or WORK_CONSERVING.of(one)) and (
            STARTS_ALONE.of(other) or WORK_CONSERVING.of(other)
        )

    @property
    def steady(self) -> bool:
        """Whether both say so of themselves."""
        return STEADY.of(self.policy) and STEADY.of(self.fallback)

    @property
    def charge_elsewhere(self) -> Callable[..., None] | None:
        """The policy's: the memory is its own."""
        return self._kept("charge_elsewhere", CHARGE_ELSEWHERE.of(self.policy))

    @property
    def charge_run(self) -> Callable[..., None] | None:
        """The policy's, for the same reason."""
        return self._kept("charge_run", CHARGE_RUN.of(self.policy))

    def _kept(self, name: str, charge: Callable[..., None] | None) -> Callable[..., None] | None:
        """A function of the policy that raises nothing: a request's answer may wait for it."""
        if charge is None:
            return None

        def guarded(*about: object) -> None:
            try:
                charge(*about)
            except Exception:
                self._complain("raised", f"the policy's {name} raised; nobody is charged")

        return guarded

    @property
    def wake_s(self) -> float:
        """The policy's; what is no number asks for nothing."""
        try:
            return float(WAKE_S.of(self.policy))
        except Exception:
            self._complain("raised", "the policy's wake_s is no number; it is not asked again by itself")
            return math.inf

    def __call__(self, view: View) -> Sequence[Assign]:
        """A legal answer."""
        if self._fresh:
            view.system["memory"], self._fresh = 0.0, False
        began = self._clock()
        if began < self._until:
            self.counts["resting"] += 1
            return asked(self.fallback, view)
        try:
            answer = list(asked(self.policy, view))
        except Exception:  # a policy is user code; its requests must be served all the same
            self._complain("raised", "the policy raised; the fallback serves")
            return asked(self.fallback, view)
        fault = illegal(view, answer)
        if fault:
            self._complain("illegal", f"the policy answered illegally ({fault}); the fallback serves")
            return asked(self.fallback, view)
        if self._holds(view, answer, began):
            self._complain("held", "the policy starts nobody while nothing runs; the fallback serves")
            return asked(self.fallback, view)
        if self._watch(self._clock() - began) and self._strict:
            return asked(self.fallback, view)
        return answer

    def _begin(self) -> None:
        """Nothing is held against the policy."""
        self._slow, self._until = 0, -math.inf
        self._over_s, self._watched = 0.0, -math.inf  # time beyond the limit, less OVER of what has passed
        self._holds_since = math.inf  # nothing runs, somebody waits, and it starts nobody

    def _holds(self, view: View, answer: Sequence[Assign], now: float) -> bool:
        """Whether it has started nobody for too long though nothing runs."""
        if answer or not len(view) or len(view.idle) < len(view.accelerators):
            self._holds_since = math.inf
            return False
        self._holds_since = min(self._holds_since, now)
        return self._strict or (now - self._holds_since > self.rest_s and self.wake_s == math.inf)

    def _watch(self, took_s: float) -> bool:
        """Whether an answer was slow; ``patience`` of them in a row, or too much time in sum, begin a rest."""
        now, most_s = self._clock(), self.patience * self.limit_s
        self._over_s = max(0.0, self._over_s - OVER * (now - self._watched))
        self._watched = now
        if took_s <= self.limit_s:
            self._slow = 0
            return False
        self._slow += 1
        self._over_s += min(took_s - self.limit_s, most_s / FEW)
        if self._slow >= self.patience or (self._over_s > most_s and not self._strict):
            self.counts["slow"] += 1
            log.warning(
                "the policy took %.1f ms, and was too slow too often; the fallback serves for %g s",
                took_s * 1e3,
                self.rest_s,
            )
            self._slow, self._over_s, self._until = 0, 0.0, now + self.rest_s
        return True

    def _complain(self, kind: str, message: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] in (1, 10, 100, 1000, 10_000):
            log.warning("%s (%d times so far)", message, self.counts[kind], exc_info=kind == "raised")


def asked(policy: Callable[[View], Sequence[Assign]], view: View) -> Sequence[Assign]:
    """A policy's answer; it finds its own constants in the View, as it does in the simulator."""
    give_constants(policy, view.system)
    return policy(view)


def illegal(view: View, answer: Sequence[object]) -> str:
    """Why an answer cannot be carried out; empty when it can."""
    busy, taken = set(), set()
    for assign in answer:
        if not isinstance(assign, Assign):
            return f"{type(assign).__name__} instead of Assign"
        found = (view.ready["request"] == assign.request).nonzero()[0]
        row = int(found[0]) if len(found) else -1
        if row < 0 or view.ready["layer"][row] != assign.layer or (assign.request, assign.layer) in taken:
            return f"block {assign.layer} of request {assign.request} is not ready"
        taken.add((assign.request, assign.layer))
        s = assign.accelerator
        if not 0 <= s < len(view.accelerators) or view.accelerators["request"][s] >= 0 or s in busy:
            return f"device {s} is not idle"
        if not math.isfinite(assign.priority):
            return f"priority {assign.priority} of request {assign.request} is not a number"
        if not view.latency_s[row, s] < float("inf"):
            return f"device {s} cannot run block {assign.layer} of request {assign.request}"
        busy.add(s)
    return ""
