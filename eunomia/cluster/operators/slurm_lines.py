"""The lines of ``slurm.conf``, and how it lists nodes.

Lines are ``Key=Value``; ``NodeName`` and ``PartitionName`` lines hold several. Keys count in any case, ``#`` starts a
remark, ``\\`` at the end joins lines. A file that is included is read if it lies beside the one that names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from eunomia.cluster.traces.lines import text_lines
from eunomia.core.errors import TraceError

MOST_NODES = 100_000
DEEPEST = 4  # files that include files
PART = re.compile(r"\[([^\]]*)\]")


Place = tuple[Path, int]  # file and line


def lines_of(path: Path, above: tuple[Path, ...] = ()) -> Iterator[tuple[Place, dict[str, str]]]:
    """(place, keys in lower case with their values) of each line; no file is read into itself. Raises TraceError."""
    above = (*above, path.resolve())
    for line, text in _joined(path):
        if line == 1 and text.startswith("Configuration data"):
            raise TraceError("scontrol show config lists no nodes; give the slurm.conf itself", path, line)
        cell = _pairs(path, line, text)
        named = cell.get("include", "").split("/")[-1].strip()
        beside = path.parent / named
        if named and beside.is_file() and beside.resolve() not in above and len(above) <= DEEPEST:
            yield from lines_of(beside, above)
        else:
            yield (path, line), cell


def _joined(path: Path) -> Iterator[tuple[int, str]]:
    """Lines without remarks, continued ones joined. Raises TraceError."""
    start, text = 0, ""
    for line, content in text_lines(path):
        start = start if text else line
        text += content.partition("#")[0].strip()
        if text.endswith("\\"):
            text = text[:-1]
        elif text:
            yield start, text
            text = ""
    if text:
        yield start, text


def _pairs(path: Path, line: int, text: str) -> dict[str, str]:
    """Keys in lower case, values as they are, without quotes."""
    found = {}
    for part in re.findall(r'[^\s"]*"[^"]*"|\S+', text):
        key, equals, value = part.partition("=")
        if not equals and key.lower() == "include":
            return {"include": text[len(key) :]}
        if not equals or not key:
            raise TraceError(f"'{part[:40]}' is no Key=Value; write it as in slurm.conf(5)", path, line)
        found[key.lower()] = value.strip('"')
    return found


def hosts(path: Path, line: int, text: str) -> list[str]:
    """``gpu[001-003,7],r[0-1]n[1-4],login`` as names. Raises TraceError."""
    names: list[str] = []
    for part in re.split(r",(?![^\[]*\])", text):
        fixed = PART.split(part)  # text, numbers, text, numbers, ..., text
        if any(mark in piece for piece in fixed[::2] for mark in "[]"):
            raise TraceError(f"'{text[:40]}' is no list of nodes; write gpu[001-004],big1", path, line)
        choices = [_numbers(path, line, piece) if at % 2 else [piece] for at, piece in enumerate(fixed)]
        count = 1
        for choice in choices:
            count *= len(choice)
        if len(names) + count > MOST_NODES:
            raise TraceError(f"more than {MOST_NODES} nodes; split the line", path, line)
        names += filter(None, map("".join, product(*choices)))
    return names


def _numbers(path: Path, line: int, text: str) -> list[str]:
    """``001-003,7`` as 001, 002, 003, 7."""
    found: list[str] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not (low.isdigit() and (high.isdigit() or not dash)):
            raise TraceError(f"'{part[:40]}' is no range of nodes; write gpu[001-004]", path, line)
        if int(high or low) - int(low) > MOST_NODES:
            raise TraceError(f"more than {MOST_NODES} nodes; split the line", path, line)
        found += [str(number).zfill(len(low)) for number in range(int(low), int(high or low) + 1)]
    return found
