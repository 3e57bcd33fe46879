"""``FILE.py:NAME``: what a Python file of the user's calls a name.

Importing runs the file, so that a name that came over the network must never get here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from eunomia.core.errors import ConfigError, UnknownNameError

FILE_AND_NAME = re.compile(r"(?P<path>.+\.py):(?P<name>\w+)")


def as_path(given: object, what: str) -> Path:
    """The path of ``what`` that a caller gave. Raises ConfigError for anything but a text or a Path."""
    if isinstance(given, str | Path):
        return Path(given)
    raise ConfigError(f"{given!r} is given for {what}; give its path")


def split_file(text: str) -> tuple[Path, str] | None:
    """(file, name) of ``FILE.py:NAME``; None for a text of another form."""
    found = FILE_AND_NAME.fullmatch(text)
    return (Path(found["path"]), found["name"]) if found else None


class _Loader(SourceFileLoader):
    """Reads a file of the user's and leaves no ``__pycache__`` beside it."""

    def set_data(self, path: str, data: bytes, *, _mode: int = 0o666) -> None:  # type: ignore[override]
        """Keep no machine code."""


def from_file(path: Path, name: str, kind: str) -> Any:
    """What a Python file calls ``name``; ``kind``: what it should be. Raises ConfigError, UnknownNameError."""
    if not path.is_file():
        raise ConfigError(f"there is no {kind} file {path}; write FILE.py:NAME with the path of a file")
    module_name = f"eunomia_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(module_name, path, loader=_Loader(module_name, str(path)))
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the user's file raises
        raise ConfigError(f"{kind} file {path} cannot be loaded: {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        made = (key for key, value in vars(module).items() if getattr(value, "__module__", "") == module_name)
        known = [key for key in made if not key.startswith("_")] or ["none"]
        raise UnknownNameError(f"function in {path}", name, known)
    return getattr(module, name)
