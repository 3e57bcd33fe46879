"""What the records say of a decision whose policy gives no reason: whom it chose, and what the others had."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from eunomia.report.columns import Floats
from eunomia.report.history import History
from eunomia.report.ranking import Facts, Rule
from eunomia.report.units import instant, span

NO_REASON = (
    "No reason is known for these decisions, as the policy recorded none (a function cannot): told are the deadline, "
    "slack and remaining work of whom it chose, and of this one."
)


def beside(history: History, row: int, chosen: int, place: int) -> str:
    """Deadline, slack and remaining work of the ``chosen`` sub-job and of ``row``, and who of all had less of them."""
    now = float(history.decision_s[place])
    waiting = history.candidates(place)
    rows = np.concatenate([[chosen, row], waiting])
    facts = Facts(_any_rule(history), rows)
    deadline_s, work_s = facts.deadline_s, facts.work_best_s
    slack_s = deadline_s - now - facts.path_best_s
    told = [_told(float(deadline_s[n]), float(slack_s[n]), float(work_s[n]), now) for n in (0, 1)]
    earlier, tighter, shorter = (_less(values) for values in (deadline_s, slack_s, work_s))
    return (
        f"chosen: {told[0]}; this one: {told[1]}; of {len(waiting)} that waited, {earlier} had an earlier deadline "
        f"than the chosen, {tighter} less slack, {shorter} less remaining work"
    )


@lru_cache(maxsize=1)
def _any_rule(history: History) -> Rule:
    """What facts are read through; it keeps the sums that it has made."""
    return Rule(history, "edf", "any_idle", tiered=False, bandwidth_bytes_s=np.inf)


def _told(deadline_s: float, slack_s: float, work_s: float, now: float) -> str:
    if not np.isfinite(deadline_s):
        return f"no deadline, remaining work {span(work_s)}"
    away = deadline_s - now
    when = f"{instant(deadline_s)} ({span(abs(away))} {'away' if away >= 0 else 'ago'})"
    return f"deadline {when}, slack {span(slack_s)}, remaining work {span(work_s)}"


def _less(values: Floats) -> int:
    """How many of those that waited are below the chosen one, which stands first, this one second."""
    return int((values[2:] < values[0]).sum())
