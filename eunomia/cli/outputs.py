"""Where commands put their results, and the report and timeline beside them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eunomia.core.records import Comparison

RUNS = Path("runs")
TIMELINE_LAYERS = 30_000  # a few seconds of a busy platform: 10 MB, opens at once


def slug(name: str) -> str:
    """A name as a folder: lower case, words joined by hyphens."""
    return re.sub(r"[^a-z0-9.+_]+", "-", name.lower()).strip("-.") or "run"


def compare_folder(name: str) -> Path:
    """Folder of a comparison or a sweep."""
    return RUNS / slug(name)


def run_folder(name: str, policy: str, seed: int) -> Path:
    """Folder of a single run."""
    return RUNS / f"{slug(name)}-{slug(policy)}-{seed}"


def write_outputs(comparison: Comparison, folder: Path, data: Path | None = None) -> dict[str, str]:
    """Write ``report.html`` and ``timeline.json`` (of the first run); what was written, and where the data is."""
    from eunomia.report.html import write_report
    from eunomia.report.timeline import write_timeline

    write_report(folder / "report.html", comparison)
    write_timeline(folder / "timeline.json", comparison.runs[0], limit=TIMELINE_LAYERS)
    return {
        "report": str(folder / "report.html"),
        "timeline": str(folder / "timeline.json"),
        "data": str(data or folder),
    }
