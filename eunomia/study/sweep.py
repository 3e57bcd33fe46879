"""A grid of settings, each compared: the product of the lists in a scenario's [sweep]."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eunomia.config import Scenario, as_table, with_values
from eunomia.core.atomic import write_bytes
from eunomia.core.errors import ConfigError, EunomiaError
from eunomia.core.records import write_comparison
from eunomia.engines.processes import Outcome
from eunomia.inference.options import Record
from eunomia.study.cells import make_cell, run_cells
from eunomia.study.compare import CompareResult, failed, gather
from eunomia.study.inference.policy import PolicyLike, policy_name, resolve_policy
from eunomia.study.place import claim
from eunomia.study.run import ScenarioLike, as_scenario, provenance, seeds_from

Setting = dict[str, Any]  # key path -> value


@dataclass(frozen=True)
class SweepResult:
    """One comparison per setting, in the order of the product."""

    scenario: Scenario
    settings: tuple[Setting, ...]
    points: tuple[CompareResult, ...]
    failures: dict[str, str] = field(default_factory=dict)
    directory: Path | None = None

    def rows(self) -> list[dict[str, Any]]:
        """A tidy table: one row per setting, policy and seed, with its metrics."""
        return [
            {**setting, "policy": policy, "seed": seed, **metrics}
            for setting, point in zip(self.settings, self.points, strict=True)
            for (policy, seed), metrics in point.metrics.items()
        ]


def settings_of(grid: Mapping[str, Sequence[Any]]) -> list[Setting]:
    """The product of a grid's lists: the last key varies fastest."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def label(setting: Setting) -> str:
    """A setting for people: ``load=0.7, engine.late=drop``."""
    return ", ".join(f"{key}={value}" for key, value in setting.items())


def sweep(
    scenario: ScenarioLike,
    grid: Mapping[str, Sequence[Any]] | None = None,
    policies: Sequence[PolicyLike] | None = None,
    seeds: int | None = None,
    overrides: Iterable[str] = (),
    directory: str | Path | None = None,
    workers: int = 1,
    on_done: Callable[[Outcome], None] | None = None,
    record: Record = "requests",
    overwrite: bool = False,
) -> SweepResult:
    """Compare the policies at every point of ``grid`` (default: the scenario's [sweep]).

    Metrics alone are kept, not the records of each run. With ``directory``, finished cells are kept
    there and ``sweep.parquet`` and ``sweep.csv`` hold the rows. Settings are validated before the first run.
    A ``directory`` with results of another scenario is refused, unless ``overwrite`` replaces them.
    """
    checked = as_scenario(scenario, overrides)
    axes = dict(grid) if grid is not None else dict(checked.sweep)
    if not axes:
        raise ConfigError('nothing to sweep; give a [sweep] section, such as "load" = [0.7, 1.0]')
    chosen = list(policies) if policies else list(checked.compare.policies)
    for policy in chosen:
        resolve_policy(policy)
    settings = settings_of(axes)
    scenarios = [with_values(checked, setting) for setting in settings]
    numbers = seeds_from(checked.seed, checked.compare.seeds if seeds is None else seeds)
    root = Path(directory) if directory is not None else None
    if root is not None:
        claim(root, checked, "sweep", overwrite)
    cells = [
        make_cell(point, policy, seed, None, record, label(setting) + ": ")
        for setting, point in zip(settings, scenarios, strict=True)
        for policy in chosen
        for seed in numbers
    ]
    outcomes = run_cells(cells, workers, on_done, root)
    result = _collect(checked, settings, scenarios, chosen, numbers, outcomes, root)
    if root is not None:
        write_sweep(result, root)
    return result


def _collect(
    scenario: Scenario,
    settings: list[Setting],
    scenarios: list[Scenario],
    policies: list[PolicyLike],
    seeds: list[int],
    outcomes: list[Outcome],
    root: Path | None,
) -> SweepResult:
    names = [policy_name(policy) for policy in policies]
    size = len(names) * len(seeds)
    points = [
        gather(point, names, seeds, outcomes[index * size : (index + 1) * size], None)
        for index, point in enumerate(scenarios)
    ]
    failures = failed(outcomes)
    if len(failures) == len(outcomes):
        raise EunomiaError(next(iter(failures.values())))
    return SweepResult(scenario, tuple(settings), tuple(points), failures, root)


def write_sweep(result: SweepResult, root: Path) -> None:
    """``sweep.parquet``, ``sweep.csv`` and the manifest. Equal results give equal bytes."""
    import pyarrow as pa
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist(_flat(result.rows()))
    for name, write in (("sweep.parquet", pq.write_table), ("sweep.csv", csv.write_csv)):
        content = pa.BufferOutputStream()
        write(table, content)
        write_bytes(root / name, content.getvalue().to_pybytes())
    manifest = {
        "name": result.scenario.name,
        "kind": "sweep",
        "policies": list(result.points[0].policies),
        "seeds": list(result.points[0].seeds),
        "settings": list(result.settings),
        "failures": result.failures,
        "config": as_table(result.scenario),
        **provenance(),
    }
    write_comparison(root, manifest)


def _flat(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with scalar entries alone; lists and tables become text."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    return [{key: _scalar(row.get(key)) for key in keys} for row in rows]


def _scalar(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
