"""Which directories and files are Eunomia's own: nothing else is ever replaced or removed."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eunomia.core.atomic import INCOMPLETE, clear_output_errors, flush_text, occupied, staging, sync_directory
from eunomia.core.errors import OutputError
from eunomia.core.schemas import TABLES

MANIFEST = "manifest.json"
PRODUCER = "eunomia"  # what every manifest says under "producer"
FINISHED_CELLS = ".cells"
RENEWED = ".renewed"  # a new run inside the directory of the old one, until it takes the old one's place
BEING_WRITTEN = "written by process "  # how the mark of an unfinished comparison begins
FILES = frozenset(
    [f"{name}.parquet" for name in TABLES]
    + [MANIFEST, INCOMPLETE, "report.html", "timeline.json", "timeline.json.gz"]
    + ["sweep.parquet", "sweep.csv", ".sweep.parquet", ".sweep.csv"]
    + ["study.json", "study.csv", "results.md", "timings.json"]
    + ["plan.json", "plan.csv"]
)


def is_ours(directory: Path) -> bool:
    """Whether Eunomia wrote a run or a comparison there, finished or not."""
    manifest = _manifest(directory)
    if manifest.get("producer") == PRODUCER or PRODUCER in (manifest.get("versions") or ()):
        return "schema_version" in manifest
    try:
        return (directory / INCOMPLETE).read_text(encoding="utf-8").startswith(BEING_WRITTEN)
    except (OSError, ValueError):
        return False


def require_ours(target: Path) -> None:
    """Raise OutputError unless ``target`` is free, empty, or a directory that Eunomia wrote."""
    with clear_output_errors(target):
        if occupied(target) and not (target.is_dir() and is_ours(target)):
            raise OutputError(
                f"'{target}' exists and was not written by Eunomia, so it is not touched; "
                "choose another directory"
            )


def require_no_single_run(target: Path) -> None:
    """Raise OutputError when a comparison would be written over a single run."""
    if "tables" in _manifest(target):
        raise OutputError(f"'{target}' holds a single run; choose another directory for several runs")


@contextlib.contextmanager
def renewing(target: Path) -> Iterator[Path]:
    """A place to write into, whose content replaces what Eunomia wrote in ``target``.

    Where nothing else stands in ``target`` the two are exchanged in one step. Other people's files
    stay where they are: then the directory is marked incomplete while its files are replaced.
    """
    require_ours(target)
    if not occupied(target) or not has_foreign_files(target):
        with staging(target) as stage:
            yield stage
        return
    fresh = target / RENEWED
    with staging(fresh) as stage:
        yield stage
    with clear_output_errors(target):
        flush_text(target / INCOMPLETE, f"{BEING_WRITTEN}{os.getpid()}\n")
        _remove(
            path for path in own_files(target) if path.name != INCOMPLETE and fresh not in (path, path.parent)
        )
        for file in fresh.iterdir():
            os.replace(file, target / file.name)
        fresh.rmdir()
        (target / INCOMPLETE).unlink()
        sync_directory(target)


def has_foreign_files(directory: Path) -> bool:
    """Whether anything in ``directory`` was put there by somebody else."""
    return bool(set(directory.rglob("*")) - set(own_files(directory)))


def own_files(directory: Path) -> Iterator[Path]:
    """What Eunomia wrote in a run or a comparison; a directory comes after its content."""
    for entry in sorted(directory.iterdir()):
        if entry.is_symlink():
            continue
        if entry.is_file():
            if entry.name in FILES:
                yield entry
        elif entry.name == FINISHED_CELLS:
            yield from (file for file in entry.iterdir() if re.fullmatch(r"[0-9a-f]+\.json", file.name))
            yield entry
        elif entry.name == RENEWED:
            yield from own_files(entry)
            yield entry
        elif runs := [run for run in sorted(entry.iterdir()) if run.is_dir() and is_ours(run)]:
            for run in runs:
                yield from (file for file in run.iterdir() if file.is_file() and file.name in FILES)
                yield run
            yield entry


def _remove(paths: Iterator[Path]) -> None:
    for path in list(paths):
        if path.is_dir():
            with contextlib.suppress(OSError):  # somebody else's files are in it
                path.rmdir()
        else:
            path.unlink()


def _manifest(directory: Path) -> dict[str, Any]:
    try:
        found = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
