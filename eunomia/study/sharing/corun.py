"""Slowdowns of co-runs on this machine with intervals, until they are narrow enough or the budget is spent."""

from __future__ import annotations

import csv
import io
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eunomia.core.atomic import write_text
from eunomia.metrics.statistics import Estimate, bootstrap
from eunomia.report.charts import bars
from eunomia.report.table import Table
from eunomia.sharing.corun.crew import Crew
from eunomia.sharing.corun.design import FEWEST, Case, Design, cases_of, log_ratios, wanting
from eunomia.sharing.corun.store import Store
from eunomia.sharing.shares.program import must_be_supported
from eunomia.study.result import Result, Row

if TYPE_CHECKING:
    from eunomia.report.charts import Axes
    from eunomia.sharing.corun.design import Block

RESAMPLES = 1000
UNKNOWN = 1e6  # a width that any measured one is below
OnRound = Callable[[Case, int, int], None]


@dataclass(frozen=True)
class Slowdown:
    """One case. ``wall``, ``cpu``: time per iteration beside over alone, by the clock and by the processor's."""

    case: Case
    wall: Estimate
    cpu: Estimate
    pairs: int
    disturbed: int

    @property
    def width(self) -> float:
        """Of the interval by the clock, relative; a large number with too few pairs."""
        return UNKNOWN if self.pairs < FEWEST else (self.wall.high - self.wall.low) / self.wall.mean


@dataclass(frozen=True, repr=False)
class CoRuns(Result):
    """All cases that were measured."""

    design: Design
    found: tuple[Slowdown, ...]
    spent_s: float

    @property
    def title(self) -> str:
        """How much there is."""
        return f"co-runs measured on this machine: {len(self.found)} cases in {self.spent_s:.0f} s"

    def table(self, short: bool = False) -> Table:
        """A line per case."""
        head = ("target", "beside", "place", "slowdown", "by processor time", "pairs", "disturbed")
        rows = []
        for one in self.found:
            beside = " + ".join(Path(name).stem for name in one.case.neighbours)
            numbers = (_text(one.wall), _text(one.cpu), f"{one.pairs}", f"{one.disturbed}")
            rows.append((Path(one.case.target).stem, beside, one.case.place, *numbers))
        return Table(head, tuple(rows), left=3)

    def footnotes(self) -> list[str]:
        """How to read it."""
        return [
            "time per iteration beside over alone, geometric mean of pairs of neighbouring blocks, 95 % bootstrap "
            f"interval; disturbed: pairs of which other programs took more than {self.design.lost:.0%}"
        ]

    def sentences(self) -> list[str]:
        """What is not narrow enough."""
        wide = [one for one in self.found if one.width > self.design.width]
        noisy = [one for one in self.found if one.disturbed and one.pairs <= one.disturbed]
        said = [
            f"{len(wide)} of {len(self.found)} intervals are wider than {self.design.width:.0%}: the budget was spent"
        ]
        said = said if wide else []
        if noisy:
            said.append(f"{len(noisy)} cases have hardly a calm pair: other programs disturbed them")
        return said

    def rows(self) -> list[Row]:
        """One per case, as :func:`eunomia.sharing.interference.table.read_co_runs` reads them."""
        return [
            {
                "target": Path(one.case.target).stem,
                "neighbours": "+".join(Path(n).stem for n in one.case.neighbours),
                "kind": one.case.place,
                "slowdown": one.wall.mean,
                "low": one.wall.low,
                "high": one.wall.high,
                "cpu_slowdown": one.cpu.mean,
                "pairs": one.pairs,
                "disturbed": one.disturbed,
            }
            for one in self.found
        ]

    def draw(self, axes: Axes, metric: str | None) -> None:
        """A bar per case."""
        bars(axes, {one.case.key: one.wall for one in self.found}, "slowdown")


def run_corun(design: Design, out: Path | None = None, on_round: OnRound | None = None) -> CoRuns:
    """Measure each case that is not narrow in turn; goes on with what ``out`` holds.

    The table lies in ``out`` as ``corun.csv``, also after Ctrl-C.
    """
    must_be_supported()
    cores = sorted(os.sched_getaffinity(0))
    design.check_cores(len(cores))
    cases, store = cases_of(design), Store(out, design)
    store.read()
    began_s = time.monotonic()
    known = {case: _slowdown(case, store.blocks, design) for case in cases}
    interrupted = False
    with Crew(cores) as crew:
        try:
            crew.start(design.clients)
            began_s = time.monotonic()
            while time.monotonic() - began_s < design.budget_s:
                states = [
                    (c, one.width if one else math.inf, len(store.blocks.get(c.key, ())))
                    for c, one in known.items()
                ]
                case = wanting(states, design.width)
                if case is None:
                    break
                store.add(case, crew.blocks(case, design.block_s))
                known[case] = _slowdown(case, store.blocks, design)
                if on_round is not None:
                    narrow = sum(one is not None and one.width <= design.width for one in known.values())
                    on_round(case, narrow, len(cases))
        except KeyboardInterrupt:
            interrupted = True
    found = CoRuns(design, tuple(one for one in known.values() if one), time.monotonic() - began_s)
    if out is not None and found.found:
        write_text(out / "corun.csv", _csv(found.rows()))
    if interrupted:
        raise KeyboardInterrupt
    return found


def _slowdown(case: Case, blocks: Mapping[str, list[Block]], design: Design) -> Slowdown | None:
    kept = blocks.get(case.key, [])
    wall, disturbed = log_ratios(kept, design.lost)
    if not wall:
        return None
    cpu, _ = log_ratios(kept, design.lost, by_cpu=True)
    return Slowdown(case, _geometric(wall), _geometric(cpu), len(wall), disturbed)


def _geometric(logs: list[float]) -> Estimate:
    found = bootstrap(logs, np.random.default_rng(0), resamples=RESAMPLES)
    return Estimate(math.exp(found.mean), math.exp(found.low), math.exp(found.high), found.n)


def _text(found: Estimate) -> str:
    return (
        f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]" if found.has_interval else f"{found.mean:.3f}"
    )


def _csv(rows: list[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
