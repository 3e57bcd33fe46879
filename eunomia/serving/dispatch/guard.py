"""A policy that may fail, behind one that does not."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence

from eunomia.contract.constants import give_constants
from eunomia.contract.traits import STEADY, WORK_CONSERVING
from eunomia.contract.view import Assign, View

log = logging.getLogger("eunomia.serving")


class Guarded:
    """Ask ``policy``; use ``fallback`` when it raises, is illegal or was too slow ``patience`` times running.

    A slow answer is still used, since its time is spent; after ``patience`` of them the fallback
    serves for ``rest_s`` and the policy is tried again. ``counts`` says how often each happened.
    A policy that never returns cannot be stopped from within its own thread.
    """

    def __init__(
        self,
        policy: Callable[[View], Sequence[Assign]],
        fallback: Callable[[View], Sequence[Assign]],
        limit_s: float = 0.02,
        patience: int = 10,
        rest_s: float = 5.0,
    ) -> None:
        self.policy, self.fallback = policy, fallback
        self.limit_s, self.patience, self.rest_s = limit_s, patience, rest_s
        self.counts: Counter[str] = Counter()
        self._slow, self._until, self._fresh = 0, 0.0, False
        self.generation = 0  # counts policies, so that whoever keeps their memory notices

    def replace(self, policy: Callable[[View], Sequence[Assign]]) -> None:
        """Another policy from the next decision on; what the old one had noted down is forgotten."""
        self.policy = policy
        self._slow, self._until, self._fresh = 0, 0.0, True
        self.generation += 1

    @property
    def work_conserving(self) -> bool:
        """Whether both say so of themselves: while the policy rests, the fallback decides."""
        return all(WORK_CONSERVING.of(p) for p in (self.policy, self.fallback))

    @property
    def steady(self) -> bool:
        """Whether both say so of themselves."""
        return all(STEADY.of(p) for p in (self.policy, self.fallback))

    def __call__(self, view: View) -> Sequence[Assign]:
        """A legal answer."""
        if self._fresh:
            view.system["memory"], self._fresh = 0.0, False
        began = time.perf_counter()
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
        self._watch(time.perf_counter() - began)
        return answer

    def _watch(self, took_s: float) -> None:
        self._slow = self._slow + 1 if took_s > self.limit_s else 0
        if self._slow >= self.patience:
            self.counts["slow"] += 1
            log.warning(
                "the policy took %.1f ms, %d times in a row; the fallback serves for %g s",
                took_s * 1e3,
                self.patience,
                self.rest_s,
            )
            self._slow, self._until = 0, time.perf_counter() + self.rest_s

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
        if not view.latency_s[row, s] < float("inf"):
            return f"device {s} cannot run block {assign.layer} of request {assign.request}"
        busy.add(s)
    return ""
