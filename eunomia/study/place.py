"""The folder of a comparison or a sweep: it holds one scenario, and a damaged run in it is computed again."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from eunomia.core.atomic import INCOMPLETE, clear_output_errors, write_text
from eunomia.core.errors import OutputError, RecordError
from eunomia.core.ownership import FILES, is_ours, own_files, require_no_single_run, require_ours
from eunomia.core.records import mark_incomplete, read_manifest
from eunomia.engines.store import content_key

CELLS = ".cells"  # folder of finished cells below a comparison
IDENTITY = "0.json"  # in CELLS: whose cells these are
FREE = ("compare", "sweep", "study", "policy", "seed", "description")  # may differ when a comparison goes on


def claim_as(root: Path, kind: str, key: str, overwrite: bool = False) -> None:
    """Make ``root`` the folder of what ``kind`` and ``key`` name, marked incomplete.

    What a stopped call left there is kept and gone on with. Raises OutputError, before anything is
    computed, where a single run, another scenario's results or somebody else's files are;
    ``overwrite`` removes another scenario's results first.
    """
    with clear_output_errors(root):
        require_no_single_run(root)
        require_ours(root)
        found, wanted = _owner(root), {"kind": kind, "scenario": key}
        if found is not None and found != wanted:
            if not overwrite:
                raise OutputError(
                    f"'{root}' holds another {found['kind']}, of other settings; choose another directory "
                    "with --out, or replace it with --force"
                )
            mark_incomplete(root)
            _clear(root)
    mark_incomplete(root)
    write_text(root / CELLS / IDENTITY, json.dumps(wanted))


def let_go(root: Path | None) -> None:
    """Undo ``claim_as`` where nothing was kept, so that the same call with its input mended finds a free folder."""
    if root is None or {path.name for path in root.iterdir()} - {CELLS, INCOMPLETE}:
        return
    if {path.name for path in (root / CELLS).iterdir()} - {IDENTITY}:
        return
    for path in (root / CELLS / IDENTITY, root / INCOMPLETE):
        path.unlink(missing_ok=True)
    for folder in (root / CELLS, root):
        folder.rmdir()


def key_of(table: Mapping[str, object]) -> str:
    """Hash of what two calls must share to go on in one folder."""
    return content_key({key: value for key, value in table.items() if key not in FREE})


def _owner(root: Path) -> dict[str, str] | None:
    """Kind and scenario of what is in ``root``; None where nothing is, or nothing that says so."""
    try:
        found = json.loads((root / CELLS / IDENTITY).read_text(encoding="utf-8"))
        return {"kind": str(found["kind"]), "scenario": str(found["scenario"])}
    except (OSError, ValueError, TypeError, KeyError):
        pass
    try:
        manifest = read_manifest(root)
    except RecordError:
        return None
    return {
        "kind": str(manifest.get("kind", "comparison")),
        "scenario": key_of(dict(manifest.get("config") or {})),
    }


def _clear(root: Path) -> None:
    """Remove what Eunomia wrote below ``root``, and nothing else; the mark that says whose it is stays."""
    for path in [path for path in own_files(root) if path != root / INCOMPLETE]:
        if path.is_dir():
            with contextlib.suppress(OSError):  # somebody else's files are in it
                path.rmdir()
        else:
            path.unlink()


def whole(run: Path) -> bool:
    """Whether a recorded run is there with all of its tables, as they were written."""
    try:
        tables = read_manifest(run)["tables"]
        return all(_sha256(run / f"{name}.parquet") == facts["sha256"] for name, facts in tables.items())
    except (RecordError, OSError, KeyError, TypeError, AttributeError):
        return False


def make_room(run: Path) -> None:
    """Remove the tables of a damaged run that has lost its manifest, so that it can be written again."""
    if run.is_dir() and not is_ours(run):
        with clear_output_errors(run):
            for name in FILES:
                (run / name).unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
