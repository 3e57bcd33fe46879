"""Decisions of a learned policy in words, from the terms that were recorded with them (docs/records.md).

A difference of two scores is a sum of terms: the chosen sub-job's value minus the other's, times the weight.
"0.8 for less time left": the chosen one has less time left, which is worth 0.8 points.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eunomia.core.data import Data
from eunomia.core.records import RunRecords
from eunomia.report.units import percent, span

LATE = "this one could no longer meet its deadline, and hopeless work goes last"
# (with less of it, with more of it), by feature of a waiting sub-job
WORDS: dict[str, tuple[str, str]] = {
    "time_left": ("less time left", "more time left"),
    "laxity": ("less time to spare", "more time to spare"),
    "work": ("less work left", "more work left"),
    "bytes": ("fewer bytes left", "more bytes left"),
    "age": ("a later arrival", "an earlier arrival"),
    "hopeless": ("a deadline within reach", "a deadline out of reach"),
    "laxity_ratio": ("less slack per work", "more slack per work"),
    "time_ratio": ("a tighter deadline now", "a looser deadline now"),
    "near": ("a nearer deadline", "a farther deadline"),
    "sjf_pressure": ("less work of shorter requests ahead", "more work of shorter requests ahead"),
    "edf_pressure": ("less work of earlier deadlines ahead", "more work of earlier deadlines ahead"),
    "sjf_bytes_pressure": ("fewer bytes of shorter requests ahead", "more bytes of shorter requests ahead"),
    "edf_bytes_pressure": (
        "fewer bytes of earlier deadlines ahead",
        "more bytes of earlier deadlines ahead",
    ),
    "done": ("a smaller part done", "a larger part done"),
    "tightness": ("a tighter deadline from the start", "a looser deadline from the start"),
    "intensity": ("fewer bytes per work", "more bytes per work"),
    "size": ("a smaller rest", "a larger rest"),
    "cost": ("less work and traffic left", "more work and traffic left"),
    "rested": ("a shorter rest", "a longer rest"),
    "started": ("not having begun", "having begun"),
    "gap": ("a smaller gap to the SLO", "a larger gap to the SLO"),
    "shortfall": ("a smaller shortfall", "a larger shortfall"),
    "below": ("an SLO that is met", "an SLO that is missed"),
    "lost": ("an SLO within reach", "an SLO far out of reach"),
    "target": ("a lower SLO target", "a higher SLO target"),
    "filled": ("fewer requests in the SLO's window", "more requests in the SLO's window"),
    "gap_deadline": ("a smaller gap times deadline", "a larger gap times deadline"),
    "weight": ("a tenant of less weight", "a tenant of more weight"),
    "owed": ("fewer hits owed", "more hits owed"),
    "spare": ("fewer hits to spare", "more hits to spare"),
    "sinks": ("an SLO that survives a miss", "an SLO that one miss breaks"),
    "thin": ("an SLO that survives three misses", "an SLO that three misses break"),
    "close": ("an SLO not about to be met", "an SLO about to be met"),
    "whole": ("a smaller network", "a larger network"),
    "needy_whole": ("a smaller network in need", "a larger network in need"),
    "needy_size": ("a smaller rest in need", "a larger rest in need"),
}
# What speaks for or against a start now, by feature of sub-job, accelerator and platform.
STARTS: dict[str, str] = {
    "slower": "how slow it is there",
    "later": "how late it would end there",
    "demand": "its own demand for bandwidth",
    "overflow": "demand beyond the bandwidth",
    "laxity_after": "its slack after the start",
    "would_miss": "missing its deadline there",
    "switch": "the switch of requests",
    "demand_share": "the running layers' demand",
    "idle": "idle accelerators",
    "waiting": "waiting requests",
    "backlog": "the backlog of work",
    "bytes_backlog": "the backlog of bytes",
    "hopeless_share": "the share of hopeless requests",
    "mean_laxity": "the mean time to spare",
    "crowded": "crowded deadlines",
    "laxity_ratio": "its slack per work",
    "time_ratio": "how tight its deadline is",
    "edf_pressure": "work of earlier deadlines",
    "sjf_pressure": "work of shorter requests",
    "edf_bytes_pressure": "bytes of earlier deadlines",
    "intensity": "its bytes per work",
    "size": "the size of its rest",
    "shortfall": "its pair's shortfall",
    "owed": "hits that its pair is owed",
    "spare": "hits that its pair can spare",
    "sinks": "an SLO that one miss breaks",
    "own_loss": "speed that it would lose",
    "others_loss": "speed that it takes from others",
    "standing_loss": "speed already lost to sharing",
    "even": "even sharing",
    "cut": "sharing that cuts small demands",
}
BY = {
    "score": "its score",
    "base": "its base, as nothing is learned",
    "alarm": "its base, as the alarm was on",
    "invalid": "its base, as a score was not a number",
}


NOTES = {"score": "", "base": "", "alarm": " [alarm: by its base]", "invalid": " [invalid: by its base]"}


@dataclass(frozen=True)
class Reason:
    """One recorded decision of a policy that scores features: a row of table ``decisions``."""

    row: Data

    @property
    def decided_by(self) -> str:
        """Score, base, alarm or invalid."""
        return str(self.row["decided_by"])

    def rival(self, request: int) -> Data | None:
        """The entry of a request that went without; None = it is not among those recorded."""
        found = [entry for entry in self.row["rivals"] or [] if entry["request"] == request]
        return found[0] if found else None


class Reasons:
    """The reasons of a run's decisions, by their place in table ``decisions``, in order; there may be none."""

    def __init__(self, decisions: pa.Table) -> None:  # noqa: D107
        self._table = decisions if "terms" in decisions.column_names else decisions.slice(0, 0)
        self._known = bool(len(self._table)) and self._table["terms"].null_count < len(self._table)
        if self._known:
            rivals = self._table["rivals"].combine_chunks()
            self._rival_at = pc.list_parent_indices(rivals).to_numpy()
            self._rival = pc.struct_field(pc.list_flatten(rivals), "request").to_numpy()
            self._held = pc.struct_field(self._table["held"], "request").fill_null(-1).to_numpy()

    def __bool__(self) -> bool:
        return self._known

    def at(self, place: int) -> Reason:
        """The reason of a decision."""
        return Reason(self._table.slice(place, 1).to_pylist()[0])

    def telling_of(self, request: int, places: Sequence[int]) -> list[int]:
        """Of these decisions, those at which a request was among the first that went without."""
        return [int(p) for p in np.intersect1d(places, self._rival_at[self._rival == request])]

    def holding(self, request: int, places: Sequence[int]) -> list[int]:
        """Of these decisions, those before which a request was held."""
        return [int(p) for p in np.intersect1d(places, np.flatnonzero(self._held == request))]

    def who_decided(self, places: Sequence[int]) -> str:
        """By what these decisions were taken, most frequent first."""
        counts = Counter(self._table["decided_by"].take(pa.array(places, pa.int64())).to_pylist())
        if len(counts) <= 1:
            return f"All of them were decided by {BY[name]}." if (name := next(iter(counts), None)) else ""
        parts = [
            f"{percent(count / len(places))} by {BY[name]}" for name, count in counts.most_common() if name
        ]
        return f"They were decided: {'; '.join(parts)}."


def rehearsed(run: RunRecords) -> str:
    """What a rehearsal chose before the run, and by how much; empty where there was none."""
    policy = run.manifest.get("policy")
    facts = policy.get("rehearsed") if isinstance(policy, Mapping) else None
    if not isinstance(facts, Mapping) or not facts.get("scores"):
        return ""
    scores = {name: float(score) for name, score in facts["scores"].items()}
    chosen = str(facts["chosen"])
    others = [name for name in sorted(scores, key=lambda n: -scores[n]) if name != chosen]
    aim = str(facts.get("aim", ""))
    told = {name: f"{score:.3f}" if aim else f"{100 * score:.1f} %" for name, score in scores.items()}
    behind = f", before {_short(others[0])} with {told[others[0]]}" if others else ""
    worth = f" with {told[chosen]}" if chosen in scores else ""
    what = f"; worth is {aim}" if aim else ""
    return f"A rehearsal on drawn traffic chose {chosen} for this place{worth}{behind}{what}."


def _short(policy: str) -> str:
    """A policy without its settings."""
    return re.sub(r"\(.*\)", "", policy)


def because(reason: Reason, request: int, accelerators: Sequence[str], free_in_s: Sequence[float]) -> str:
    """Why a decision fell on its sub-job and not on ``request``."""
    return _because(reason, request, accelerators, free_in_s) + NOTES[reason.decided_by]


def _because(reason: Reason, request: int, accelerators: Sequence[str], free_in_s: Sequence[float]) -> str:
    mine, score = reason.rival(request), float(reason.row["score"])
    if mine is None:
        first = next(iter(reason.row["rivals"]), None)
        if first is None or first["late"]:
            return "no other request competed that could meet its deadline"
        return f"{_lead(first, score, 'req-' + str(first['request']))}; this one came after that"
    if mine["fate"] == "kept" and mine["wanted"] is not None:
        s = int(mine["wanted"])
        return f"this one is kept for {accelerators[s]}, busy for about {span(float(free_in_s[s]))} more"
    if mine["fate"] == "held":
        return "this one was to go first, but it was held"
    return LATE if mine["late"] else _lead(mine, score, "this one")


def _lead(rival: Data, score: float, whom: str) -> str:
    """By how much the chosen one was ahead, and the terms that made the difference."""
    lead = score - float(rival["score"])
    if lead == 0.0:
        return f"as urgent as {whom}, and it had become ready earlier"
    told = ", ".join(_difference(term) for term in rival["terms"])
    if lead < 0.0:
        return f"its score was {-lead:.3g} lower than that of {whom}, but it had starved"
    return f"{lead:.3g} ahead of {whom}{f': {told}' if told else ''}"


def _difference(term: Data) -> str:
    weight, value = float(term["weight"]), float(term["value"])
    less, more = WORDS.get(term["feature"], (f"less {term['feature']}", f"more {term['feature']}"))
    return f"{weight * value:.2g} for {less if value < 0.0 else more}"


def why_held(reason: Reason) -> str:
    """Why the sub-job was held that a decision notes."""
    row = reason.row["held"]
    terms = [(float(t["weight"]) * float(t["value"]), t["feature"]) for t in row["terms"]]
    against = [f"{points:+.2g} for {STARTS.get(name, name)}" for points, name in terms if points < 0.0]
    more = f" ({', '.join(against)})" if against else ""
    used = percent(float(row["bandwidth_used"]))
    return f"running layers asked for {used} of the bandwidth, its start margin was {float(row['margin']):.2g}{more}"
