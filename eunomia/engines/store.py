"""Finished cells on disk: one small JSON file each, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eunomia.core.atomic import write_text


def content_key(content: object) -> str:
    """Hash of a JSON-able value: equal contents have equal keys."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


class CellStore:
    """A folder ``<key>.json`` per finished cell. A file that cannot be read counts as absent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, key: str) -> dict[str, Any] | None:
        """The result of a finished cell, or None."""
        try:
            stored = json.loads((self.folder / f"{key}.json").read_text())
        except (OSError, ValueError):
            return None
        result = stored.get("result") if isinstance(stored, dict) and stored.get("key") == key else None
        return result if isinstance(result, dict) else None

    def write(self, key: str, name: str, result: Mapping[str, object]) -> None:
        """Write a finished cell atomically. Raises OutputError when the disk refuses."""
        text = json.dumps({"key": key, "name": name, "result": result}, separators=(",", ":"))
        write_text(self.folder / f"{key}.json", text)
