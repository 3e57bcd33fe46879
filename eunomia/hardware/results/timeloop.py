"""Timeloop: ``timeloop-mapper.stats.txt`` or ``timeloop-model.stats.txt``, one file per layer.

Cycles and energy are those of the summary; energy per operation, where it is there, as the total is printed to 0.01 uJ
only. DRAM words are reads and updates of all tensors over all instances of the level that is called DRAM or is made of
it; without one, of the outermost of several levels, unless that is SRAM.
"""

from __future__ import annotations

import re
from pathlib import Path

from eunomia.core.errors import TraceError
from eunomia.core.sheet import text_of
from eunomia.hardware.results.figures import LayerFigures, number, positive

LEVEL = re.compile(r"^=== (.+?) ===\s*$", re.MULTILINE)
SUMMARY = re.compile(r"^(?:Summary|Engine) Stats$", re.MULTILINE)  # Engine: before 2020
DRAM = re.compile(r"^\s*Technology\s*:\s*DRAM\s*$", re.MULTILINE)
SRAM = re.compile(r"^\s*Technology\s*:\s*SRAM\s*$", re.MULTILINE | re.IGNORECASE)
STORES = re.compile(r"scalar (?:reads|updates) \(per-instance\)", re.IGNORECASE)
PER_OPERATION = re.compile(  # the last one counts operations that are really done
    r"^\D*(?:Computes|MACCs|Operations) = (\d+)\s+([fp])J/\S+\n(?:.*=.*\n)*?\s*Total\s*= ([\d.]+)",
    re.MULTILINE,
)
MOVED = re.compile(
    r"Utilized instances \(max\)\s*:\s*([\d.]+)"
    r"|(?:Scalar|Actual scalar) (?:reads|updates) \(per-instance\)\s*:\s*([\d.]+)"
)


def read(path: Path) -> list[LayerFigures]:
    """One entry, named as the file. Raises TraceError."""
    text = text_of(path).replace("\r\n", "\n")
    headings = SUMMARY.split(text)
    summary = headings[-1] if len(headings) > 1 else ""
    cycles = re.search(r"^Cycles:\s*(\S+)", summary, re.MULTILINE)
    if cycles is None:
        raise TraceError("has no 'Summary Stats' with 'Cycles:', so it is no stats.txt of Timeloop", path)
    found = positive(cycles.group(1), path, None, "Cycles")
    return [LayerFigures(_name(path), found, _joules(path, summary), _dram_words(path, text))]


def _joules(path: Path, summary: str) -> float | None:
    """None where the file gives none, or less than it prints. Raises TraceError."""
    finer = PER_OPERATION.findall(summary)
    if finer:
        count, unit, each = finer[-1]
        return float(count) * number(each, path, None, "Energy") * {"f": 1e-15, "p": 1e-12}[unit] or None
    energy = re.search(r"^Energy:\s*([\d.e+]+) uJ", summary, re.MULTILINE)
    return number(energy.group(1), path, None, "Energy") * 1e-6 or None if energy else None


def _dram_words(path: Path, text: str) -> float | None:
    """Words that DRAM gives and takes; None where no level can be it. Raises TraceError."""
    parts = LEVEL.split(text.partition("\nNetworks\n")[0])
    levels = [
        (name, body) for name, body in zip(parts[1::2], parts[2::2], strict=True) if STORES.search(body)
    ]
    found = [body for name, body in levels if "DRAM" in name.upper() or DRAM.search(body)]
    if not found and len(levels) > 1 and not SRAM.search(levels[-1][1]):
        found = [levels[-1][1]]
    if not found:
        return None
    words, instances = 0.0, 1.0
    for match in MOVED.finditer(SUMMARY.split(found[0])[0]):
        if match.group(1):
            instances = max(number(match.group(1), path, None, "DRAM"), 1.0)
        else:
            words += instances * number(match.group(2), path, None, "DRAM")
    return words


def _name(path: Path) -> str:
    """``conv1`` of ``conv1/timeloop-mapper.stats.txt`` and of ``conv1.stats.txt``."""
    stem = path.name.removesuffix(".txt").removesuffix(".stats")
    return path.resolve().parent.name if stem.startswith("timeloop") else stem
