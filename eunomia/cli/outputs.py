"""Where commands put their results, and the report and timeline beside them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eunomia.core.records import Comparison

RUNS = Path("runs")


def slug(name: str) -> str:
    """A name as a folder: lower case, words joined by hyphens."""
    return re.sub(r"[^a-z0-9.+_]+", "-", name.lower()).strip("-.") or "run"


def compare_folder(name: str) -> Path:
    """Folder of a comparison or a sweep."""
    return RUNS / slug(name)


def run_folder(name: str, policy: str, seed: int) -> Path:
    """Folder of a single run."""
    return RUNS / f"{slug(name)}-{slug(policy)}-{seed}"


def publish(comparison: Comparison, folder: Path, data: Path | None = None) -> dict[str, str]:
    """Write the report of recorded runs anew, as their wing draws it; what was written, and where the data is."""
    from eunomia.study.wing import wing_of

    first = comparison.runs[0].manifest if comparison.runs else comparison.manifest
    paths = wing_of("cluster" if "throughputs" in first else "inference").publish(comparison, folder)
    return {**paths, "data": str(data or folder)}


def check_free(folder: Path, force: bool) -> None:
    """Refuse a place that is taken before anything is computed."""
    from eunomia.core.atomic import clear_output_errors, occupied
    from eunomia.core.errors import OutputError
    from eunomia.core.ownership import require_ours

    with clear_output_errors(folder):
        require_ours(folder)
        if occupied(folder) and not force:
            raise OutputError(f"'{folder}' exists already; choose another name, or replace it with --force")
