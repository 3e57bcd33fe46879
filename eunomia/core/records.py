"""What a run leaves behind: a directory of Parquet tables and a manifest, written whole or not at all.

::

    runs/<name>/                    a comparison
    ├── manifest.json               shared facts: versions, machine, resolved config
    ├── report.html, timeline.json
    └── <policy>/<seed>/            one run: what write_run writes and read_run reads
        ├── manifest.json
        └── requests.parquet, subjobs.parquet, decisions.parquet, ...

Columns and units: ``eunomia/core/schemas.py`` and docs/records.md.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eunomia.core.atomic import (
    INCOMPLETE,
    clear_output_errors,
    flush_text,
    occupied,
    sync_directory,
    write_text,
)
from eunomia.core.errors import OutputError, RecordError
from eunomia.core.own_file import as_path
from eunomia.core.ownership import (
    BEING_WRITTEN,
    MANIFEST,
    PRODUCER,
    renewing,
    require_no_single_run,
    require_ours,
)
from eunomia.core.schemas import SCHEMA_VERSION, TABLES

ELSEWHERE = "; give a folder that eunomia run or compare wrote"
_ROW_GROUP = 1 << 18  # rows; fixed, so that equal tables give equal bytes


@dataclass(frozen=True)
class RunRecords:
    """One run: tables by name in the schemas of ``eunomia.core.schemas`` and the manifest.

    ``directory`` is where it was read from; None for a run that lives in memory alone. Runs of a
    comparison read each table when it is first asked for.
    """

    tables: Mapping[str, pa.Table]
    manifest: dict[str, Any]
    directory: Path | None = None

    def __getitem__(self, table: str) -> pa.Table:
        """The table of that name; raises RecordError when the run was recorded without it."""
        if table not in self.tables:
            place = f"run '{self.directory}'" if self.directory else "this run"
            have = ", ".join(self.tables) or "no tables"
            raise RecordError(f"{place} has no table '{table}' (it has {have}); record = 'all' keeps all")
        return self.tables[table]

    @property
    def policy(self) -> str:
        """Name of the policy, as in tables and reports."""
        value = self.manifest.get("policy", "policy")
        return str(value.get("name", "policy")) if isinstance(value, dict) else str(value)

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return int(self.manifest.get("seed", 0))


@dataclass(frozen=True)
class Comparison:
    """Several runs of one scenario: policies times seeds, in the order in which they are shown."""

    name: str
    runs: tuple[RunRecords, ...]
    manifest: dict[str, Any] = field(default_factory=dict)

    @property
    def policies(self) -> list[str]:
        """Names of the policies, without repeats, in order of first appearance."""
        return list(dict.fromkeys(run.policy for run in self.runs))

    @property
    def seeds(self) -> list[int]:
        """Seeds that any policy was run with, ascending."""
        return sorted({run.seed for run in self.runs})

    def of(self, policy: str) -> list[RunRecords]:
        """The runs of one policy, by seed."""
        return sorted((run for run in self.runs if run.policy == policy), key=lambda run: run.seed)


class _LazyTables(Mapping[str, pa.Table]):
    """Tables of a run on disk, each read and checked at first use."""

    def __init__(self, directory: Path, manifest: Mapping[str, Any], verify: bool) -> None:
        self._directory, self._facts, self._verify = directory, _table_facts(directory, manifest), verify
        self._read: dict[str, pa.Table] = {}

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._read:
            self._read[name] = _read_table(self._directory, name, self._facts[name], self._verify)
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._facts  # without reading it

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)


def write_run(
    directory: str | Path,
    tables: Mapping[str, pa.Table],
    manifest: Mapping[str, Any],
    overwrite: bool = False,
) -> RunRecords:
    """Write one run whole, or not at all; returns what was written.

    Tables are brought to their schema (missing columns become null), zstd-compressed with fixed
    writer options, so equal tables give equal bytes. Everything goes to a hidden sibling directory
    marked INCOMPLETE, is flushed to disk, and takes the name in one step. With ``overwrite`` an
    existing run is exchanged with the new one and only then removed; what Eunomia did not write stays.
    Raises OutputError when the place is taken, was not written by Eunomia or cannot be written,
    RecordError when a table does not fit its schema.
    """
    target = Path(directory)
    conformed = {name: conform(name, table) for name, table in tables.items()}
    with clear_output_errors(target):
        target = target.resolve() if target.is_symlink() else target
        taken = occupied(target)
    if taken and not overwrite:
        raise OutputError(f"'{target}' exists already; choose another name, or ask to overwrite it")
    with renewing(target) as stage:
        facts = {}
        for name, table in conformed.items():
            path = stage / f"{name}.parquet"
            _write_table(path, table)
            facts[name] = {"rows": table.num_rows, "bytes": path.stat().st_size, "sha256": _sha256(path)}
        full = {**manifest, **_marks(), "tables": facts}
        flush_text(stage / MANIFEST, _dump(full))
    return RunRecords(conformed, full, target)


def read_run(directory: str | Path, only: Sequence[str] | None = None, verify: bool = True) -> RunRecords:
    """Read a run; ``only`` limits it to some tables, ``verify`` checks each table's SHA-256.

    Raises RecordError when the directory is missing, incomplete, damaged or of another version.
    """
    path = as_path(directory, "a run")
    manifest = read_manifest(path)
    if "tables" not in manifest:
        raise RecordError(f"'{path}' is not a single run; choose one below it{_nearby(path)}")
    found = _LazyTables(path, manifest, verify)
    return RunRecords({name: found[name] for name in found if only is None or name in only}, manifest, path)


def _table_facts(directory: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    facts = manifest.get("tables")
    if not isinstance(facts, dict) or not all(isinstance(f, dict) and "sha256" in f for f in facts.values()):
        damaged = f"{MANIFEST} does not say which tables were written"
        raise RecordError(f"run '{directory}' is damaged: {damaged}; run it again")
    return facts


def _read_table(directory: Path, name: str, facts: Mapping[str, Any], verify: bool) -> pa.Table:
    file = directory / f"{name}.parquet"
    if not file.is_file():
        raise RecordError(f"run '{directory}' is damaged: {file.name} is missing")
    if verify and _sha256(file) != facts["sha256"]:
        raise RecordError(f"run '{directory}' is damaged: {file.name} differs from what its manifest says")
    try:
        return pq.read_table(file)
    except (OSError, pa.ArrowException) as error:
        raise RecordError(f"run '{directory}' is damaged: {file.name} cannot be read ({error})") from error


def read_manifest(directory: str | Path) -> dict[str, Any]:
    """The manifest of a run or of a comparison; raises RecordError as read_run does."""
    path = Path(directory)
    if not path.is_dir():
        raise RecordError(f"there is no run at '{path}'{_nearby(path.parent) or ELSEWHERE}")
    if (path / INCOMPLETE).exists():
        raise RecordError(f"run '{path}' is incomplete: it was stopped while being written; run it again")
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        where = _nearby(path) or ELSEWHERE
        raise RecordError(f"'{path}' holds no run: {MANIFEST} is missing{where}") from None
    except (OSError, ValueError) as error:
        raise RecordError(f"run '{path}' is damaged: {MANIFEST} cannot be read ({error})") from error
    if not isinstance(manifest, dict):
        raise RecordError(f"run '{path}' is damaged: {MANIFEST} is not a table of facts (a JSON object)")
    version = manifest.get("schema_version")
    if version != SCHEMA_VERSION:
        raise RecordError(
            f"run '{path}' was written in schema version {version}, this Eunomia reads version "
            f"{SCHEMA_VERSION}; run it again, or read it with the version that wrote it"
        )
    return manifest


def write_comparison(
    directory: str | Path, manifest: Mapping[str, Any], files: Mapping[str, str] | None = None
) -> None:
    """Finish a comparison: write its manifest and further text files, then take the INCOMPLETE mark off."""
    path = Path(directory)
    for name, text in (files or {}).items():
        write_text(path / name, text)
    write_text(path / MANIFEST, _dump({**manifest, **_marks()}))
    with clear_output_errors(path):
        (path / INCOMPLETE).unlink(missing_ok=True)
        sync_directory(path)


def mark_incomplete(directory: str | Path) -> None:
    """Create a comparison's directory if need be and mark it incomplete until write_comparison.

    Raises OutputError when something stands there that is no comparison of Eunomia's.
    """
    path = Path(directory)
    require_ours(path)
    require_no_single_run(path)
    with clear_output_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        flush_text(path / INCOMPLETE, f"{BEING_WRITTEN}{os.getpid()} on {socket.gethostname()}\n")


def run_directories(directory: str | Path) -> list[Path]:
    """Directories of complete single runs at or below ``directory``, sorted by policy, then seed."""
    root = Path(directory)
    found = [root] if _is_run(root) else [p for p in root.glob("*/*") if _is_run(p)]
    return sorted(found, key=lambda p: (p.parent.name, _natural(p.name)))


def read_comparison(directory: str | Path, verify: bool = True) -> Comparison:
    """Read a comparison, or a single run as a comparison of one; raises RecordError.

    Tables are read at first use, so that a large comparison fits into memory.
    """
    path = as_path(directory, "a comparison")
    manifest = read_manifest(path)
    runs = []
    for place in run_directories(path):
        facts = read_manifest(place)
        runs.append(RunRecords(_LazyTables(place, facts, verify), facts, place))
    order = manifest.get("policies") or []
    runs.sort(key=lambda run: order.index(run.policy) if run.policy in order else len(order))
    if not runs and manifest.get("kind") == "sweep":
        raise RecordError(f"'{path}' is a sweep, which keeps metrics and no runs; look at its sweep.csv")
    if not runs and manifest.get("kind") == "study":
        raise RecordError(f"'{path}' is a study, which keeps metrics and no runs; look at its report.html")
    if not runs:
        raise RecordError(f"'{path}' holds no complete run")
    order = {name: place for place, name in enumerate(manifest.get("policies", []))}
    runs.sort(key=lambda run: (order.get(run.policy, len(order)), run.policy, run.seed))
    return Comparison(str(manifest.get("name", path.name)), tuple(runs), manifest)


def conform(name: str, table: pa.Table) -> pa.Table:
    """Bring a table to its schema: order, types, missing columns and NaN as null. Raises RecordError."""
    if name not in TABLES:
        raise RecordError(f"unknown table '{name}'; known: {', '.join(TABLES)}")
    schema = TABLES[name]
    unknown = [column for column in table.column_names if column not in schema.names]
    if unknown:
        known = ", ".join(schema.names)
        raise RecordError(f"table '{name}' has unknown column '{unknown[0]}'; known: {known}")
    columns = []
    for part in schema:
        if part.name not in table.column_names:
            columns.append(pa.nulls(table.num_rows, part.type))
            continue
        try:
            columns.append(_cast(table[part.name], part.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise RecordError(f"table '{name}', column '{part.name}': {error}") from error
    return pa.Table.from_arrays(columns, schema=schema)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    values = column.combine_chunks()
    if isinstance(values, pa.ChunkedArray):  # zero chunks
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    if pa.types.is_dictionary(kind):  # decoded and encoded again: the bytes do not depend on the way here
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        return values.cast(kind.value_type).dictionary_encode().cast(kind)
    return values.cast(kind)


def _marks() -> dict[str, Any]:
    return {"producer": PRODUCER, "schema_version": SCHEMA_VERSION}


def _write_table(path: Path, table: pa.Table) -> None:
    with path.open("wb") as file:
        pq.write_table(table, file, compression="zstd", compression_level=3, version="2.6",
                       row_group_size=_ROW_GROUP, write_statistics=True)  # fmt: skip
        file.flush()
        os.fsync(file.fileno())


def _dump(value: Mapping[str, object]) -> str:
    return json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: object) -> object:
    """Strict JSON: no limit, no data (inf, nan) as null, tuples as lists, other objects as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(entry) for entry in value]
    if isinstance(value, bool) or value is None or isinstance(value, int | str):
        return value
    if hasattr(value, "item"):  # a NumPy scalar
        return _plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_run(path: Path) -> bool:
    if path.name.startswith(".") or not (path / MANIFEST).is_file() or (path / INCOMPLETE).exists():
        return False
    return any((path / f"{name}.parquet").is_file() for name in ("requests", "jobs"))


def _natural(name: str) -> tuple[int, int, str]:
    return (0, int(name), name) if name.isdigit() else (1, 0, name)


def _nearby(path: Path) -> str:
    """A hint that names runs below ``path``, if any."""
    if not path.is_dir():
        return ""
    found = [p for p in sorted(path.iterdir()) if (p / MANIFEST).is_file() and not p.name.startswith(".")]
    found = found or run_directories(path)
    names = ", ".join(f"'{p}'" for p in found[:4])
    return f"; try {names}" if names else ""
