"""Who won, who lost, and for whom: the sentences of a comparison, the same in the terminal and in the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from eunomia.metrics.statistics import Estimate
from eunomia.metrics.table import METRICS
from eunomia.report.leaders import Leaders, Rivals, leaders, listed, runner_up
from eunomia.report.units import estimate_text

LOSS = 0.005  # of a tenant's hit rate, from which on it is worth a sentence
RATE, ATTAINMENT = METRICS["hit_rate"], METRICS["slo_attainment"]


class Compared(Rivals, Protocol):
    """Policies over the same seeds, with the hit rate of each tenant."""

    @property
    def tenant_names(self) -> Sequence[str]:
        """All tenants."""

    def tenant(self, policy: str, tenant: str) -> Estimate:
        """Hit rate of a tenant, mean over seeds."""

    def tenant_difference(self, policy: str, rival: str, tenant: str) -> Estimate:
        """The same, policy minus rival, seed by seed."""


def verdict(found: Compared) -> list[str]:
    """The headline first; then who is level or next, the last, SLO attainment, and the worst-served tenant."""
    if not found.finished:
        return ["No run to report."]
    led = leaders(found, "hit_rate", RATE)
    if led is None:
        return ["No request was measured."]
    said = [_headline(found, led), *runner_up(found, led, RATE)]
    if led.behind[1:]:
        last = led.order[-1]
        said.append(f"{last} has the lowest hit rate: {_rate(found.estimate(last, 'hit_rate'))}.")
    return [*said, *_attainment(found, led.best), *_worst_served(found, led.best)]


def _headline(found: Compared, led: Leaders) -> str:
    rate = _rate(found.estimate(led.best, "hit_rate"))
    if len(led.order) == 1:
        return f"{led.best} has a hit rate of {rate}."
    if led.equal:
        return f"{listed(led.top)} share the highest hit rate: {rate}."
    return f"{led.best} has the highest hit rate: {rate}."


def _rate(estimate: Estimate) -> str:
    return estimate_text(RATE, estimate)


def _attainment(found: Compared, best: str) -> list[str]:
    led = leaders(found, "slo_attainment", ATTAINMENT)
    mine = found.estimate(best, "slo_attainment")
    if led is None or math.isnan(mine.mean):
        return []
    text = f"SLO attainment under {best} is {estimate_text(ATTAINMENT, mine)}"
    if best in led.top:
        others = [policy for policy in led.top if policy != best]
        shared = f"; {listed(others)} {'has' if len(others) == 1 else 'have'} as much" if others else ""
        return [f"{text}{', the highest' if len(led.order) > 1 else ''}{shared}."]
    most = estimate_text(ATTAINMENT, found.estimate(led.best, "slo_attainment"))
    doubt = "" if best in led.behind else "; these seeds cannot tell them apart"
    return [f"{text}; it is highest under {listed(led.top)}, {most}{doubt}."]


def _worst_served(found: Compared, best: str) -> list[str]:
    rates = {name: found.tenant(best, name) for name in found.tenant_names}
    rates = {name: rate for name, rate in rates.items() if not math.isnan(rate.mean)}
    if len(rates) < 2:
        return []
    poorest = min(rates, key=lambda name: rates[name].mean)
    if rates[poorest].mean == max(rate.mean for rate in rates.values()):
        return [f"Every tenant has the same hit rate under {best}: {_rate(rates[poorest])}."]
    said = [
        f"On average over the seeds {poorest} is served worst under {best}: hit rate {_rate(rates[poorest])}."
    ]
    losses = []
    for rival in found.finished:
        for tenant in rates if rival != best else ():
            loss = found.tenant_difference(best, rival, tenant)
            if loss.mean < -LOSS and (loss.excludes_zero or not loss.has_interval):
                losses.append((loss.mean, tenant, rival))
    if losses:
        mean, tenant, rival = min(losses)
        said.append(
            f"Not everybody gains: the hit rate of {tenant} was {-100 * mean:.1f} points higher under {rival}."
        )
    return said
