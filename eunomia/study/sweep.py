"""A grid of settings, each compared: the product of lists of values."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Unpack

from eunomia.core.atomic import write_bytes, write_text
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, EunomiaError
from eunomia.core.records import write_comparison
from eunomia.report.charts import bars, lines
from eunomia.report.definitions import CLUSTER_SYMBOLS, SYMBOLS
from eunomia.report.sweep import SweepPage, Trade, render_sweep
from eunomia.report.table import Table
from eunomia.report.units import counted
from eunomia.study.batch import Batch, BatchOptions
from eunomia.study.cells import make_cell, run_cells
from eunomia.study.compare import CompareResult, choice, failed, gather, metric_of
from eunomia.study.place import claim_as, key_of, let_go
from eunomia.study.ranking import Ranking
from eunomia.study.result import Cell, ConfigT, Result, Row
from eunomia.study.run import provenance
from eunomia.study.wing import AnyWing, wing_of

if TYPE_CHECKING:
    from eunomia.report.charts import Axes

Setting = Data  # key path -> value
POLICIES = (
    "Mean over the settings where every policy has data. Ahead: alone in the first place; level: shared."
)
SETTINGS = "In order of the best policy's figure; the figures beside it are of that policy."


@dataclass(frozen=True, repr=False, kw_only=True)
class SweepResult(Result, Generic[ConfigT]):
    """One comparison per setting, in the order of the product."""

    wing: str
    config: ConfigT
    settings: tuple[Setting, ...]
    points: tuple[CompareResult[ConfigT], ...]
    failures: dict[str, str] = field(default_factory=dict)
    directory: Path | None = None
    by: str | None = None  # the metric of the ranking; None = the wing's own

    def ranking(self, metric: str | None = None) -> Ranking:
        """The policies and the settings in order of a metric, ties and runner-up named. Raises UnknownNameError."""
        return Ranking.of(self.wing, metric or self.by, [label(s) for s in self.settings], self.points)

    def ranked_by(self, metric: str) -> SweepResult[ConfigT]:
        """The same, in order of another metric; a report on disk is written again. Raises UnknownNameError."""
        metric_of(wing_of(self.wing), metric)
        result = replace(self, by=metric)
        if self.directory is not None:
            write_text(self.directory / "report.html", render_sweep(sweep_page(result)))
        return result

    @cached_property
    def _said(self) -> list[str]:
        return self.ranking().sentences()

    def sentences(self) -> list[str]:
        """The ranking in words."""
        return self._said

    def rows(self) -> list[Row]:
        """A tidy table: one row per setting, policy and seed, with its metrics."""
        return [
            {**{key: _scalar(value) for key, value in setting.items()}, **row}
            for setting, point in zip(self.settings, self.points, strict=True)
            for row in point.rows()
        ]

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader should know of single runs, each remark once."""
        return tuple(dict.fromkeys(text for point in self.points for text in point.remarks))

    @property
    def title(self) -> str:
        """Name of the configuration, and how much was compared."""
        point = self.points[0]
        counts = (
            counted(len(self.settings), "setting"),
            counted(len(point.policies), "policy", "policies"),
            counted(len(point.seeds), "seed"),
        )
        return f"{self.config.name}: {', '.join(counts)}"

    def table(self, short: bool = False) -> Table:
        """One row per setting and policy: the headline metrics."""
        found = [
            (setting, point.table(short))
            for setting, point in zip(self.settings, self.points, strict=True)
            if point.answers
        ]
        headings = list(dict.fromkeys(name for _, table in found for name in table.header))
        rows = [
            (
                *map(str, setting.values()),
                *(dict(zip(table.header, row, strict=True)).get(h, "-") for h in headings),
            )
            for setting, table in found
            for row in table.rows
        ]  # columns without data at one setting may have some at another
        return Table((*self.settings[0], *headings), tuple(rows), len(self.settings[0]) + 1)

    def footnotes(self) -> list[str]:
        """How many seeds stand behind the numbers, and remarks on single runs."""
        return [*self.samples(), *(f"note: {text}" for text in self.remarks)]

    def samples(self) -> list[str]:
        """How many samples stand behind the numbers; with how many settings where they differ in it."""
        found = Counter(text for point in self.points if point.answers for text in point.samples())
        full = sum(bool(point.answers) for point in self.points)
        return [text if n == full else f"{text} (at {n} of {full} settings)" for text, n in found.items()]

    def draw(self, axes: Axes, metric: str | None) -> None:
        """A line per policy over the one key that varies; bars per setting and policy where there is no such line."""
        wing = wing_of(self.wing)
        name = metric or wing.chart
        words, policies, keys = metric_of(wing, name), self.points[0].policies, list(self.settings[0])
        values = [setting[keys[0]] for setting in self.settings]
        if len(keys) == 1 and all(isinstance(value, int | float) for value in values):
            series = {policy: [point.estimate(policy, name) for point in self.points] for policy in policies}
            lines(axes, values, series, (keys[0], words.label))
            return
        found = zip(self.settings, self.points, strict=True)
        each = {f"{label(s)}: {policy}": p.estimate(policy, name) for s, p in found for policy in policies}
        bars(axes, each, words.label)


AnySweep = SweepResult[Any]


def settings_of(grid: Mapping[str, Sequence[object]]) -> list[Setting]:
    """The product of a grid's lists: the last key varies fastest."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _axes(grid: object) -> dict[str, Sequence[object]]:
    """The same grid. Raises ConfigError unless it maps key paths to lists of values."""
    if not isinstance(grid, Mapping):
        raise ConfigError(f"grid is {grid!r}; give a dictionary {{KEY: [A, B]}}")
    for key, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise ConfigError(f"grid: {key} is {values!r}; give a list of values: [{values!r}]")
    return dict(grid)


def size_of(grid: Mapping[str, Sequence[object]]) -> int:
    """How many settings a grid has."""
    return math.prod(len(values) for values in grid.values())


def label(setting: Setting) -> str:
    """A setting for people: ``load=0.7, engine.late=drop``."""
    return ", ".join(f"{key}={value}" for key, value in setting.items())


def sweep_in(
    wing: AnyWing,
    config: object,
    grid: Mapping[str, Sequence[object]] | None = None,
    policies: Sequence[object] | None = None,
    seeds: int | None = None,
    overrides: Iterable[str] = (),
    **options: Unpack[BatchOptions],
) -> AnySweep:
    """Compare the policies at every point of ``grid`` (default: the section of the file).

    Metrics alone are kept, not the records of each run. With ``directory``, finished cells are kept
    there and ``sweep.parquet`` and ``sweep.csv`` hold the rows. Settings are validated before the first run.
    """
    options.setdefault("record", "requests")
    checked, batch = wing.checked(config, overrides), Batch.of(options)
    axes = _axes(wing.grid(checked) if grid is None else grid)
    if not axes:
        raise ConfigError(
            f"nothing to {wing.grid_section}; give a section [{wing.grid_section}] of lists, or grid = {{KEY: [A, B]}}"
        )
    chosen, numbers = choice(wing, checked, policies, seeds)
    settings = settings_of(axes)
    configs = [wing.changed(checked, setting) for setting in settings]
    if batch.root is not None:
        claim_as(batch.root, "sweep", key_of(wing.table(checked)), batch.overwrite)
    cells = [
        make_cell(wing, point, policy, seed, batch.full(seed, numbers[0]), None, label(setting) + ": ")
        for setting, point in zip(settings, configs, strict=True)
        for policy in chosen
        for seed in numbers
    ]
    outcomes = run_cells(cells, batch)
    failures, size = failed(outcomes), len(chosen) * len(numbers)
    if len(failures) == len(outcomes):
        let_go(batch.root)
        raise EunomiaError(next(iter(failures.values())))
    names = [wing.policy_name(policy) for policy in chosen]
    points = tuple(
        gather(wing, point, names, numbers, outcomes[index * size : (index + 1) * size], None)
        for index, point in enumerate(configs)
    )
    result = SweepResult(
        wing=wing.name,
        config=checked,
        settings=tuple(settings),
        points=points,
        failures=failures,
        directory=batch.root,
    )
    if batch.root is not None:
        write_sweep(result, batch.root)
    return result


def write_sweep(result: AnySweep, root: Path) -> None:
    """``sweep.parquet``, ``sweep.csv``, ``report.html`` and the manifest. Equal results give equal bytes."""
    import pyarrow as pa
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    rows = result.rows()
    keys = list(dict.fromkeys(key for row in rows for key in row))
    table = pa.Table.from_pylist([{key: row.get(key) for key in keys} for row in rows])
    for name, write in (("sweep.parquet", pq.write_table), ("sweep.csv", csv.write_csv)):
        content = pa.BufferOutputStream()
        write(table, content)
        write_bytes(root / name, content.getvalue().to_pybytes())
    write_text(root / "report.html", render_sweep(sweep_page(result)))
    manifest = {
        "name": result.config.name,
        "kind": "sweep",
        "wing": result.wing,
        "policies": list(result.points[0].policies),
        "seeds": list(result.points[0].seeds),
        "settings": list(result.settings),
        "failures": result.failures,
        "config": wing_of(result.wing).table(result.config),
        **provenance(),
    }
    write_comparison(root, manifest)


def sweep_page(result: AnySweep) -> SweepPage:
    """The report of a sweep: ranking, figures, and energy against the ranked share where both are known."""
    ranking = result.ranking()
    return SweepPage(
        title=result.config.name,
        names=[result.config.name, *result.points[0].policies],
        said=ranking.sentences(),
        scope=f"{result.title}.",
        tables=[
            ("Policies", POLICIES, ranking.policies()),
            ("Settings", SETTINGS, ranking.settings()),
            ("All figures", f"{'; '.join(result.samples())}.", result.table()),
        ],
        trades=_trades(ranking),
        axes=(f"{ranking.metric.label}, %", "energy per request, mJ"),
        metrics=wing_of(result.wing).metrics,
        symbols=CLUSTER_SYMBOLS if result.wing == "cluster" else SYMBOLS,
    )


def _trades(ranking: Ranking) -> list[Trade]:
    """Every policy at every setting where its energy is known; nothing unless more of a share is ranked."""
    metric, energy = ranking.metric, "energy_per_request_j"
    if metric.unit != "share" or metric.better != "higher" or energy not in ranking.wing.metrics:
        return []
    found = [
        (policy, text, point.estimate(policy, ranking.name).mean, point.estimate(policy, energy).mean)
        for text, point in zip(ranking.labels, ranking.points, strict=True)
        for policy in point.finished
    ]
    return [Trade(p, text, 100.0 * good, 1e3 * j) for p, text, good, j in found if good >= 0.0 and j > 0.0]


def _scalar(value: object) -> Cell:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
