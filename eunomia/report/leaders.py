"""Who leads a comparison in one metric, who cannot be told apart from the leader, and who comes next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eunomia.metrics.metric import Metric
from eunomia.metrics.statistics import Estimate
from eunomia.report.units import counted, estimate_text

EQUAL = 1e-9  # relative difference of means that are one number


class Rivals(Protocol):
    """Policies over the same seeds."""

    @property
    def finished(self) -> Sequence[str]:
        """Policies with results."""

    def estimate(self, policy: str, metric: str) -> Estimate:
        """Mean of a metric over seeds."""

    def difference(self, policy: str, rival: str, metric: str) -> Estimate:
        """Policy minus rival, seed by seed."""


@dataclass(frozen=True)
class Leaders:
    """The order of the policies in a metric, best mean first; those without data are left out.

    ``equal``: other policies with the first one's mean. ``level``: those whose paired difference to the first one
    has an interval around 0, or too few seeds for one (``few``). ``behind``: the others, clearly worse.
    """

    metric: str
    order: tuple[str, ...]
    equal: tuple[str, ...]
    level: tuple[str, ...]
    behind: tuple[str, ...]
    few: bool = False

    @property
    def best(self) -> str:
        """The policy with the best mean."""
        return self.order[0]

    @property
    def top(self) -> tuple[str, ...]:
        """All policies with the best mean."""
        return (self.best, *self.equal)


def ranked(found: Rivals, name: str, metric: Metric) -> list[str]:
    """Policies from best to worst mean of a metric; those without data stand last."""
    sign = 1.0 if metric.better == "lower" else -1.0
    value = {policy: sign * found.estimate(policy, name).mean for policy in found.finished}
    return sorted(value, key=lambda policy: (math.isnan(value[policy]), value[policy]))


def leaders(found: Rivals, name: str, metric: Metric) -> Leaders | None:
    """None where no policy has data."""
    mean = {policy: found.estimate(policy, name).mean for policy in found.finished}
    order = [policy for policy in ranked(found, name, metric) if not math.isnan(mean[policy])]
    if not order:
        return None
    best, *others = order
    equal = [p for p in others if math.isclose(mean[p], mean[best], rel_tol=EQUAL, abs_tol=1e-12)]
    rest = {p: found.difference(best, p, name) for p in others if p not in equal}
    level = tuple(p for p, gain in rest.items() if not (gain.is_shown and gain.excludes_zero))
    behind = tuple(p for p in rest if p not in level)
    few = any(not gain.is_shown for gain in rest.values())
    return Leaders(name, tuple(order), tuple(equal), level, behind, few)


def runner_up(found: Rivals, led: Leaders, metric: Metric) -> list[str]:
    """Who is level with the first, and who is the next that is clearly behind, with figures."""
    said = []
    if led.level:
        rates = [f"{policy} ({_text(found, policy, metric, led)})" for policy in led.level]
        gain = found.difference(led.best, led.level[0], led.metric)
        doubt = "over these seeds they cannot be told apart from the first"
        if not gain.is_shown:
            seeds = "one sample cannot" if gain.n < 2 else f"{gain.n} seeds are too few to"
            doubt = f"{seeds} tell whether that differs"
        said.append(f"{listed(rates)} {'follows' if len(rates) == 1 else 'follow'}: {doubt}.")
    if led.behind:
        next_one = led.behind[0]
        gain = found.difference(led.best, next_one, led.metric)
        said.append(
            f"{next_one} {'is the first clearly behind' if led.level else 'follows'} with "
            f"{_text(found, next_one, metric, led)}, behind by {_margin(metric, gain)} on the same seeds."
        )
    return said


def in_short(found: Rivals, name: str, metric: Metric) -> str:
    """``edf 91.2 %, level with fcfs 89.2 %; then sjf 80.1 %``: the leaders in one line."""
    led = leaders(found, name, metric)
    if led is None:
        return "no data"
    text = f"{', '.join(led.top)} {_text(found, led.best, metric, led)}"
    if led.level and led.few:
        return f"{text}; then {led.level[0]} {_text(found, led.level[0], metric, led)}"
    if led.level:
        text += f", level with {', '.join(f'{p} {_text(found, p, metric, led)}' for p in led.level)}"
    if led.behind:
        text += f"; then {led.behind[0]} {_text(found, led.behind[0], metric, led)}"
    return text


def listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``; of many the first five and how many more."""
    shown = (
        list(names) if len(names) <= 6 else [*names[:5], f"{counted(len(names) - 5, 'more policy', 'more')}"]
    )
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _text(found: Rivals, policy: str, metric: Metric, led: Leaders) -> str:
    return estimate_text(metric, found.estimate(policy, led.metric))


def _margin(metric: Metric, gain: Estimate) -> str:
    size = Estimate(
        abs(gain.mean), abs(gain.mean) - gain.half_width, abs(gain.mean) + gain.half_width, gain.n
    )
    if metric.unit == "share":
        return f"{100 * size.mean:.1f} ±{100 * size.half_width:.1f} points"
    return estimate_text(metric, size)
