"""What every result offers: a short table, rows for pandas, a chart, and a repr of a few lines."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from eunomia.core.data import Data
from eunomia.core.errors import ConfigError
from eunomia.core.records import RunRecords, write_run
from eunomia.metrics.metric import Metric
from eunomia.report.charts import new_axes
from eunomia.report.table import Table
from eunomia.report.units import value_text

if TYPE_CHECKING:
    from pandas import DataFrame

    from eunomia.report.charts import Axes

Cell = str | float | int | bool | None
Row = dict[str, Cell]


class Comparing(Protocol):
    """The section [compare] of a configuration."""

    @property
    def policies(self) -> Sequence[str]:
        """What to compare."""

    @property
    def seeds(self) -> int:
        """How many runs of each policy."""


class Configuration(Protocol):
    """What configurations of all wings have."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def policy(self) -> str | None:
        """What a single run uses; None = the first of ``compare``."""

    @property
    def seed(self) -> int:
        """The first seed."""

    @property
    def compare(self) -> Comparing:
        """What a comparison runs unless told otherwise."""


ConfigT = TypeVar("ConfigT", bound=Configuration)
REPR_LINES = 8


class Result(ABC):
    """A result as text, as rows and as a chart. Subclasses say what stands in each."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What was run, in one line."""

    @abstractmethod
    def table(self, short: bool = False) -> Table:
        """The figures that matter, a line per policy, tenant or figure; ``short``: without intervals."""

    def footnotes(self) -> list[str]:
        """How to read the table, and what could be taken for a finding and is none."""
        return []

    def sentences(self) -> list[str]:
        """What the table says, in words."""
        return []

    @abstractmethod
    def rows(self) -> list[Row]:
        """All figures as tidy rows: one per run, or per line of the table where there is one run."""

    @abstractmethod
    def draw(self, axes: Axes, metric: str | None) -> None:
        """Draw the chart of this kind of result; ``metric`` chooses what, where there is a choice."""

    def summary(self) -> str:
        """Title, table and sentences as plain text, columns aligned."""
        said = "".join(f"{line}\n" for line in (*self.footnotes(), *self.sentences()))
        return f"{self.title}\n{self.table().text()}{said}"

    def to_pandas(self) -> DataFrame:
        """``rows`` as a DataFrame. Raises ConfigError where pandas is not installed."""
        try:
            from pandas import DataFrame
        except ImportError:
            raise ConfigError(
                "to_pandas() needs pandas, which is not installed: pip install 'eunomia[pandas]'; "
                "rows() gives the same without it"
            ) from None
        return DataFrame(self.rows())

    def plot(self, axes: Axes | None = None, metric: str | None = None) -> Axes:
        """Draw into ``axes``, or into a new figure, and return the axes. Raises ConfigError without matplotlib."""
        chosen = new_axes() if axes is None else axes
        self.draw(chosen, metric)
        chosen.set_title(self.title)
        return chosen

    def __repr__(self) -> str:
        lines = f"{type(self).__name__}: {self.title}\n{self.table(short=True).text()}".splitlines()
        left = len(lines) - REPR_LINES
        more = [f"... {left} more lines: print(result.summary())"] if left > 0 else []
        return "\n".join([*lines[:REPR_LINES], *more])


@dataclass(frozen=True, repr=False, kw_only=True)
class RunResult(Result, Generic[ConfigT]):
    """What one run gave: ``records`` (tables and manifest) and ``metrics`` by name."""

    config: ConfigT
    policy: str
    seed: int
    records: RunRecords
    metrics: dict[str, float]  # nan where the run has no such number
    known: ClassVar[Mapping[str, Metric]]  # all metrics of the wing

    @property
    def title(self) -> str:
        """Configuration, policy and seed."""
        return f"{self.config.name}: policy {self.policy}, seed {self.seed}"

    def rows(self) -> list[Row]:
        """One row per metric."""
        run: Row = {"policy": self.policy, "seed": self.seed}
        return [
            {**run, "metric": name, "value": value, "unit": self.known[name].unit}
            for name, value in self.metrics.items()
        ]

    def lines(self, names: Iterable[str]) -> list[tuple[str, str]]:
        """Label and value of these metrics, as far as the run has them."""
        found = {name: self.metrics[name] for name in names if not math.isnan(self.metrics[name])}
        return [
            (self.known[name].label, value_text(self.known[name], value)) for name, value in found.items()
        ]

    @property
    def remarks(self) -> list[str]:
        """What a user should know of this run."""
        return []

    @property
    @abstractmethod
    def example(self) -> str:
        """A request or a job that can be explained."""

    @abstractmethod
    def answer(self) -> Data:
        """What a comparison keeps of this run, as plain data; ``metrics`` and ``remarks`` at least."""

    def write(self, directory: str | Path, overwrite: bool = False) -> RunRecords:
        """Write tables and manifest to ``directory``, whole or not at all."""
        return write_run(directory, self.records.tables, self.records.manifest, overwrite=overwrite)


AnyRun = RunResult[Any]
