"""How fast a job trains on a device type: measured, imported, or given as arrays."""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.cluster.job import TrainingJob
from eunomia.contract.cluster import Cluster
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError, PlatformError, TraceError

Key = tuple[str, int]
SPREAD_SUFFIX = "_unconsolidated"


@dataclass(frozen=True)
class ThroughputTable:
    """Steps/s by (job type, scale factor) and device type.

    ``alone[r, j]``: steps/s of row r on type j; 0 = it does not fit there; nan = not measured.
    ``spread``: the same with the workers on as many servers as possible; None = spreading costs nothing known.
    ``beside[r, q, j]``: steps/s of row r while row q runs on the same devices; 0 = they cannot share, or nobody
    measured it; None = no pairs.

    A missing row, or one not measured on a type of the cluster, is an error that names job and type; nothing
    is put in its place.
    """

    keys: tuple[Key, ...]
    types: tuple[str, ...]
    alone: Floats  # (R, J) steps/s
    spread: Floats | None = None  # (R, J)
    beside: Floats | None = None  # (R, R, J)
    source: str = "given"
    _found: Mapping[Key, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shape = (len(self.keys), len(self.types))
        for name, array, right in (
            ("alone", self.alone, shape),
            ("spread", self.spread, shape),
            ("beside", self.beside, (shape[0], *shape)),
        ):
            if array is not None and array.shape != right:
                raise ConfigError(f"throughputs '{name}' have shape {array.shape}; it must be {right}")
        for (row, column), value in np.ndenumerate(self.alone):
            if value < 0.0 or np.isinf(value):
                where = f"{label(self.keys[row])} on '{self.types[column]}'"
                raise ConfigError(
                    f"throughput of {where} is {value}; it must be steps/s, 0 where it does not fit"
                )
        object.__setattr__(self, "_found", {key: row for row, key in enumerate(self.keys)})
        if len(self._found) < len(self.keys):
            twice = next(key for key in self.keys if self.keys.count(key) > 1)
            raise ConfigError(f"throughput of {label(twice)} is given twice")

    @classmethod
    def of(cls, speeds: Mapping[str, Mapping[str, float]], scale_factor: int = 1) -> ThroughputTable:
        """``ThroughputTable.of({"resnet": {"v100": 4.0, "k80": 0.6}})``: one scale factor, types left out = nan."""
        types = tuple(dict.fromkeys(name for row in speeds.values() for name in row))
        alone = np.array([[row.get(name, np.nan) for name in types] for row in speeds.values()], float)
        return cls(
            tuple((name, scale_factor) for name in speeds), types, alone.reshape(len(speeds), len(types))
        )

    @classmethod
    def from_gavel_json(cls, path: str | Path) -> ThroughputTable:
        """Read Gavel's file: type -> "('model', scale)" -> {"null": alone, "('other', scale)": [this, other]}."""
        tables = _read_json(Path(path))
        types = tuple(name for name in tables if not name.endswith(SPREAD_SUFFIX))
        texts = list(dict.fromkeys(text for table in tables.values() for text in table))
        row = {text: number for number, text in enumerate(texts)}
        size, kinds = len(texts), len(types)
        alone, spread = np.full((size, kinds), np.nan), np.full((size, kinds), np.nan)
        beside = np.zeros((size, size, kinds))
        for column, name in enumerate(types):
            for text, entries in tables[name].items():
                alone[row[text], column] = entries["null"]
                for other, pair in entries.items():
                    if other in row and min(pair) > 0.0:
                        beside[row[text], row[other], column] = pair[0]
                        beside[row[other], row[text], column] = pair[1]
            for text, entries in tables.get(name + SPREAD_SUFFIX, {}).items():
                spread[row[text], column] = entries["null"]
        keys = tuple(_parse_key(text, Path(path)) for text in texts)
        return cls(keys, types, alone, spread, beside, source=Path(path).name)

    @classmethod
    def from_csv(cls, path: str | Path) -> ThroughputTable:
        """Read columns job_type, scale_factor, and one per device type; an empty cell = not measured."""
        path = Path(path)
        reader = csv.DictReader(_text(path).splitlines())
        names = list(reader.fieldnames or ())
        types = tuple(n for n in names if n not in ("job_type", "scale_factor"))
        if len(set(names)) < len(names) or len(names) - len(types) < 2 or not types:
            raise TraceError("the header needs job_type, scale_factor and device types, each once", path, 1)
        keys, alone = [], []
        for line, record in enumerate(reader, start=2):
            if None in record:
                raise TraceError(f"the row has more than {len(names)} columns", path, line)
            keys.append((record["job_type"] or "", _whole(record, "scale_factor", path, line)))
            alone.append([_number(record, name, path, line) for name in types])
        if not keys:
            raise TraceError("no throughputs after the header", path)
        return cls(
            tuple(keys), types, np.array(alone, float).reshape(len(keys), len(types)), source=path.name
        )

    def row(self, job_type: str, scale_factor: int, job_id: str = "") -> int:
        """Row of a job type at a scale factor; PlatformError says what is known of that type."""
        found = self._found.get((job_type, scale_factor))
        if found is None:
            scales = sorted(scale for name, scale in self.keys if name == job_type)
            known = f"it is measured at scale factors {scales}" if scales else "the type is not in the table"
            of_job = f"job '{job_id}': " if job_id else ""
            raise PlatformError(
                f"{of_job}no throughput for {label((job_type, scale_factor))} in {self.source}; {known}"
            )
        return found

    def rows(self, jobs: Sequence[TrainingJob]) -> Ints:
        """Row of each job, shape (M,)."""
        return np.array([self.row(job.job_type, job.scale_factor, job.job_id) for job in jobs], np.int64)

    def columns(self, cluster: Cluster) -> Ints:
        """Column here of each type of the cluster; PlatformError for a type that was never measured."""
        for name in cluster.names:
            if name not in self.types:
                raise PlatformError(
                    f"device type '{name}' has no throughputs; measured: {', '.join(self.types)}"
                )
        return np.array([self.types.index(name) for name in cluster.names], np.int64)

    def matrix(self, jobs: Sequence[TrainingJob], cluster: Cluster) -> Floats:
        """Steps/s of each job on each type of the cluster, shape (M, J); 0 where it cannot run.

        It cannot run where the table says 0, where a worker needs more memory than a device has, or where
        there are too few devices. PlatformError when nothing is left, or for a missing figure.
        """
        speed = self.alone[self.rows(jobs)][:, self.columns(cluster)]
        for m, j in np.argwhere(np.isnan(speed)).tolist():
            job = jobs[m]
            raise PlatformError(
                f"job '{job.job_id}': {label((job.job_type, job.scale_factor))} was not measured on "
                f"'{cluster.names[j]}' ({self.source}); give 0 if it cannot run there{self._others(cluster)}"
            )
        scale = np.array([job.scale_factor for job in jobs], np.int64)
        need = np.array([job.memory_gib or 0.0 for job in jobs], float)
        fits = (scale[:, None] <= cluster.counts) & (need[:, None] <= cluster.memory_gib)
        for m in np.flatnonzero(~((speed > 0.0) & fits).any(axis=1)).tolist():
            raise PlatformError(_nowhere(jobs[m], speed[m], cluster))
        return np.where(fits, speed, 0.0)

    def _others(self, cluster: Cluster) -> str:
        """Types in the table that the cluster lacks: often a misspelt name."""
        others = [f"'{name}'" for name in self.types if name not in cluster.names]
        return f"; the table also has {', '.join(others)}, which no device is called" if others else ""

    def spread_matrix(self, jobs: Sequence[TrainingJob], cluster: Cluster) -> Floats:
        """As ``matrix``, with the workers on different servers; where not measured, as consolidated."""
        consolidated = self.matrix(jobs, cluster)
        if self.spread is None:
            return consolidated
        measured = self.spread[self.rows(jobs)][:, self.columns(cluster)]
        return np.where((consolidated > 0.0) & ~np.isnan(measured), measured, consolidated)

    def beside_of(self, cluster: Cluster) -> Floats | None:
        """Pair throughputs over the types of the cluster, shape (R, R, J)."""
        return None if self.beside is None else self.beside[:, :, self.columns(cluster)]

    @cached_property
    def job_types(self) -> tuple[str, ...]:
        """Names of the job types, in order of first appearance."""
        return tuple(dict.fromkeys(name for name, _ in self.keys))

    def scales(self, job_type: str) -> tuple[int, ...]:
        """Scale factors that are measured for a job type, ascending."""
        return tuple(sorted(scale for name, scale in self.keys if name == job_type))


def label(key: Key) -> str:
    """``'ResNet-50 (batch size 64)' with 4 workers``."""
    return f"'{key[0]}' with {key[1]} worker{'s' if key[1] > 1 else ''}"


def _nowhere(job: TrainingJob, speed: Iterable[float], cluster: Cluster) -> str:
    reasons = []
    for kind, steps_s in zip(cluster.types, speed, strict=True):
        if not steps_s > 0.0:
            reasons.append(f"'{kind.name}': throughput 0")
        elif job.scale_factor > kind.count:
            reasons.append(f"'{kind.name}': {kind.count} devices")
        else:
            reasons.append(f"'{kind.name}': {kind.memory_gib:g} GiB each")
    need = "" if job.memory_gib is None else f", {job.memory_gib:g} GiB per worker"
    kind_of_job = label((job.job_type, job.scale_factor))
    return f"job '{job.job_id}' ({kind_of_job}{need}) can run nowhere: {'; '.join(reasons)}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"no throughput table at {path}") from None
    except UnicodeDecodeError:
        raise TraceError("not UTF-8 text", path) from None


def _read_json(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    try:
        tables = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise TraceError(f"not JSON: {error.msg}", path, error.lineno) from error
    if not (isinstance(tables, dict) and all(isinstance(table, dict) for table in tables.values())):
        raise TraceError("expected an object: device type -> job type -> throughputs", path)
    for name, table in tables.items():
        for text, entries in table.items():
            if not (isinstance(entries, dict) and isinstance(entries.get("null"), (int, float))):
                raise TraceError(f"{text} on '{name}' has no throughput alone (key \"null\")", path)
            for other, pair in entries.items():
                numbers = [pair] if other == "null" else pair
                if not (
                    isinstance(numbers, list)
                    and len(numbers) == (1 if other == "null" else 2)
                    and all(isinstance(v, (int, float)) and 0.0 <= v < float("inf") for v in numbers)
                ):
                    raise TraceError(f"{text} on '{name}', \"{other}\": {pair!r} is not steps/s", path)
    return tables


def _parse_key(text: str, path: Path) -> Key:
    try:
        name, scale = ast.literal_eval(text)
        return str(name), int(scale)
    except (ValueError, SyntaxError, TypeError) as error:
        raise TraceError(f"job type {text!r} is not of the form ('name', scale factor)", path) from error


def _whole(record: Mapping[str, str | None], column: str, path: Path, line: int) -> int:
    value = _number(record, column, path, line)
    if not (value >= 1.0 and value.is_integer()):
        raise TraceError(f"{record[column]!r} is not a whole number of workers", path, line, column)
    return int(value)


def _number(record: Mapping[str, str | None], column: str, path: Path, line: int) -> float:
    text = record.get(column)
    if text is None:
        raise TraceError("the row is too short, or the header lacks this column", path, line, column)
    if text.strip() == "" and column != "scale_factor":
        return float("nan")
    try:
        return float(text)
    except ValueError:
        raise TraceError(f"{text!r} is not a number", path, line, column) from None
