"""Which files a result depends on, and whether they have changed."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path

from eunomia.core.own_file import split_file


def file_stamps(content: object) -> list[list[object]]:
    """Path, size and time of every existing file that a text within ``content`` names.

    Part of every key under which results are kept, so that a changed network, trace or table is read again.
    """
    stamps = []
    for path in sorted({_path(text) for text in _texts(content) if os.sep in text or "." in text}):
        if os.path.isfile(path):
            found = os.stat(path)
            stamps.append([path, found.st_size, found.st_mtime_ns])
    return stamps


@lru_cache(maxsize=4)
def program_hash(without: tuple[str, ...] = ()) -> str:
    """Hash of all sources and data files of the installed package: changed code computes anew.

    ``without``: packages directly below ``eunomia`` that the results in question do not depend on.
    """
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in sorted(
        path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ):
        if path.relative_to(root).parts[0] in without:
            continue
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:20]


def content_hash(path: str) -> str | None:
    """Hash of a file's content; None where there is none."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if os.path.isfile(path) else None


def _path(text: str) -> str:
    """The file of ``FILE.py:NAME``; other texts as they are."""
    own = split_file(text)
    return text if own is None else str(own[0])


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else []
    return [text for part in parts for text in _texts(part)]
