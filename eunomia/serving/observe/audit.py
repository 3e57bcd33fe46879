"""Who asked for what, and what became of it: one JSON line per request.

Of a tenant's refusals beyond some a second (:mod:`eunomia.serving.observe.refusals`) there are numbers alone: it could
fill the disk with them; with ``whole`` each has its line. ``audit.jsonl`` is written now; at ``SEGMENT_BYTES`` it
becomes ``audit-TIME.jsonl`` and a new one begins. Old files are the operator's to move or delete. Only the server's
user may read them. Lines that the disk refuses are held and written later, up to ``MAX_HELD``, beyond that as many of
each tenant; what is lost is counted. Usage, which gates requests, is the ledger's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
from collections import Counter, deque
from datetime import UTC, datetime
from pathlib import Path

from eunomia.core.errors import OutputError
from eunomia.serving.observe.refusals import EVERY_S, Refusals

log = logging.getLogger("eunomia.serving")
SEGMENT_BYTES = 64 * 1024**2
MAX_HELD = 10_000
MAX_NAME = 200
NOW = "audit.jsonl"
LEFT_OUT = "left_out"  # the outcome of a line that counts others


class Audit:
    """One folder. Raises OutputError when it cannot be written at the start."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES, *, whole: bool = False) -> None:
        self.folder, self._most, self._whole = folder, segment_bytes, whole
        self.held: deque[tuple[str, bytes]] = deque()  # with their tenants
        self.lost: Counter[str] = Counter()  # lines, by tenant
        self._refusals = Refusals()
        self._later: asyncio.TimerHandle | None = None
        self._refused, self._file = False, -1  # by the disk, as the log has said; none is open
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise OutputError(f"the audit log in {folder} cannot be written: {error.strerror}") from None

    def record(
        self,
        tenant: str,
        model: str,
        request: str,
        outcome: str,
        response_s: float | None = None,
    ) -> None:
        """One request has its answer; ``response_s``: None = it was refused before it was accepted."""
        self._count_due()
        if response_s is not None or self._whole or self._refusals.admits(tenant, outcome):
            line = _line(tenant, model[:MAX_NAME], request, outcome)
            if response_s is not None:
                line["response_ms"] = round(response_s * 1e3, 3)
            self._add(tenant, line)
        self.flush()
        self._look_later()

    def _look_later(self) -> None:
        """Where something waits to be written: it may be long until the next request."""
        if self._later is None and (self.held or self._refusals.counted):
            with contextlib.suppress(RuntimeError):  # no event loop, no later
                self._later = asyncio.get_running_loop().call_later(EVERY_S, self._look)

    def _look(self) -> None:
        self._later = None
        self._count_due()
        self.flush()
        self._look_later()

    def _count_due(self, *, all_of_them: bool = False) -> None:
        for tenant, numbers in self._refusals.due(all_of_them=all_of_them):
            self._count(tenant, numbers)

    def _count(self, tenant: str, numbers: dict[str, int]) -> None:
        """Requests that have no lines of their own."""
        self._add(tenant, _line(tenant, "", "", LEFT_OUT) | {LEFT_OUT: numbers})

    def _add(self, tenant: str, line: dict[str, object]) -> None:
        self.held.append((tenant, json.dumps(line).encode() + b"\n"))
        if len(self.held) > MAX_HELD:
            self._lose_some()

    def _lose_some(self) -> None:
        """The oldest of whoever holds most, a hundredth of all at once."""
        ((tenant, holds),) = Counter(whose for whose, _ in self.held).most_common(1)
        most = left = min(holds, max(MAX_HELD // 100, 1))
        kept = deque[tuple[str, bytes]]()
        for whose, line in self.held:
            if left and whose == tenant:
                left -= 1
            else:
                kept.append((whose, line))
        self.held = kept
        if not self.lost:
            log.error("the audit log holds %d lines that the disk refuses; the oldest are lost", MAX_HELD)
        self.lost[tenant] += most

    def flush(self) -> None:
        """Write what is held, and begin a new file when this one is long enough."""
        try:
            while self.held:
                line = self.held[0][1]
                written = os.write(self._file, line)
                if written < len(line):  # the line is written anew, and has no room for an end
                    os.ftruncate(self._file, os.fstat(self._file).st_size - written)
                    raise OSError(errno.ENOSPC, "it took a part of a line")
                self.held.popleft()
                self._size += written
                if not self.held and self.lost:
                    lost, self.lost = self.lost, Counter()
                    for whose, count in lost.items():
                        self._count(whose, {"disk": count})
            if self._size >= self._most:
                self._rotate()
            self._refused = False
        except OSError as error:
            if not self._refused:
                log.error("the audit log cannot be written: %s", error.strerror)
            self._refused = True

    def close(self) -> None:
        """The last lines, on disk."""
        if self._later is not None:
            self._later.cancel()
        self._count_due(all_of_them=True)
        self.flush()
        if self.held:
            log.error("the audit log ends without lines that the disk refuses: %d", len(self.held))
        _finish(self._file)
        self._file = -1  # its number is another file's soon, and a request may end later

    def _open(self) -> None:
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self.folder / NOW, flags, 0o600)
        self._size = os.fstat(self._file).st_size

    def _rotate(self) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        name, number = f"audit-{stamp}.jsonl", 0
        while (self.folder / name).exists():
            number += 1
            name = f"audit-{stamp}-{number}.jsonl"
        with contextlib.suppress(
            FileNotFoundError
        ):  # moved by others, or no new one could be opened behind it
            os.rename(self.folder / NOW, self.folder / name)
        old = self._file
        self._open()
        try:
            asyncio.get_running_loop().run_in_executor(None, _finish, old)
        except RuntimeError:
            _finish(old)


def _line(tenant: str, model: str, request: str, outcome: str) -> dict[str, object]:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"at": at, "tenant": tenant, "model": model, "request": request, "outcome": outcome}


def _finish(file: int) -> None:
    """On disk, which takes a while for so many lines."""
    try:
        os.fsync(file)
    except OSError as error:
        log.error("a file of the audit log may not be on disk: %s", error.strerror)
    finally:
        os.close(file)
