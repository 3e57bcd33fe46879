"""Several policies on the same jobs, and grids of settings: on all cores, resumed after a stop."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eunomia.config.cluster import ClusterConfig, cluster_from, cluster_table, with_cluster_values
from eunomia.core.atomic import write_bytes
from eunomia.core.errors import ConfigError, EunomiaError
from eunomia.core.records import Comparison, read_comparison, write_comparison
from eunomia.engines.processes import Cell, Outcome, map_cells
from eunomia.engines.store import content_key
from eunomia.metrics.statistics import Estimate, interval, paired_difference
from eunomia.study.cells import folder_name
from eunomia.study.cluster.build import resolve_allocator
from eunomia.study.cluster.run import ClusterLike, as_cluster, run_cluster
from eunomia.study.files import content_hash, file_stamps, program_hash
from eunomia.study.place import CELLS, claim, make_room, whole
from eunomia.study.run import provenance, seeds_from

OnDone = Callable[[Outcome], None]
Setting = dict[str, Any]
Key = tuple[int, str, int]  # setting, policy, seed


@dataclass(frozen=True)
class ClusterComparison:
    """Figures of every policy on every seed at every setting; a plain comparison has one setting, ``{}``."""

    config: ClusterConfig
    settings: tuple[Setting, ...]
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    metrics: dict[Key, dict[str, float]]
    remarks: tuple[str, ...]
    failures: dict[str, str] = field(default_factory=dict)
    directory: Path | None = None

    def values(self, policy: str, metric: str, setting: int = 0) -> list[float]:
        """One number per seed, nan where a run failed or has no such number."""
        found = (self.metrics.get((setting, policy, seed), {}) for seed in self.seeds)
        return [math.nan if values.get(metric) is None else values[metric] for values in found]

    def estimate(self, policy: str, metric: str, setting: int = 0) -> Estimate:
        """Mean over seeds with its 95 % interval."""
        return interval(self.values(policy, metric, setting))

    def difference(self, policy: str, rival: str, metric: str, setting: int = 0) -> Estimate:
        """Mean of policy - rival over the same seeds, with the paired 95 % interval."""
        return paired_difference(self.values(policy, metric, setting), self.values(rival, metric, setting))

    def rows(self) -> list[dict[str, Any]]:
        """A tidy table: one row per setting, policy and seed."""
        return [
            {**self.settings[number], "policy": policy, "seed": seed, **values}
            for (number, policy, seed), values in self.metrics.items()
        ]

    def records(self) -> Comparison:
        """The recorded runs of a plain comparison, for reports."""
        if self.directory is None:
            raise ConfigError("this comparison was not written; give directory=...")
        return read_comparison(self.directory, verify=False)


def compare_cluster(
    config: ClusterLike,
    policies: Sequence[str] | None = None,
    seeds: int | None = None,
    overrides: Iterable[str] = (),
    directory: str | Path | None = None,
    workers: int = 1,
    on_done: OnDone | None = None,
    overwrite: bool = False,
) -> ClusterComparison:
    """Every policy on every seed; with ``directory``, runs are written there (all tables of the first seed, jobs of the
    others) and a stopped call is gone on with. A run that fails is named in ``failures``; if all fail, that is raised.
    """
    checked = as_cluster(config, overrides)
    root = Path(directory) if directory is not None else None
    result = _run(checked, [{}], [checked], policies, seeds, root, "comparison", workers, on_done, overwrite)
    if root is not None:
        write_comparison(root, _manifest(result, "comparison"))
    return result


def study_cluster(
    config: ClusterLike,
    grid: Mapping[str, Sequence[Any]] | None = None,
    policies: Sequence[str] | None = None,
    seeds: int | None = None,
    overrides: Iterable[str] = (),
    directory: str | Path | None = None,
    workers: int = 1,
    on_done: OnDone | None = None,
    overwrite: bool = False,
) -> ClusterComparison:
    """Compare at every point of ``grid`` (default: the file's [study]); figures alone are kept, as sweep.csv "
    "and .parquet."""
    checked = as_cluster(config, overrides)
    axes = dict(grid) if grid is not None else dict(checked.study)
    if not axes:
        raise ConfigError(
            'nothing to study; give a [study] section, such as "simulation.round_s" = [60, 360]'
        )
    settings = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    points = [with_cluster_values(checked, setting) for setting in settings]
    root = Path(directory) if directory is not None else None
    result = _run(checked, settings, points, policies, seeds, root, "sweep", workers, on_done, overwrite)
    if root is not None:
        _write_rows(result, root)
        write_comparison(root, _manifest(result, "sweep"))
    return result


def _run(
    config: ClusterConfig,
    settings: list[Setting],
    points: list[ClusterConfig],
    policies: Sequence[str] | None,
    seeds: int | None,
    root: Path | None,
    kind: str,
    workers: int,
    on_done: OnDone | None,
    overwrite: bool,
) -> ClusterComparison:
    names = list(policies or config.compare.policies)
    if len(set(names)) < len(names):
        raise ConfigError(f"policy '{next(n for n in names if names.count(n) > 1)}' is named twice")
    for name in names:
        resolve_allocator(name)  # a wrong name is found before the first run
    numbers = seeds_from(config.seed, config.compare.seeds if seeds is None else seeds)
    if root is not None:
        claim(root, _identity(config), kind, overwrite)
    keys = [(s, name, seed) for s in range(len(settings)) for name in names for seed in numbers]
    folder = root if kind == "comparison" else None
    cells = [_cell(points[s], name, seed, folder, seed == numbers[0], settings[s]) for s, name, seed in keys]
    outcomes = map_cells(_unless_lost(cells, root), _work, workers, on_done, root / CELLS if root else None)
    failures = {o.cell.name: o.failure for o in outcomes if o.failure is not None}
    done = {key: o.result for key, o in zip(keys, outcomes, strict=True) if o.result is not None}
    if not done:
        raise EunomiaError(next(iter(failures.values())))
    remarks = tuple(
        dict.fromkeys(f"{key[1]}: {text}" for key, found in done.items() for text in found["remarks"])
    )
    return ClusterComparison(
        config, tuple(settings), tuple(names), tuple(numbers),
        {key: {n: math.nan if v is None else v for n, v in found["metrics"].items()} for key, found in done.items()},
        remarks, failures, root,
    )  # fmt: skip


def _cell(
    config: ClusterConfig, policy: str, seed: int, root: Path | None, full: bool, setting: Setting
) -> Cell:
    table = _identity(config)
    place = str(root / folder_name(policy) / str(seed)) if root else None
    content = {
        "cluster": table,
        "policy": policy,
        "seed": seed,
        "record": full,
        "directory": bool(place),
        "program": program_hash(),
        "policy_file": content_hash(policy.rpartition(":")[0]),
        "files": file_stamps(table),
    }
    label = "".join(f"{key}={value}, " for key, value in setting.items())
    return Cell(content_key(content), f"{label}{policy} seed {seed}", (table, policy, seed, place, full))


def _identity(config: ClusterConfig) -> dict[str, Any]:
    """The experiment without what may differ when it goes on."""
    table = cluster_table(config)
    return {key: value for key, value in table.items() if key not in ("compare", "study", "policy")}


def _work(payload: tuple[dict[str, Any], str, int, str | None, bool]) -> dict[str, Any]:
    table, policy, seed, place, full = payload
    record = "jobs" if place is None else "all" if full else "jobs"
    result = run_cluster(cluster_from(table), policy, seed, record=record)  # type: ignore[arg-type]
    if place is not None:
        result.write(place, overwrite=True)
    finite = {name: value if math.isfinite(value) else None for name, value in result.metrics.items()}
    return {"metrics": finite, "remarks": result.remarks}


def _unless_lost(cells: list[Cell], root: Path | None) -> list[Cell]:
    """Forget finished cells whose records have been deleted or damaged, so that they run again."""
    for cell in cells:
        place = cell.payload[3]
        if root is not None and place is not None and not whole(Path(place)):
            (root / CELLS / f"{cell.key}.json").unlink(missing_ok=True)
            make_room(Path(place))
    return cells


def _manifest(result: ClusterComparison, kind: str) -> dict[str, Any]:
    return {
        "name": result.config.name,
        "kind": kind,
        "wing": "cluster",
        "policies": list(result.policies),
        "seeds": list(result.seeds),
        "settings": list(result.settings),
        "failures": result.failures,
        "config": _identity(result.config),
        **provenance(),
    }


def _write_rows(result: ClusterComparison, root: Path) -> None:
    import pyarrow as pa
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    rows = [
        {k: v if isinstance(v, str | int | float | bool) else str(v) for k, v in row.items()}
        for row in result.rows()
    ]
    table = pa.Table.from_pylist(rows)
    for name, write in (("sweep.parquet", pq.write_table), ("sweep.csv", csv.write_csv)):
        content = pa.BufferOutputStream()
        write(table, content)
        write_bytes(root / name, content.getvalue().to_pybytes())
