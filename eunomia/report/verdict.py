"""Who won, who lost, and for whom: the sentences of a comparison, the same in the terminal and in the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from eunomia.metrics.statistics import Estimate
from eunomia.metrics.table import METRICS
from eunomia.report.units import estimate_text

LOSS = 0.005  # of a tenant's hit rate, from which on it is worth a sentence
RATE = METRICS["hit_rate"]


class Compared(Protocol):
    """Policies over the same seeds, with the hit rate of each tenant."""

    @property
    def finished(self) -> Sequence[str]:
        """Policies with results."""

    @property
    def tenant_names(self) -> Sequence[str]:
        """All tenants."""

    def estimate(self, policy: str, metric: str) -> Estimate:
        """Mean of a metric over seeds."""

    def difference(self, policy: str, rival: str, metric: str) -> Estimate:
        """Policy minus rival, seed by seed."""

    def tenant(self, policy: str, tenant: str) -> Estimate:
        """Hit rate of a tenant, mean over seeds."""

    def tenant_difference(self, policy: str, rival: str, tenant: str) -> Estimate:
        """The same, policy minus rival, seed by seed."""


def ranked(found: Compared, metric: str = "hit_rate") -> list[str]:
    """Policies from best to worst mean of a metric; those without data stand last."""
    sign = 1.0 if METRICS[metric].better == "lower" else -1.0
    value = {policy: sign * found.estimate(policy, metric).mean for policy in found.finished}
    return sorted(value, key=lambda policy: (math.isnan(value[policy]), value[policy]))


def verdict(found: Compared) -> list[str]:
    """The headline first; then the next, the last, SLO attainment, and the worst-served tenant."""
    order = ranked(found)
    if not order:
        return ["No run to report."]
    best = order[0]
    rates = {policy: found.estimate(policy, "hit_rate") for policy in order}
    if math.isnan(rates[best].mean):
        return ["No request was measured."]
    said = [
        f"{best} has {'the highest' if len(order) > 1 else 'a'} hit rate{_of(order)} {_rate(rates[best])}."
    ]
    if len(order) > 1:
        said.append(_next(found, best, order[1]))
    if len(order) > 2:
        said.append(f"{order[-1]} has the lowest hit rate: {_rate(rates[order[-1]])}.")
    return [*said, *_attainment(found, best), *_worst_served(found, best)]


def _of(order: Sequence[str]) -> str:
    return ":" if len(order) > 1 else " of"


def _rate(estimate: Estimate) -> str:
    return estimate_text(RATE, estimate)


def _next(found: Compared, best: str, second: str) -> str:
    gain = found.difference(best, second, "hit_rate")
    text = f"{second} follows with {_rate(found.estimate(second, 'hit_rate'))}"
    if not gain.has_interval:
        return f"{text}; one seed cannot tell whether that differs."
    if not gain.excludes_zero:
        return f"{text}: over these seeds the two cannot be told apart."
    return f"{text}, behind by {100 * gain.mean:.1f} ±{100 * gain.half_width:.1f} points on the same seeds."


def _attainment(found: Compared, best: str) -> list[str]:
    mine = found.estimate(best, "slo_attainment")
    if math.isnan(mine.mean):
        return []
    top = ranked(found, "slo_attainment")[0]
    most = found.estimate(top, "slo_attainment")
    metric = METRICS["slo_attainment"]
    text = f"SLO attainment under {best} is {estimate_text(metric, mine)}"
    if math.isclose(most.mean, mine.mean):
        return [f"{text}{', the highest' if len(found.finished) > 1 else ''}."]
    return [f"{text}; it is highest under {top}, {estimate_text(metric, most)}."]


def _worst_served(found: Compared, best: str) -> list[str]:
    rates = {name: found.tenant(best, name) for name in found.tenant_names}
    rates = {name: rate for name, rate in rates.items() if not math.isnan(rate.mean)}
    if len(rates) < 2:
        return []
    poorest = min(rates, key=lambda name: rates[name].mean)
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
