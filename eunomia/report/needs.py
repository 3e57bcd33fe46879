"""The verdict on one request, and what would have met its deadline."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eunomia.report.columns import floats
from eunomia.report.history import History
from eunomia.report.units import span


def needs(history: History, request: int, parts: Mapping[str, float]) -> tuple[str, tuple[str, ...]]:
    """One sentence of verdict and the single changes that would each have been enough.

    Parts are sums over layers, so for a network with parallel branches they say "at most". ``holding`` is what of
    ``queueing`` an idle accelerator would have saved.
    """
    row = history.row_of[request]
    arrival, deadline, finish = history.arrival_s[row], history.deadline_s[row], history.finish_s[row]
    outcome, isolated = history.outcome[row], floats(history.run["requests"], "isolated_s")[row]
    allowed = deadline - arrival
    if outcome == "dropped":
        return _dropped(history, request, float(allowed), float(isolated))
    if outcome == "unfinished":
        return "It had not finished when the run ended.", ()
    if not np.isfinite(deadline):
        return f"It has no deadline; it took {span(finish - arrival)}.", ()
    if outcome == "hit":
        return f"It met its deadline with {span(deadline - finish)} to spare.", ()
    over = float(finish - deadline)
    held = _by_holding(parts, float(isolated)) if allowed >= isolated else ""
    return f"It missed its deadline by {span(over)}{held}.", _changes(
        history, request, parts, over, float(allowed)
    )


def _changes(
    history: History, request: int, parts: Mapping[str, float], over: float, allowed: float
) -> tuple[str, ...]:
    row = history.row_of[request]
    isolated = float(floats(history.run["requests"], "isolated_s")[row])
    if _shortest(history, request) > allowed:
        return (_impossible(_shortest(history, request), allowed),)
    slower = max(0.0, parts["service"] - isolated)
    lost = {name: span(parts[name]) for name in ("queueing", "contention", "switching")}
    better = "it would have met its deadline"
    savings = [
        (
            "queueing",
            parts["queueing"],
            f"It queued {lost['queueing']} in all: {span(over)} less was enough.",
        ),
        ("contention", parts["contention"], f"Contention added {lost['contention']}: without it, {better}."),
        ("slower accelerators", slower, f"Slower accelerators cost {span(slower)}: on the best, {better}."),
        ("switching", parts["switching"], f"Switching cost {lost['switching']}: without it, {better}."),
    ]
    held = min(parts["holding"], parts["queueing"])
    told = f"It was held for {span(held)} while an idle accelerator would have ended its layer sooner"
    enough = [f"{told}: without that, {better}."] if held >= over else []
    enough += [text for _, saved, text in savings if saved >= over]
    if enough:
        return tuple(enough)
    total = sum(saved for _, saved, _ in savings)
    names = ", ".join(f"{name} {span(saved)}" for name, saved, _ in savings if saved > 0.0)
    if total >= over:
        return (f"No single cause explains the miss; together they do: {names}.",)
    return (f"Even without {names} it would have been late by {span(over - total)}.",)


def _by_holding(parts: Mapping[str, float], isolated: float) -> str:
    """Names holding as the cause where it is the largest part of the time lost (eunomia.metrics.causes)."""
    held = min(parts["holding"], parts["queueing"])
    others = (parts["queueing"] - held, parts["contention"], parts["service"] - isolated, parts["switching"])
    return f", by holding: {span(held)}" if held > max(0.0, *others) else ""


def _dropped(history: History, request: int, allowed: float, isolated: float) -> tuple[str, tuple[str, ...]]:
    row = history.row_of[request]
    finish = float(history.finish_s[row])
    spent, left = finish - float(history.arrival_s[row]), float(history.deadline_s[row]) - finish
    side = "before" if left >= 0 else "after"
    verdict = f"It was dropped after {span(spent)}, {span(abs(left))} {side} its deadline."
    if _shortest(history, request) > allowed:
        return verdict, (_impossible(_shortest(history, request), allowed),)
    remaining = _remaining(history, request)
    if remaining <= 0.0:
        return verdict, ()
    short = remaining - left
    text = f"At that moment it needed at least {span(remaining)} more, undisturbed"
    if short > 0.0:
        text += f"; {span(short)} less queueing until then would have kept its deadline possible"
    return verdict, (f"{text}.",)


def _shortest(history: History, request: int) -> float:
    """Critical path at true isolated times, each layer on its best type: no schedule is faster."""
    network = history.network(request)
    return float(network.longest(network.latency_s.min(axis=1)).max())


def _remaining(history: History, request: int) -> float:
    """Critical path over what waited when the request was dropped."""
    network, s = history.network(request), history.subjobs
    path = network.longest(network.best_s)
    waiting = [int(s.layer[row]) for row in history.rows_of(request) if not np.isfinite(s.start_s[row])]
    return float(max((path[layer] for layer in waiting), default=0.0))


def _impossible(shortest: float, allowed: float) -> str:
    return (
        "No schedule on this platform could have met it: alone, with every layer on its fastest "
        f"accelerator, it needs {span(shortest)}, and {span(allowed)} were allowed."
    )
