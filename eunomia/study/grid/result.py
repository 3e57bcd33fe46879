"""What a study gave, as a table, sentences, rows and a chart; the whole of it is in its report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eunomia.config.study import Study
from eunomia.core.data import Data
from eunomia.metrics.statistics import Estimate
from eunomia.metrics.table import METRICS
from eunomia.report.charts import lines
from eunomia.report.study.table import StudyTable
from eunomia.report.study.words import points, verdict
from eunomia.report.table import Table
from eunomia.report.units import counted, estimate_text
from eunomia.study.result import Result, Row

if TYPE_CHECKING:
    from eunomia.report.charts import Axes

SHOWN = ("hit_rate", "worst_tenant", "jain_hit_rate")


@dataclass(frozen=True, repr=False)
class StudyResult(Result):
    """What a study gave. ``timings``: policy -> time to decide, which no rerun repeats exactly."""

    study: Study
    found: StudyTable
    timings: dict[str, Data]
    failures: dict[str, str]
    directory: Path | None = None

    @property
    def title(self) -> str:
        """Name of the study, and how many places its main grid has."""
        return f"{self.found.name}: {counted(len(self.found.places()), 'place')} of the main grid"

    def table(self, short: bool = False) -> Table:
        """One row per policy over the main grid, best first."""
        found, places = self.found, self.found.places()
        champion = found.champion if found.champion in found.present(places) else None
        bracketed = found.bracketed(places)
        head = ["policy", *(METRICS[name].heading for name in SHOWN)]
        head += [f"points over {champion}"] if champion else []
        head += ["of the best found"] if bracketed else []
        rows = []
        for name in found.ranked(places):
            row = [name, *(estimate_text(METRICS[m], found.estimate(places, name, m), short) for m in SHOWN)]
            if champion:
                row.append(points(found.gain(places, name, champion)) if name != champion else "")
            if bracketed:
                row.append(estimate_text(METRICS["hit_rate"], found.of_found(places, name), short))
            rows.append(tuple(row))
        return Table(tuple(head), tuple(rows))

    def sentences(self) -> list[str]:
        """Who won, over whom, and by how much."""
        return verdict(self.found)

    def rows(self) -> list[Row]:
        """One row per place, policy and replication."""
        return [
            {
                "grid": row.where.grid,
                "workload": row.where.workload,
                "qos": row.where.qos,
                "load": row.where.load,
                "bandwidth_gb_s": row.where.bandwidth_gb_s,
                "variation": row.where.variation,
                "policy": row.policy,
                "ran": row.ran,
                "replication": number,
                **{name: values[number] for name, values in row.metrics.items()},
            }
            for row in self.found.rows
            for number in range(len(row.metrics["hit_rate"]))
        ]

    def draw(self, axes: Axes, metric: str | None) -> None:
        """A line per policy over the loads of the main grid, averaged over its other dimensions."""
        found, name = self.found, metric or "hit_rate"
        places = found.places()
        loads = sorted({place.load for place in places})
        series: dict[str, list[Estimate]] = {
            policy: [found.estimate([p for p in places if p.load == load], policy, name) for load in loads]
            for policy in found.ranked(places)
        }
        lines(axes, loads, series, ("load", METRICS[name].label))
