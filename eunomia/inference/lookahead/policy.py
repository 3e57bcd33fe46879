"""The policy ``lookahead``: settings, the compiled decision, and the memory that each run gets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

from eunomia.contract.view import Assign, View
from eunomia.core.errors import PolicyError, UnknownNameError
from eunomia.inference.kernel.jit import compile_cached
from eunomia.inference.kernel.setup import DECIDE, PLACEMENTS, Rules
from eunomia.inference.kernel.signatures import DECIDE_SIGNATURE
from eunomia.inference.lookahead.choose import choose_by_plan
from eunomia.inference.lookahead.companion import Companion, Settings, attach
from eunomia.inference.lookahead.keys import ORDERS
from eunomia.inference.lookahead.objective import OBJECTIVES, TIE
from eunomia.inference.policies.compiled import ask
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.policies.unrolling import unrolled

SNAPSHOT_US = 10.0  # time of a snapshot and of all else that every plan costs
PORTFOLIO = ("edf+f+eft+g0.9", "edf_bytes+f+g1", "sjf+f+g0.9", "llf+f+eft+g1")


@dataclass(frozen=True)
class Lookahead:
    """Follow a plan; at every arrival, try other plans in the engine and keep what promises more.

    ``portfolio[0]`` is the base rule, which a plan has to beat. See docs/lookahead.md. Asked about a View without an
    engine behind it, it is its base rule. With a period it plans at ticks; rollouts decide at every event all the same.
    """

    portfolio: tuple[Greedy, ...]
    settings: Settings
    name: str = "lookahead"

    @property
    def rules(self) -> Rules:
        """What the kernel needs to run the policy by itself."""
        return Rules(DECIDE)

    @property
    def decide(self) -> Any:
        """The compiled decision."""
        return _compiled()

    @property
    def decide_tick(self) -> Any:
        """The compiled decision at the ticks of a period: it queues all that the plan would start."""
        return _compiled_tick()

    @property
    def parameters(self) -> tuple[float, ...]:
        """The base rule, for Views without an engine."""
        base = self.portfolio[0]
        order, place = ORDERS.index(base.resolved.name), PLACEMENTS.index(base.place)
        return float(order), float(place), float(base.feasible), base.gate

    def attach(self, engine: Any) -> Companion:
        """Memory for one run of one engine; called when the run begins."""
        return attach(engine, self.settings, self.portfolio)

    def __call__(self, view: View) -> list[Assign]:
        """One start, or none; the engine asks again while something can start."""
        return ask(self, view)


@cache
def _compiled() -> Any:
    return compile_cached(
        choose_by_plan,
        DECIDE_SIGNATURE,
        choose_by_plan.__qualname__,
        "inference/kernel",
        "inference/policies",
        "inference/lookahead",
    )


@cache
def _compiled_tick() -> Any:
    function = unrolled(choose_by_plan)
    return compile_cached(
        function,
        DECIDE_SIGNATURE,
        "unrolled lookahead",
        "inference/kernel",
        "inference/policies",
        "inference/lookahead",
    )


def lookahead(
    base: str = "edf+f+eft+g0.9",
    portfolio: str = "default",
    objective: str = "hits",
    budget_us: float = 500.0,
    horizon_ms: float = math.inf,
    price: float = 0.9,
    price_of: str = "largest",
    margin: float = 0.3,
    futures: int = 0,
    singles: bool = True,
    charge: bool = False,
    slice_rollouts: float = 3.0,
    ends_per_us: float = 8.0,
) -> Lookahead:
    """Rollouts of rules and of single requests put first or last, at every arrival; free unless ``charge``.

    See docs/lookahead.md. ``base``: the rule that plans must beat; ``portfolio``: more rules, ``;`` between them,
    ``default`` or ``none``.
    ``objective``: hits, attainment, shortfall or max_min. ``budget_us``: time per plan (0 = no limit), counted as
    simulated layer ends, ``ends_per_us`` of them per microsecond; ``charge``: a standing plan, corrected in slices that
    take effect only after the time that they took, each as long as ``slice_rollouts`` rollouts and at most the
    budget. ``horizon_ms``: how far rollouts go (at most to the last known deadline). ``price``: hits that the work
    of the ``largest`` request must bring (``price_of``: or of a ``mean`` one). ``margin``: hits by which a
    change must be better. ``futures``: sampled futures per rollout (0 = known requests alone). ``singles``: move
    single requests.
    """
    names = [base, *_more_rules(portfolio)]
    rules = tuple(_rule(name) for name in dict.fromkeys(names))
    if objective not in OBJECTIVES:
        raise UnknownNameError("objective", objective, OBJECTIVES)
    if not 0.0 < ends_per_us < math.inf:
        raise PolicyError(f"lookahead: ends_per_us is {ends_per_us}; it must be positive (8 is usual)")
    if price_of not in ("largest", "mean"):
        raise UnknownNameError("request that has the price", price_of, ("largest", "mean"))
    unit = 1.0 if objective == "hits" else TIE
    settings = Settings(
        objective=OBJECTIVES.index(objective), budget=_ends(budget_us, ends_per_us), horizon_s=1e-3 * horizon_ms,
        price=price, mean_price=price_of == "mean", margin=margin * unit,
        futures=futures, singles=singles, charged=charge, slice_rollouts=slice_rollouts,
        unit_s=1e-6 / ends_per_us, snapshot_s=1e-6 * SNAPSHOT_US,
    )  # fmt: skip
    return Lookahead(rules, settings)


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


def _rule(name: str) -> Greedy:
    from eunomia.inference.policies.catalogue import load_policy

    rule = load_policy(name)
    if not isinstance(rule, Greedy) or rule.resolved.name not in ORDERS:
        raise PolicyError(
            f"lookahead cannot roll out '{name}'; its rules are order[+f][+placement][+gX] with one of the orders "
            + ", ".join(ORDERS)
        )
    return rule
