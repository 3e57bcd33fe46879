"""Costs on disk: one small file per (network, type, model version), found by content hash.

Folder: $EUNOMIA_CACHE, else $XDG_CACHE_HOME/eunomia, else ~/.cache/eunomia. Files are written whole and
renamed into place, so several processes may share the folder; a file that does not check out is
ignored and written again. No pickle: JSON with a checksum.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import tempfile
from pathlib import Path

from eunomia.core.caches import cache_home

COLUMNS = ("compute_s", "buffer_s", "dram_bytes", "energy_j")
Columns = dict[str, list[float]]


def cache_dir() -> Path:
    """Where costs are kept."""
    if named := os.environ.get("EUNOMIA_CACHE"):
        return Path(named)
    return cache_home() / "eunomia"


def key_of(parts: list[object]) -> str:
    """Content hash of everything that the costs depend on."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def read(key: str, rows: int) -> Columns | None:
    """The columns under ``key``, or None: absent, unreadable, damaged or of another length."""
    try:
        entry = json.loads(_path(key).read_text(encoding="utf-8"))
        columns: Columns = {name: [float(v) for v in entry["columns"][name]] for name in COLUMNS}
        sound = entry["key"] == key and entry["checksum"] == _checksum(columns)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    whole = all(len(v) == rows and all(math.isfinite(x) and x >= 0.0 for x in v) for v in columns.values())
    return columns if sound and whole else None


def write(key: str, columns: Columns) -> None:
    """Keep ``columns`` under ``key``. A folder that cannot be written is no error: the cost is computed again."""
    path = _path(key)
    text = json.dumps({"key": key, "checksum": _checksum(columns), "columns": columns})
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, stage = tempfile.mkstemp(dir=path.parent, prefix=f".{key}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(stage, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(stage)
            raise


def _path(key: str) -> Path:
    return cache_dir() / "costs" / f"{key}.json"


def _checksum(columns: Columns) -> str:
    return hashlib.sha256(json.dumps(columns, sort_keys=True).encode()).hexdigest()[:16]
