"""Which files a configuration names, and whether they have changed."""

from __future__ import annotations

import os
from typing import Any


def file_stamps(content: Any) -> list[list[Any]]:
    """Path, size and time of every existing file that a text within ``content`` names.

    Part of every key under which results are kept, so that a changed network, trace or table is read again.
    """
    stamps = []
    for path in sorted({text for text in _texts(content) if os.sep in text or "." in text}):
        if os.path.isfile(path):
            found = os.stat(path)
            stamps.append([path, found.st_size, found.st_mtime_ns])
    return stamps


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else []
    return [text for part in parts for text in _texts(part)]
