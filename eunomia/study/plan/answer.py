"""What a plan found, as values; words, tables and the report are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eunomia.config.plan import PlanConfig
from eunomia.core.arrays import Floats
from eunomia.core.data import Data
from eunomia.study.plan.catalogue import Catalogue
from eunomia.study.plan.rivals import Rival
from eunomia.study.plan.search import Found, Proof, Search
from eunomia.study.plan.stress import Carrier, Limit, Neighbour
from eunomia.study.plan.targets import UNITS, energy_per_request_j


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """``row`` is None where no platform keeps the promises."""

    search: Search
    row: int | None
    proof: Proof | None
    score: Floats  # (platforms,) what was made least, or its lower bound
    rivals: tuple[Rival, ...] = ()
    near: tuple[Neighbour, ...] = ()
    front: tuple[Carrier, ...] = ()
    traffic: Limit | None = None
    costs: Limit | None = None
    nobody: float | None = None  # target headroom: times the traffic that no platform carries
    work: Data  # how many platforms were refuted, tried, ...

    @property
    def config(self) -> PlanConfig:
        """The question."""
        return self.search.on.plan

    @property
    def platforms(self) -> Catalogue:
        """Everything that could be built."""
        return self.search.platforms

    @property
    def found(self) -> Found:
        """What became of those that were tried."""
        return self.search.found

    @property
    def targets(self) -> Floats:
        """(pairs,) promised hit rate; nan = none."""
        return self.search.targets

    @property
    def promised(self) -> list[int]:
        """The pairs with a promise."""
        return [int(pair) for pair in np.flatnonzero(~np.isnan(self.targets))]

    @cached_property
    def names(self) -> list[str]:
        """The pairs, as people call them."""
        return [f"{a.tenant}/{a.model}" for a in self.search.on.agreements]

    def money(self, amount: float) -> str:
        """``212 USD``."""
        return f"{amount:,.6g} {self.config.currency}"

    def worth(self, value: float) -> str:
        """A value of the target with its unit."""
        return (
            self.money(value)
            if self.config.target in ("cost", "headroom")
            else f"{value:,.6g} {UNITS[self.config.target]}"
        )

    def energy_j(self, row: int) -> float:
        """Per request, of a platform that was tried."""
        return energy_per_request_j(self.search, row, self.found.tallies[row])

    def price(self, row: int) -> str:
        """The money, or the score where nothing costs anything."""
        cost = self.platforms.cost
        return (
            self.money(float(cost[row]))
            if cost.any()
            else f"{self.score[row]:.4g} {UNITS[self.config.target]}"
        )

    def facts(self, row: int) -> str:
        """Energy where it is the target, price, power, area."""
        parts = [f"{self.energy_j(row):.4g} J per request"] if self.config.target == "energy" else []
        parts += [self.money(float(self.platforms.cost[row]))] if self.platforms.cost.any() else []
        parts += [f"{self.platforms.power_w[row]:g} W"] if self.platforms.power_w.any() else []
        parts += [f"{self.platforms.area_mm2[row]:g} mm2"] if self.platforms.area_mm2.any() else []
        return ", ".join(parts) or self.price(row)


def work_of(search: Search, row: int | None) -> Data:
    """How many platforms came to which end."""
    found, total = search.found, len(search.platforms)
    refuted = int((search.screen.by >= 0).sum())
    beaten = sum(1 for r in found.tallies if r not in found.kept and search.screen.by[r] < 0)
    failed = len(found.failed)
    return {
        "platforms": total,
        "refuted": refuted,
        "beaten": beaten,
        "failed": failed,
        "behind": total - refuted - beaten - failed - (row is not None),
        "trials": search.trials.simulated,
        "reused": search.trials.reused,
        "runs": search.trials.runs,
    }
