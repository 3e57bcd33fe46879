"""A journal of the ledger, one entry a line: ``CRC32 JSON``. What cannot be read is passed over, and pointed out."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ENTRY, END = re.compile(rb"[0-9a-f]{8} \["), re.compile(rb"\]")  # how an entry begins and ends
LONGEST = 4096  # bytes of an entry; names have 200 letters
NAME = re.compile(r"journal-(\d{8,})\.log")
DAMAGED = ".damaged"  # after the name of a journal that was kept for its unreadable pieces
Entry = tuple[
    float, str, str, str, float, float
]  # wall time, tenant, network, outcome, response, device time


class Unread(NamedTuple):
    """Bytes that are no entry. ``torn``: they are the file's last, and look as an entry without its end does."""

    line: int
    size: int
    torn: bool


def journals(folder: Path) -> list[Path]:
    """Of a ledger's folder, the oldest first; other files are none."""
    return sorted((path for path in folder.glob("journal-*.log") if NAME.fullmatch(path.name)), key=number)


def number(journal: Path) -> int:
    """By which they follow each other."""
    return int(journal.stem.split("-")[1])


def read_lines(path: Path) -> Iterator[Entry]:
    """Entries of a journal; torn lines are skipped."""
    return lines_of(path.read_bytes())


def lines_of(data: bytes, unread: list[Unread] | None = None, before: int = 0) -> Iterator[Entry]:
    """Entries of a part of a journal that ends with a line. ``unread`` gets the rest, behind ``before`` other lines."""
    lines, found = data.split(b"\n"), list[Unread]() if unread is None else unread
    for n, line in enumerate(lines):
        entry = _entry(line)
        if entry is not None:
            yield entry
        elif line:
            yield from _glued(line, before + n + 1, n + 1 == len(lines), found)


def _glued(line: bytes, at: int, last: bool, unread: list[Unread]) -> Iterator[Entry]:
    """Entries of a line that is not one whole entry: torn pieces, or one without its end, may stand around others."""
    over = 0
    for found in ENTRY.finditer(line):
        if found.start() < over:  # a name that looks like the beginning of an entry
            continue
        for end in END.finditer(line, found.end(), found.start() + LONGEST):
            entry = _entry(line[found.start() : end.end()])
            if entry is not None:
                if found.start() > over:
                    unread.append(Unread(at, found.start() - over, torn=False))
                over = end.end()
                yield entry
                break
    rest = line[over:]
    if rest:
        unread.append(Unread(at, len(rest), torn=last and len(rest) < LONGEST and _begins(rest)))


def _begins(piece: bytes) -> bool:
    """Whether an entry may have begun so."""
    return bool(ENTRY.match(piece + b"00000000 ["[len(piece) :]))


def _entry(text: bytes) -> Entry | None:
    """Of exactly these bytes."""
    try:
        if text[8:10] != b" [" or int(text[:8], 16) != zlib.crc32(text[9:]):
            return None
        wall_s, tenant, model, outcome, response_s, device_s = json.loads(text[9:])
    except ValueError:
        return None
    return wall_s, tenant, model, outcome, response_s, device_s


def remark(path: Path, unread: Sequence[Unread], counted: int) -> str:
    """What an operator must know of a journal that was not read whole, and can do."""
    first, size = unread[0], sum(piece.size for piece in unread)
    if first.torn:
        return (
            f"the ledger's {path}, line {first.line}, has no end: {size} bytes of one request are left out, all before "
            f"count ({counted}). A crash in the midst of a write leaves this, and nothing is to be done; after a loss "
            "of power, requests of the last second may be missing"
        )
    return (
        f"the ledger's {path} is damaged from line {first.line} on: {size} bytes in {len(unread)} places cannot be "
        f"read and are left out, all other requests count ({counted}). To have all, stop the server, put this file "
        f"back from a backup and start again. It is kept, as {path.name}{DAMAGED} once its sums are in the snapshot"
    )


def missing(folder: Path, present: Sequence[int], base: int) -> str:
    """The same of journals that are not there: ``base`` is the first that no snapshot holds."""
    gone = sorted(set(range(base, max(present, default=base) + 1)) - set(present))
    if not gone or not (present or base):  # a new folder
        return ""
    first = f"journal-{gone[0]:08d}.log"
    what = first if len(gone) == 1 else f"{len(gone)} journals, {first} the first,"
    cause = "" if base else ", or snapshot.json, which holds the sums of the oldest"
    verb = "is" if len(gone) == 1 else "are"
    return (
        f"the ledger in {folder} is not whole: {what} {verb} missing{cause}. What stood there does not count. To have "
        "all, stop the server, put the files back from a backup and start again"
    )
