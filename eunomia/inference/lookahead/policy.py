"""The policy ``lookahead``: settings, the compiled decision, and the memory that each run gets."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from eunomia.contract.rows import CompiledDecide
from eunomia.contract.view import Assign, View
from eunomia.core.arrays import Floats
from eunomia.core.errors import PolicyError, UnknownNameError
from eunomia.inference.kernel.jit import compile_cached
from eunomia.inference.kernel.setup import DECIDE, PLACEMENTS, Rules
from eunomia.inference.kernel.signatures import DECIDE_SIGNATURE
from eunomia.inference.lookahead.choose import choose_by_plan
from eunomia.inference.lookahead.companion import Begun, Companion, Settings, attach
from eunomia.inference.lookahead.keys import ORDERS
from eunomia.inference.lookahead.objective import OBJECTIVES, TIE
from eunomia.inference.lookahead.price import PRICED
from eunomia.inference.policies.compiled import ask
from eunomia.inference.policies.greedy import Greedy

if TYPE_CHECKING:
    from eunomia.inference.lookahead.learner import Followed

SNAPSHOT_US = 10.0  # time of a snapshot and of all else that every plan costs
PORTFOLIO = ("edf+f+eft+g0.9", "edf_bytes+f+g1", "sjf+f+g0.9", "llf+f+eft+g1")


@dataclass(frozen=True)
class Lookahead:
    """Follow a plan; at every arrival, try other plans in the engine and keep what promises more.

    ``portfolio[0]`` is the base rule, which a plan has to beat. See docs/lookahead.md. Asked about a View without an
    engine behind it, it is its base rule. With a period it plans at ticks; rollouts decide at every event all the same.
    """

    portfolio: tuple[Greedy | Followed, ...]
    settings: Settings
    name: str = "lookahead"

    @property
    def learner(self) -> Followed | None:
        """The learned policy of the portfolio, if there is one."""
        return next((rule for rule in self.portfolio if not isinstance(rule, Greedy)), None)

    @property
    def blocks(self) -> tuple[Floats, ...]:
        """The numbers of the learned policy."""
        return () if self.learner is None else self.learner.policy.blocks

    @property
    def rules(self) -> Rules:
        """What the kernel needs to run the policy by itself. At a tick it queues all that the plan would start."""
        return Rules(DECIDE, ahead=math.inf if self.learner is None else 0.0)

    @property
    def decide(self) -> CompiledDecide:
        """The compiled decision."""
        return _compiled() if self.learner is None else self.learner.decide

    decide_tick = decide

    @property
    def parameters(self) -> tuple[float, ...]:
        """The base rule, for Views without an engine; of none, where that is a learned policy."""
        base = self.portfolio[0]
        if not isinstance(base, Greedy):
            return ()
        order, place = ORDERS.index(base.resolved.name), PLACEMENTS.index(base.place)
        return float(order), float(place), float(base.feasible), base.gate

    def attach(self, engine: Begun) -> Companion:
        """Memory for one run of one engine; called when the run begins."""
        if self.learner is not None:
            self.learner.policy.share(engine.problem.contention)
        rules = tuple(rule if isinstance(rule, Greedy) else None for rule in self.portfolio)
        return attach(engine, self.settings, rules, self.learner)

    def __call__(self, view: View) -> list[Assign]:
        """One start, or none; the engine calls again while something can start."""
        return ask(self, view)


@cache
def _compiled() -> CompiledDecide:
    return compile_cached(
        choose_by_plan,
        DECIDE_SIGNATURE,
        choose_by_plan.__qualname__,
        "inference/kernel",
        "inference/policies",
        "inference/lookahead",
    )


@dataclass(frozen=True)
class Choices:
    """What a user may set of lookahead; names and defaults are those of ``lookahead(key=value)``."""

    base: str = "edf+f+eft+g0.9"  # the rule that plans must beat
    portfolio: str = "default"  # more rules, ``;`` between them; ``default`` or ``none``
    objective: str = "hits"  # hits, attainment, shortfall or max_min
    budget_us: float = 500.0  # time per plan, counted as simulated layer ends; 0 = no limit
    horizon_ms: float = math.inf  # how far rollouts go, at most to the last known deadline
    price: float = 0.9  # hits that the work of one request must bring
    price_of: str = "largest"  # that request: the ``largest``, a ``mean`` one, or as ``learned`` (price.py)
    margin: float = 0.3  # hits by which a change must be better
    futures: int = 0  # sampled futures per rollout; 0 = known requests alone
    foresee: bool = (
        False  # the true arrivals in place of sampled ones: no scheduler, but a search may know them
    )
    singles: bool = True  # move single requests
    refuse: bool = False  # hopeless requests wait until no other can be on time
    charge: bool = (
        False  # a standing plan, corrected in slices that take effect after the time that they took
    )
    slice_rollouts: float = 3.0  # length of a slice in rollouts, at most the budget
    ends_per_us: float = 8.0  # simulated layer ends per microsecond

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise UnknownNameError("objective", self.objective, OBJECTIVES)
        if not 0.0 < self.ends_per_us < math.inf:
            raise PolicyError(
                f"lookahead: ends_per_us is {self.ends_per_us}; it must be positive (8 is usual)"
            )
        if self.price_of not in PRICED:
            raise UnknownNameError("request that has the price", self.price_of, PRICED)

    def settings(self) -> Settings:
        """The same in the planner's units: seconds, layer ends, indices."""
        unit = 1.0 if self.objective == "hits" else TIE
        return Settings(
            objective=OBJECTIVES.index(self.objective),
            budget=_ends(self.budget_us, self.ends_per_us),
            horizon_s=1e-3 * self.horizon_ms,
            price=self.price,
            price_of=PRICED.index(self.price_of),
            margin=self.margin * unit,
            futures=1 if self.foresee else self.futures,
            foresee=self.foresee,
            singles=self.singles,
            refuse=self.refuse,
            charged=self.charge,
            slice_rollouts=self.slice_rollouts,
            unit_s=1e-6 / self.ends_per_us,
            snapshot_s=1e-6 * SNAPSHOT_US,
        )


def lookahead(base: str = Choices.base, **more: float | str) -> Lookahead:
    """Rollouts of rules and of single requests put first or last, at every arrival; free unless ``charge``.

    ``lookahead(base="edf+f", futures=2)``: keys, defaults and meanings are the fields of :class:`Choices`;
    docs/lookahead.md explains them.
    """
    chosen = Choices(base=base, **more)  # type: ignore[arg-type]  # names and types are checked by the grammar
    names = [chosen.base, *_more_rules(chosen.portfolio)]
    rules = tuple(_rule(name) for name in dict.fromkeys(names))
    if sum(not isinstance(rule, Greedy) for rule in rules) > 1:
        raise PolicyError("lookahead: the portfolio names several learned policies; give one")
    return Lookahead(rules, chosen.settings())


setattr(lookahead, "__signature__", inspect.signature(Choices))  # noqa: B010  # what the grammar of names reads


def _more_rules(portfolio: str) -> list[str]:
    if portfolio == "default":
        return list(PORTFOLIO)
    return [] if portfolio == "none" else portfolio.split(";")


def _ends(budget_us: float, ends_per_us: float) -> int:
    """Layer ends that can be simulated in the budget, snapshot aside; 0 = no limit, at least 1 otherwise."""
    if not budget_us >= 0.0:
        raise PolicyError(f"lookahead: budget_us is {budget_us}; it must be at least 0 (0 = no limit)")
    if budget_us == 0.0 or not math.isfinite(budget_us):
        return 0
    if budget_us <= SNAPSHOT_US:
        raise PolicyError(
            f"lookahead: budget_us is {budget_us:g}; a snapshot takes {SNAPSHOT_US:g} us: give more, or 0 (no limit)"
        )
    return max(1, int((budget_us - SNAPSHOT_US) * ends_per_us))


def _rule(name: str) -> Greedy | Followed:
    from eunomia.inference.lookahead.learner import Followed
    from eunomia.inference.policies.catalogue import load_policy
    from eunomia.learning.policy.learned import LearnedPolicy

    rule = load_policy(name)
    if isinstance(rule, LearnedPolicy):
        return Followed(rule)
    if not isinstance(rule, Greedy) or rule.resolved.name not in ORDERS:
        raise PolicyError(
            f"lookahead cannot roll out '{name}'; its rules are learned policies, and order[+f][+placement][+gX] with "
            "one of the orders " + ", ".join(ORDERS)
        )
    return rule
