"""What a plan's answer says in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eunomia.report.units import counted
from eunomia.study.plan.answer import Answer
from eunomia.study.plan.headroom import STEPS
from eunomia.study.plan.search import Proof
from eunomia.study.plan.stress import Limit

MORE = "raise duration_s or fresh"


def said(answer: Answer) -> Iterator[str]:
    """The answer, what others would have paid, what it stands, where it is tight, what became of the rest."""
    if answer.row is None or answer.proof is None:
        yield _nothing(answer)
    else:
        label = answer.platforms.label(answer.row)
        policy = answer.proof.fresh.policy
        yield f"{label} keeps every promise under {policy}{_carried(answer)}: {answer.facts(answer.row)}"
        yield from _few(answer, answer.proof)
        yield from _against(answer, answer.row)
        yield from _limit(answer, answer.traffic, "more traffic")
        yield from _limit(answer, answer.costs, "longer run times on every device")
        if answer.nobody is None:
            yield from _front(answer)
        yield _busy(answer, answer.row, answer.proof)
    yield from answer.search.on.left_out
    yield _counts(answer)


def _few(answer: Answer, proof: Proof) -> Iterator[str]:
    """Promises without a miss, on too few requests to show what was promised."""
    for pair in answer.promised:
        sure, target = proof.sure(pair, answer.config.search.confidence), answer.targets[pair]
        if proof.hit(pair) and sure < target:
            more = "raise duration_s" if answer.search.on.repeated[pair] else MORE
            if answer.search.on.used_up(pair, int(proof.distinct[pair])):
                more = "record longer, for these are all that the trace has"
            yield (
                f"{answer.names[pair]} kept it on all {counted(int(proof.distinct[pair]), 'request')} of the fresh "
                f"seeds; that many show {100.0 * sure:.1f} %, {100.0 * target:g} % are promised: {more}"
            )


def _carried(answer: Answer) -> str:
    """The most traffic, where that is the target."""
    if answer.nobody is None:
        return ""
    most = f"; nobody could at {answer.nobody:.3g} times" if np.isfinite(answer.nobody) else ""
    if answer.front and answer.front[-1].more >= STEPS[-1]:
        most = ", the most that is tried"
    return f" at {answer.search.factor:.3g} times the stated traffic{most}"


def verdict_of(answer: Answer, row: int) -> tuple[str, str]:
    """What became of a platform, in a word, and why."""
    found, number = answer.found, int(answer.search.screen.by[row])
    if row == answer.row:
        return "answer", ""
    if number >= 0:
        return "refuted", answer.search.screen.why[number].sentence
    if row in found.failed:
        return "failed", _failed(answer, found.failed[row])
    if row in found.kept:
        return "behind", "keeps its promises; the target is no better"
    if row in found.tallies:
        return "beaten", _missed(answer, row)
    return "behind", "not tried: the target is no better even if it kept its promises"


def _nothing(answer: Answer) -> str:
    found, targets = answer.found, answer.targets
    if not found.tallies:
        largest = len(answer.platforms) - 1
        why, label = verdict_of(answer, largest)[1], answer.platforms.label(largest)
        return f"no platform within the bounds can keep the promises, not even {label}: {why}"
    row = max(found.tallies, key=lambda r: found.tallies[r].margin(targets))
    why = _failed(answer, found.failed[row]) if row in found.failed else _missed(answer, row)
    label = answer.platforms.label(row)
    remedy = "widen [bounds], or add faster types or memory"
    if row in found.failed and found.failed[row].short_of_requests(targets):
        remedy = f"its mean keeps them, and the bound is low as requests and seeds are few: {MORE}"
    return f"no platform within the bounds keeps the promises; nearest is {label}: {why}; {remedy}"


def _counts(answer: Answer) -> str:
    work = answer.work
    what = "platform" if work["platforms"] == 1 else "platforms"
    return (
        f"{work['platforms']:,} {what} within the bounds: {work['refuted']:,} refuted (nobody could), "
        f"{work['beaten']:,} missed a promise in the simulator, {work['failed']:,} failed on fresh seeds, "
        f"{work['behind']:,} lie behind the answer"
    )


def _against(answer: Answer, row: int) -> Iterator[str]:
    own = float(answer.score[row])
    none = [rival.name for rival in answer.rivals if rival.row is None]
    for rival in answer.rivals:
        if rival.row is None:
            continue
        worth = float(answer.score[rival.row])
        more = "the same" if worth == own else f"{100.0 * (worth / own - 1.0):+.1f} %" if own else "more"
        yield f"{rival.name}: {answer.platforms.label(rival.row)}, {answer.worth(worth)} ({more})"

    if none:
        yield f"{'; '.join(none)}: none within the bounds keeps the promises"


def _limit(answer: Answer, limit: Limit | None, what: str) -> Iterator[str]:
    if limit is None:
        return
    if not np.isfinite(limit.broken):
        yield f"{100.0 * (limit.kept - 1.0):.0f} % {what} breaks nothing"
        return
    who, rate = answer.names[limit.pair], 100.0 * limit.rate
    text = f"{100.0 * (limit.broken - 1.0):.0f} % {what} breaks {who} ({rate:.1f} % hit)"
    yield f"{text}; relieved by {', '.join(limit.relieved)}" if limit.relieved else text


def _front(answer: Answer) -> Iterator[str]:
    for carrier in answer.front[1:]:
        more = f"{carrier.more:g} times the traffic"
        if carrier.row is None:
            yield f"{more}: no platform within the bounds keeps the promises"
            continue
        yield f"{more}: {answer.platforms.label(carrier.row)}, {answer.worth(float(answer.score[carrier.row]))}"


def _busy(answer: Answer, row: int, proof: Proof) -> str:
    platforms = answer.platforms
    present = np.flatnonzero(platforms.counts[row])
    busy = ", ".join(f"{platforms.names[t]} {100.0 * proof.fresh.busy[t]:.0f} %" for t in present)
    return f"busy: {busy}; memory is the limit {100.0 * proof.fresh.saturated:.0f} % of the time"


def _missed(answer: Answer, row: int) -> str:
    one, targets = answer.found.tallies[row], answer.targets
    pair = one.worst(targets)
    reached = f"{answer.names[pair]} hits {100.0 * one.rates()[pair]:.1f} %"
    return f"{reached} where {100.0 * targets[pair]:g} % are promised, under {one.policy}, the best policy"


def _failed(answer: Answer, proof: Proof) -> str:
    targets, lower = answer.targets, proof.least
    pair = int(np.nanargmin(lower - targets))
    sure = f"{answer.names[pair]} is only sure of {100.0 * lower[pair]:.1f} %"
    return f"{sure} on fresh seeds, {100.0 * targets[pair]:g} % are promised"
