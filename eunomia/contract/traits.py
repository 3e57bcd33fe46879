"""What a policy may declare beside its answers: every trait once, with its default and what follows from it.

A trait is an attribute of the policy, read anew wherever it is needed, as some change during a run. A policy declares
those that it has and leaves out the rest. ``STEADY.of(policy)`` is the one way to read a trait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from eunomia.contract.rows import CompiledDecide, CompiledKey
from eunomia.contract.view import Policy
from eunomia.core.errors import ConfigError
from eunomia.core.own_file import from_file

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Trait(Generic[T]):
    """An attribute that a policy may have: its name, what holds without it, and what it means."""

    name: str
    default: T
    meaning: str

    def of(self, policy: object) -> T:
        """The policy's value, or the default."""
        value: T = getattr(policy, self.name, self.default)
        return value


NAME: Trait[str | None] = Trait("name", None, "what tables and reports call it")
RESET: Trait[Callable[[int], object] | None] = Trait(
    "reset", None, "called with the seed before each run: forget everything, draw from this seed"
)
PREPARE: Trait[Callable[[Any], object] | None] = Trait(
    "prepare", None, "called before each run with networks and costs (policies/knowledge.py)"
)
CHOOSE: Trait[Callable[..., Policy] | None] = Trait(
    "choose",
    None,
    "called before each run with problem and options; the policy that it returns runs in its place",
)
CHARGE_S: Trait[float] = Trait(
    "charge_s", 0.0, "scheduler time [s] that its last answer cost; the engine charges it"
)
PERIOD_S: Trait[float] = Trait(
    "period_s", 0.0, "it decides at ticks of this period [s], where the engine sets none"
)
PERIOD_MODE: Trait[Literal["wait", "patch"]] = Trait(
    "period_mode", "patch", "what happens between its ticks: wait or patch"
)
SHARING: Trait[str | None] = Trait(
    "sharing", None, "contention model that its own split of the bandwidth stands for"
)
PARAMETERS: Trait[tuple[float, ...]] = Trait(
    "parameters", (), "at most 8 constants, found in the system record of its View"
)
BLOCKS: Trait[tuple[npt.NDArray[np.generic], ...]] = Trait(
    "blocks", (), "arrays that its compiled function finds there"
)
RULES: Trait[Any] = Trait(
    "rules", None, "how compiled code runs it (kernel/setup.py); without, Python is asked"
)
KEY: Trait[CompiledKey | None] = Trait("key", None, "compiled key of an order, least first")
DECIDE: Trait[CompiledDecide | None] = Trait("decide", None, "compiled answer at events")
IN_PLACE: Trait[Callable[..., bool] | None] = Trait(
    "decides_in_place", None, "whether, with these options, what it attaches decides in place of ``decide``"
)
DECIDE_TICK: Trait[CompiledDecide | None] = Trait("decide_tick", None, "compiled answer at ticks")
ATTACH: Trait[Callable[[Any], object] | None] = Trait(
    "attach", None, "called with the engine when a run begins; what it returns lives as long as the run"
)
WORK_CONSERVING: Trait[bool] = Trait(
    "work_conserving", False, "it never leaves a device idle while something waits that the device can run"
)
STARTS_ALONE: Trait[bool] = Trait(
    "starts_alone",
    False,
    "where nobody else waits, it starts what can start; it may be asked after that, for its notes",
)
STEADY: Trait[bool] = Trait(
    "steady", False, "on one device, only arrivals change its choice among what runs and waits"
)
GENERATION: Trait[int] = Trait(
    "generation", 0, "another number means: the memory in the View is no longer its own"
)
COUNTS: Trait[Mapping[str, int]] = Trait("counts", {}, "how often each of its guards acted")
CHARGE_ELSEWHERE: Trait[Callable[..., None] | None] = Trait(
    "charge_elsewhere",
    None,
    "called with its memory to charge tenants for what other servers have served (inference/policies/elsewhere.py)",
)
CHARGE_RUN: Trait[Callable[..., None] | None] = Trait(
    "charge_run",
    None,
    "called with its memory and what a run took beyond the time foreseen when it chose what follows",
)
WAKE_S: Trait[float] = Trait(
    "wake_s", math.inf, "after an answer that starts nothing, a server asks it again in so many seconds"
)
WARM_UP: Trait[Callable[[], object] | None] = Trait(
    "warm_up", None, "of an allocator: called before any time is taken, to compile"
)

TRAITS: tuple[Trait[Any], ...] = (
    NAME, RESET, PREPARE, CHOOSE, CHARGE_S, PERIOD_S, PERIOD_MODE, SHARING, PARAMETERS, BLOCKS, RULES, KEY, DECIDE,
    DECIDE_TICK, ATTACH, WORK_CONSERVING, STARTS_ALONE, STEADY, GENERATION, COUNTS, CHARGE_ELSEWHERE, CHARGE_RUN,
    WAKE_S, WARM_UP,
)  # fmt: skip


def title(policy: object) -> str:
    """What a policy object is called: its name, or that of its function or class."""
    return str(NAME.of(policy) or getattr(policy, "__name__", None) or type(policy).__name__)


def title_in_file(file: str, name: str) -> str:
    """What tables call ``FILE.py:NAME``: the trait ``name`` of what the file has under NAME, else NAME.

    Runs the file. Where that fails, the error is said where the policy is loaded.
    """
    path = Path(file)
    return _stated(path, name, path.stat().st_mtime_ns) if path.is_file() else name


@lru_cache(maxsize=64)
def _stated(path: Path, name: str, changed_ns: int) -> str:
    try:
        stated = NAME.of(from_file(path, name, "policy"))
    except ConfigError:
        return name
    return stated if isinstance(stated, str) and stated else name


def forget(policy: object, seed: int) -> None:
    """A run begins: reset a policy that remembers."""
    reset = RESET.of(policy)
    if reset is not None:
        reset(seed)
