"""The waits of one request: what was decided in the meantime, and why it fell on others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from eunomia.metrics.holding import held_each
from eunomia.report.history import History
from eunomia.report.ranking import Candidates, Rule
from eunomia.report.reasons import because, why_held
from eunomia.report.unexplained import beside
from eunomia.report.units import instant, span

MAX_RECOMPUTED = 5_000  # decisions; about two seconds


@dataclass(frozen=True)
class Choice:
    """One decision taken while the request waited, and why it fell on another sub-job."""

    decision: int
    time_s: float
    accelerator: str
    request: int
    layer: int
    tenant: str
    why: str
    recomputed: bool  # the rule, applied to the records, gives exactly this choice
    recorded: bool = False  # told from the terms that were recorded with it


@dataclass(frozen=True)
class Wait:
    """One wait of one layer and what happened in the meantime."""

    layer: int
    from_s: float
    to_s: float
    decisions: int
    served: tuple[tuple[str, int], ...]  # tenants whose layers were started instead, most first
    looked_at: int  # of these decisions, how many were recomputed
    behind: int  # recomputed decisions at which others went first
    elsewhere: (
        int  # recomputed decisions at which its placement did not want, or could not use, what was idle
    )
    to_win: str  # what its key would have had to be to go first every time; empty = unknown
    held_s: float  # time in which an idle accelerator would have ended it sooner
    choices: tuple[Choice, ...]
    holds: int = 0  # recorded decisions before which it was held
    held_last: str = ""  # why, the last time

    @property
    def wait_s(self) -> float:
        """Its length."""
        return self.to_s - self.from_s


def request_held_s(history: History, number: int) -> float:
    """How long a request was held, its layers added up."""
    s, end = history.subjobs, last_instant(history)
    until = {row: float(min(s.start_s[row], s.gone_s[row], end)) for row in history.rows_of(number)}
    return sum(held_of(history, row, until_s) for row, until_s in until.items() if until_s > s.ready_s[row])


def waits_of(
    history: History, rule: Rule | None, number: int, count: int, choices: int
) -> tuple[tuple[Wait, ...], int, int, int]:
    """The longest waits; decisions taken during any wait, how many were recomputed, how many agreed."""
    s, told, checks = history.subjobs, [], dict[int, bool]()
    rows = history.rows_of(number)
    during = [_decisions_during(history, row) for row in rows]
    share = min(1.0, MAX_RECOMPUTED / max(1, sum(map(len, during))))
    for row, places in zip(rows, during, strict=True):
        until = float(min(s.start_s[row], s.gone_s[row], last_instant(history)))
        some = _spread(places, max(choices, int(share * len(places))))
        seen = {p: rule.at(p) for p in some} if rule is not None else {}
        checks |= {p: _agrees(history, candidates, p) for p, candidates in seen.items()}
        if until - s.ready_s[row] > 0.0:
            told.append(_wait(history, rule, _Waiting(row, until, places, seen, checks), choices))
    told.sort(key=lambda wait: -wait.wait_s)
    total = len(set().union(*during))  # branches may wait at the same time
    return tuple(told[:count]), total, len(checks), sum(checks.values())


def decisions_during_waits(history: History, number: int) -> list[int]:
    """Decisions taken while any sub-job of the request waited, its own left out."""
    return sorted(set().union(*(_decisions_during(history, row) for row in history.rows_of(number))))


def _decisions_during(history: History, row: int) -> list[int]:
    """Decisions taken while sub-job ``row`` waited, its own left out."""
    s = history.subjobs
    during = (history.decision_s >= s.ready_s[row]) & (history.decision_s < s.gone_s[row])
    return [int(p) for p in np.flatnonzero(during & (history.decision < s.decision[row]))]


@dataclass(frozen=True)
class _Waiting:
    """A sub-job that waited: the decisions taken meanwhile, those recomputed, and whether each came out as recorded."""

    row: int
    until_s: float
    places: list[int]
    seen: dict[int, Candidates]
    checks: dict[int, bool]


def _wait(history: History, rule: Rule | None, waiting: _Waiting, choices: int) -> Wait:
    s, row, places, seen = history.subjobs, waiting.row, waiting.places, waiting.seen
    served = Counter(history.tenant[history.row_of[int(history.chosen_request[p])]] for p in places)
    behind = [p for p in places if p in seen and _startable(seen[p], row)]
    shown = _spread(_telling(history, row, places) or behind or list(seen) or places, choices)
    holds, held_last = _holds(history, row, places)
    return Wait(
        layer=int(s.layer[row]),
        from_s=float(s.ready_s[row]),
        to_s=waiting.until_s,
        decisions=len(places),
        served=tuple(served.most_common()),
        looked_at=len(seen),
        behind=len(behind),
        elsewhere=len(seen) - len(behind),
        to_win=_to_win(rule, [seen[p] for p in behind], row) if rule is not None else "",
        held_s=held_of(history, row, waiting.until_s),
        choices=tuple(
            _choice(history, rule, row, p, seen.get(p), waiting.checks.get(p, False)) for p in shown
        ),
        holds=holds,
        held_last=held_last,
    )


def _telling(history: History, row: int, places: list[int]) -> list[int]:
    """Of these decisions, those whose records say why this request went without."""
    if not history.reasons:
        return []
    return history.reasons.telling_of(int(history.subjobs.request[row]), places)


def _holds(history: History, row: int, places: list[int]) -> tuple[int, str]:
    """How often the sub-job was held before one of these decisions or its own, and why the last time."""
    if not history.reasons:
        return 0, ""
    own = np.flatnonzero(history.decision == history.subjobs.decision[row]).tolist()
    found = history.reasons.holding(int(history.subjobs.request[row]), [*places, *own])
    layer = int(history.subjobs.layer[row])
    mine = [r for r in map(history.reasons.at, found[-200:]) if r.row["held"]["layer"] == layer]
    return len(found) if mine else 0, why_held(mine[-1]) if mine else ""


def _startable(candidates: Candidates, row: int) -> bool:
    mine = np.flatnonzero(candidates.rows == row)
    return bool(len(mine)) and bool(candidates.startable[mine[0]])


def _to_win(rule: Rule, lost: list[Candidates], row: int) -> str:
    """The key that would have gone first at every decision that it lost, in words."""
    if not lost or any(bool(c.late[c.rows == row][0]) for c in lost) or rule.order.tells != "at":
        return ""
    least = min(float(c.key[c.first]) for c in lost if c.first >= 0)
    return f"{rule.order.noun} before {instant(least)}" if np.isfinite(least) else ""


def _spread(places: list[int], count: int) -> list[int]:
    """At most ``count`` of the decisions, the first and the last among them."""
    if len(places) <= count:
        return places
    return [places[round(i * (len(places) - 1) / max(1, count - 1))] for i in range(count)]


def _agrees(history: History, candidates: Candidates, place: int) -> bool:
    """Whether the rule gives the recorded sub-job, accelerator, key and number waiting."""
    first = candidates.first
    if first < 0 or len(candidates.rows) != history.num_waiting[place]:
        return False
    row = int(candidates.rows[first])
    recorded, key = history.subjobs.key[row], candidates.key[first]
    return bool(
        history.subjobs.request[row] == history.chosen_request[place]
        and history.subjobs.layer[row] == history.chosen_layer[place]
        and candidates.wanted[first] == history.chosen_accelerator[place]
        and (np.isnan(recorded) or recorded == key or abs(recorded - key) <= 1e-9 * max(1e-3, abs(key)))
    )


def _choice(
    history: History, rule: Rule | None, row: int, place: int, candidates: Candidates | None, agrees: bool
) -> Choice:
    request, layer = int(history.chosen_request[place]), int(history.chosen_layer[place])
    if history.reasons:
        reason, free_in_s = history.reasons.at(place), history.free_in_s[place].tolist()
        why = because(reason, int(history.subjobs.request[row]), history.accelerators, free_in_s)
    elif rule is None or candidates is None:
        why = _without_a_reason(history, row, history.subjob(request, layer), place)
    else:
        why = _reason(history, rule, candidates, row, place)
    return Choice(
        decision=int(history.decision[place]),
        time_s=float(history.decision_s[place]),
        accelerator=history.accelerators[history.chosen_accelerator[place]],
        request=request,
        layer=layer,
        tenant=history.tenant[history.row_of[request]],
        why=why,
        recomputed=agrees,
        recorded=bool(history.reasons),
    )


def _without_a_reason(history: History, row: int, chosen: int, place: int) -> str:
    """Recorded keys where they differ, and what of both is known."""
    mine, other = history.subjobs.key[row], history.subjobs.key[chosen]
    keys = f"it was started with key {other:.6g}; this one, when its turn came, had {mine:.6g}; "
    keys = keys if mine < other or mine > other else ""  # not where one of them has none
    return keys + beside(history, row, chosen, place)


def _reason(history: History, rule: Rule, candidates: Candidates, row: int, place: int) -> str:
    """Why the chosen sub-job went before sub-job ``row``, in words."""
    now = float(history.decision_s[place])
    chosen = history.subjob(int(history.chosen_request[place]), int(history.chosen_layer[place]))
    rows = candidates.rows.tolist()
    if chosen not in rows or row not in rows:
        return "the records do not show both as waiting at this moment"
    me, other = rows.index(row), rows.index(chosen)
    if not candidates.startable[me]:
        return _not_startable(history, rule, candidates, me, place)
    if candidates.late[me] != candidates.late[other]:
        if candidates.late[me]:
            return "this one could no longer meet its deadline, and hopeless work goes last"
        return "the records contradict the rule: a hopeless sub-job went first"
    if candidates.key[me] == candidates.key[other]:
        return f"equal {rule.order.noun}; it had become ready earlier"
    if candidates.key[me] < candidates.key[other]:
        return f"the records contradict the rule: this one's {rule.order.noun} came first"
    words = [_key_words(rule, candidates, i, now) for i in (other, me)]
    return f"{rule.order.noun} {words[0]} against {words[1]}"


def _not_startable(history: History, rule: Rule, candidates: Candidates, me: int, place: int) -> str:
    wanted = int(candidates.wanted[me])
    if wanted < 0:
        return "no idle accelerator can run this layer"
    free = float(history.free_in_s[place, wanted])
    return (
        f"placement {rule.place} keeps this one for {history.accelerators[wanted]}, "
        f"busy for about {span(free)} more"
    )


def _key_words(rule: Rule, candidates: Candidates, i: int, now: float) -> str:
    value = rule.order.sign * float(candidates.key[i])
    if not np.isfinite(value):
        return "none"
    if rule.order.tells == "number":
        return f"{value:.4g}"
    if rule.order.tells == "span":
        return span(value)
    away = value - now
    if rule.order.tells == "left":
        return span(away)
    return f"{instant(value)} ({span(abs(away))} {'away' if away >= 0 else 'ago'})"


def held_of(history: History, row: int, until: float) -> float:
    """Time between ready and start, or ``until``, that the layer was held (eunomia.metrics.holding)."""
    s = history.subjobs
    network = history.network(int(s.request[row]))
    isolated_s = network.latency_s[int(s.layer[row])][history.type_of]
    ran = np.isfinite(s.start_s)
    lanes = [ran & (s.accelerator == lane) for lane in range(len(history.accelerators))]
    busy = [(s.start_s[mine], s.end_s[mine]) for mine in lanes]
    spans = (np.array([until]), s.end_s[row : row + 1])
    return float(held_each(spans, s.ready_s[row : row + 1], isolated_s[None, :], busy)[0])


def last_instant(history: History) -> float:
    """When the last layer ended or the last decision was taken."""
    ends = history.subjobs.end_s[np.isfinite(history.subjobs.end_s)]
    return float(max(ends.max(initial=0.0), history.decision_s.max(initial=0.0)))
