"""The answer to a plan as text, rows, a chart and plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from eunomia.config.plan import PlanConfig
from eunomia.core.data import Data
from eunomia.metrics.metric import Metric
from eunomia.metrics.statistics import Estimate, interval
from eunomia.report.table import Table
from eunomia.report.units import estimate_text
from eunomia.study.plan.answer import Answer
from eunomia.study.plan.stress import Limit
from eunomia.study.plan.trial import Tally
from eunomia.study.plan.words import said, verdict_of
from eunomia.study.result import Result, Row

if TYPE_CHECKING:
    from eunomia.report.charts import Axes

SHARE = Metric("hit rate", "hit rate", "share", "higher")
ROWS = 50_000  # platforms that a table of all of them lists


@dataclass(frozen=True, repr=False, eq=False)
class PlanResult(Result):
    """What a plan found."""

    answer: Answer

    @property
    def config(self) -> PlanConfig:
        """The question."""
        return self.answer.config

    @property
    def row(self) -> int | None:
        """The platform's place in the catalogue; None = no platform keeps the promises."""
        return self.answer.row

    @property
    def title(self) -> str:
        """The question and the platform."""
        found = "no platform" if self.row is None else self.answer.platforms.label(self.row)
        return f"{self.config.name}: {found}"

    def table(self, short: bool = False) -> Table:
        """One row per promise: what was promised, what fresh seeds gave, as costed and with costs in error."""
        header, proof = (
            ("promise", "promised", "fresh seeds", "costs in error", "at least"),
            self.answer.proof,
        )
        rows: list[tuple[str, ...]] = []
        if proof is None:
            return Table(header, ())
        for pair in self.answer.promised:
            fresh = estimate_text(SHARE, rate(proof.fresh, pair), short)
            error = "-" if proof.wrong is None else estimate_text(SHARE, rate(proof.wrong, pair), short)
            promised = f"{100.0 * self.answer.targets[pair]:g} %"
            least = f"{100.0 * proof.sure(pair, self.config.search.confidence):.1f} %"
            rows.append((self.answer.names[pair], promised, fresh, error, least))
        return Table(header, tuple(rows))

    def footnotes(self) -> list[str]:
        """How to read the table, and what its costs rest on."""
        settings, notes = self.config.search, self.answer.search.on.notes
        if self.row is None:
            return notes
        error = (
            f"; costs in error: each layer by up to {100.0 * settings.cost_error:g} %"
            if settings.cost_error
            else ""
        )
        return [
            f"means over {settings.fresh} fresh seeds with 95 % intervals{error}; at least: one-sided bound of "
            f"{100.0 * settings.confidence:g} % confidence for each promise by itself, too high where several "
            "platforms were tried on these seeds; where no request missed, the hit rate below which so many hits in "
            "a row would surprise; requests that seeds repeat count once",
            *self._replayed(),
            *notes,
        ]

    def _replayed(self) -> list[str]:
        """Tenants whose requests no seed varies."""
        alike = self.answer.search.on.replayed
        if not alike:
            return []
        return [
            f"every fresh seed has the same requests of {', '.join(alike)}: the bounds leave their variation out; a "
            "longer recording, or jitter_s of periodic arrivals, brings it in"
        ]

    def sentences(self) -> list[str]:
        """The answer in words."""
        return list(said(self.answer))

    def rows(self) -> list[Row]:
        """One row per platform, the least first: what it has, what it costs, what became of it."""
        platforms, found = self.answer.platforms, self.answer.found
        rows: list[Row] = []
        for row in np.argsort(self.answer.score, kind="stable")[:ROWS].tolist():
            verdict, why = verdict_of(self.answer, row)
            one = found.tallies.get(row)
            counts = {name: int(n) for name, n in zip(platforms.names, platforms.counts[row], strict=True)}
            memory = (
                {"memory_gb_s": platforms.memory_gb_s[platforms.memory[row]]} if platforms.memory_gb_s else {}
            )
            money = {key: float(getattr(platforms, key)[row]) for key in ("cost", "power_w", "area_mm2")}
            tried: Row = {"policy": one.policy if one else None, "margin": None, "energy_per_request_j": None}
            if one is not None:
                tried.update(
                    margin=one.margin(self.answer.targets), energy_per_request_j=self.answer.energy_j(row)
                )
            rows.append({**counts, **memory, **money, "verdict": verdict, "why": why, **tried})
        return rows

    def draw(self, axes: Axes, metric: str | None) -> None:
        """Cost against the worst promise of every platform that was tried."""
        tallies = self.answer.found.tallies
        rows = list(tallies)
        axes.scatter(
            self.answer.platforms.cost[rows], [100.0 * tallies[r].margin(self.answer.targets) for r in rows]
        )
        axes.set_xlabel(f"cost, {self.config.currency}")
        axes.set_ylabel("worst promise minus target, points")

    def data(self) -> Data:
        """All of it as plain data."""
        answer, label = self.answer, self.answer.platforms.label
        return {
            "plan": self.config.name,
            "target": self.config.target,
            "platform": _platform(answer, self.row),
            "policy": answer.proof.fresh.policy if answer.proof else None,
            "promises": _promises(answer),
            "said": self.sentences(),
            "rivals": [
                {"name": r.name, "platform": _platform(answer, r.row), "tried": r.steps}
                for r in answer.rivals
            ],
            "head_room": {"traffic": _limit(answer, answer.traffic), "costs": _limit(answer, answer.costs)},
            "front": [{"traffic": c.more, "platform": _platform(answer, c.row)} for c in answer.front],
            "neighbours": [
                {**asdict(n), "row": label(n.row), "pair": answer.names[n.pair]} for n in answer.near
            ],
            "work": answer.work,
            **(
                {}
                if answer.nobody is None
                else {"carried": answer.search.factor, "nobody_carries": answer.nobody}
            ),
        }


def _platform(answer: Answer, row: int | None) -> Data | None:
    if row is None:
        return None
    platforms = answer.platforms
    return {
        "label": platforms.label(row),
        "counts": {name: int(n) for name, n in zip(platforms.names, platforms.counts[row], strict=True) if n},
        "memory_gb_s": platforms.memory_gb_s[platforms.memory[row]] if platforms.memory_gb_s else None,
        "cost": float(platforms.cost[row]),
        "power_w": float(platforms.power_w[row]),
        "area_mm2": float(platforms.area_mm2[row]),
    }


def _promises(answer: Answer) -> list[Data]:
    proof = answer.proof
    if proof is None:
        return []
    return [
        {
            "pair": answer.names[pair],
            "promised": float(answer.targets[pair]),
            "fresh": asdict(rate(proof.fresh, pair)),
            "costs_in_error": None if proof.wrong is None else asdict(rate(proof.wrong, pair)),
            "at_least": proof.sure(pair, answer.config.search.confidence),
        }
        for pair in answer.promised
    ]


def _limit(answer: Answer, limit: Limit | None) -> Data | None:
    if limit is None:
        return None
    broken = limit.broken if np.isfinite(limit.broken) else None
    first = answer.names[limit.pair] if broken else None
    return {"kept": limit.kept, "broken": broken, "first": first, "relieved_by": list(limit.relieved)}


def rate(found: Tally, pair: int) -> Estimate:
    """Hit rate of a pair: mean over seeds with its interval."""
    asked = found.asked[:, pair]
    return interval(np.where(asked > 0, found.hits[:, pair] / np.maximum(asked, 1), np.nan))
