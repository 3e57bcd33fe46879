"""Timeloop: ``timeloop-mapper.stats.txt`` or ``timeloop-model.stats.txt``, one file per layer.

Cycles and energy are those of the summary. DRAM words are reads and updates of all tensors at the level whose name
holds DRAM, over all its instances.
"""

from __future__ import annotations

import re
from pathlib import Path

from eunomia.core.errors import TraceError
from eunomia.hardware.results.figures import LayerFigures, positive, text_of

LEVEL = re.compile(r"^=== (.+?) ===\s*$", re.MULTILINE)
MOVED = re.compile(
    r"Utilized instances \(max\)\s*:\s*([\d.]+)"
    r"|(?:Scalar|Actual scalar) (?:reads|updates) \(per-instance\)\s*:\s*([\d.]+)"
)


def read(path: Path) -> list[LayerFigures]:
    """One entry, named as the file. Raises TraceError."""
    text = text_of(path)
    summary = text.rpartition("Summary Stats")[2] if "Summary Stats" in text else ""
    cycles = re.search(r"^Cycles:\s*(\S+)", summary, re.MULTILINE)
    if cycles is None:
        raise TraceError("has no 'Summary Stats' with 'Cycles:', so it is no stats.txt of Timeloop", path)
    energy = re.search(r"^Energy:\s*(\S+) uJ", summary, re.MULTILINE)
    joules = positive(energy.group(1), path, None, "Energy") * 1e-6 if energy else None
    return [
        LayerFigures(_name(path), positive(cycles.group(1), path, None, "Cycles"), joules, _dram_words(text))
    ]


def _dram_words(text: str) -> float | None:
    """Words that DRAM gives and takes; None where no level is called so."""
    parts = LEVEL.split(text)
    found = [body for name, body in zip(parts[1::2], parts[2::2], strict=True) if "DRAM" in name.upper()]
    if not found:
        return None
    words, instances = 0.0, 1.0
    for match in MOVED.finditer(found[0].partition("Summary Stats")[0]):
        if match.group(1):
            instances = max(float(match.group(1)), 1.0)
        else:
            words += instances * float(match.group(2))
    return words


def _name(path: Path) -> str:
    """``conv1`` of ``conv1/timeloop-mapper.stats.txt`` and of ``conv1.stats.txt``."""
    stem = path.name.removesuffix(".txt").removesuffix(".stats")
    return path.resolve().parent.name if stem.startswith("timeloop") else stem
