"""What a training gave: the policy beside the best heuristic on the same validation episodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eunomia.core.arrays import Floats
from eunomia.core.data import Data
from eunomia.learning.loop import Trained
from eunomia.report.table import Table
from eunomia.report.units import counted
from eunomia.study.result import Result, Row

if TYPE_CHECKING:
    from eunomia.report.charts import Axes


@dataclass(frozen=True, eq=False)
class Heuristic:
    """The best base heuristic on validation, with its value on each episode."""

    name: str
    values: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Outcome(Result):
    """A finished training beside the best heuristic on the same validation episodes. ``rows``: the curve."""

    name: str
    path: Path
    heuristic: Heuristic
    trained: tuple[Trained, ...]  # one per stage
    gain: float  # over the heuristic, mean paired difference on validation
    error: float  # its standard error over episodes
    kept_heuristic: bool | None  # None: an algorithm, whose policy is kept in any case

    @property
    def cpu_s(self) -> float:
        """Processor time of all stages."""
        return sum(trained.cpu_s for trained in self.trained)

    @property
    def title(self) -> str:
        """What was trained, and on how much it was judged."""
        return f"{self.name}, judged on {counted(len(self.heuristic.values), 'validation episode')}"

    def table(self, short: bool = False) -> Table:
        """The best heuristic and the trained policy, in points."""
        mean = float(self.heuristic.values.mean())
        gain = f"{100 * self.gain:+.2f} ({100 * self.error:.2f})"
        rows = (
            (self.heuristic.name, f"{100 * mean:.2f}", ""),
            (self.name, f"{100 * (mean + self.gain):.2f}", gain),
        )
        return Table(("policy", "validation", "gain (standard error)"), rows)

    def sentences(self) -> list[str]:
        """Whether anything was learned, and where the policy stands."""
        said = f"{self.cpu_s:.0f} s of processor time; policy -> {self.path}"
        return [f"{remark}." for remark in [self.remark] if remark] + [said]

    @property
    def remark(self) -> str:
        """What keeps the gain from being a finding; empty where nothing does."""
        if self.kept_heuristic:
            return (
                "nothing was learned beyond the error of the comparison: the policy is the heuristic itself"
            )
        if not self.gain > self.error:
            return f"it does not beat {self.heuristic.name} by more than the error of the comparison"
        return ""

    def rows(self) -> list[Row]:
        """One row per iteration: its stage, its number, and what the curve says of it."""
        return [
            {"stage": stage, **entry} for stage, trained in enumerate(self.trained) for entry in trained.curve
        ]

    def draw(self, axes: Axes, metric: str | None) -> None:
        """A line per stage: ``metric`` of the curve (default: validation) over iterations."""
        chosen = metric or "validation"
        for stage, trained in enumerate(self.trained):
            points = [(entry["iteration"], entry[chosen]) for entry in trained.curve if chosen in entry]
            axes.plot([x for x, _ in points], [y for _, y in points], marker=".", label=f"stage {stage}")
        axes.set_xlabel("iteration")
        axes.set_ylabel(chosen)

    def facts(self) -> Data:
        """As plain data."""
        heuristic = float(self.heuristic.values.mean())
        facts = {
            "policy": self.name,
            "heuristic": self.heuristic.name,
            "heuristic_value": heuristic,
            "gain": self.gain,
            "error": self.error,
            "cpu_s": round(self.cpu_s, 1),
        }
        if self.kept_heuristic is None:
            return {**facts, "start_gain": float(self.trained[0].start_values.mean()) - heuristic}
        return {**facts, "kept_heuristic": self.kept_heuristic}
