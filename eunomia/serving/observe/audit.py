"""Who asked for what, and what became of it: one JSON line per request, never summed away.

``audit.jsonl`` is written now; at ``SEGMENT_BYTES`` it becomes ``audit-TIME.jsonl`` and a new one begins. Old files are
the operator's to move or delete. Only the server's user may read them. A line that the disk refuses is held and written
later, up to ``MAX_HELD`` lines: usage, which gates requests, is the ledger's business.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import deque
from datetime import UTC, datetime
from pathlib import Path

from eunomia.core.errors import OutputError

log = logging.getLogger("eunomia.serving")
SEGMENT_BYTES = 64 * 1024**2
MAX_HELD = 10_000
MAX_NAME = 200
NOW = "audit.jsonl"


class Audit:
    """One folder. Raises OutputError when it cannot be written at the start."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder, self._most = folder, segment_bytes
        self.held: deque[bytes] = deque(maxlen=MAX_HELD)
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
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "at": at, "tenant": tenant, "model": model[:MAX_NAME], "request": request, "outcome": outcome,
        }  # fmt: skip
        if response_s is not None:
            line["response_ms"] = round(response_s * 1e3, 3)
        self.held.append(json.dumps(line).encode() + b"\n")
        self.flush()

    def flush(self) -> None:
        """Write what is held, and begin a new file when this one is long enough."""
        try:
            while self.held:
                line = self.held[0]
                written = os.write(self._file, line)
                if written < len(line):  # the disk is full: the line is written anew, behind this torn piece
                    os.write(self._file, b"\n")
                    return
                self.held.popleft()
                self._size += written
            if self._size >= self._most:
                self._rotate()
        except OSError as error:
            if len(self.held) == 1:
                log.error("the audit log cannot be written: %s", error.strerror)

    def close(self) -> None:
        """The last lines, on disk."""
        self.flush()
        os.fsync(self._file)
        os.close(self._file)

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
        os.rename(self.folder / NOW, self.folder / name)
        old = self._file
        self._open()
        try:
            asyncio.get_running_loop().run_in_executor(None, _finish, old)
        except RuntimeError:
            _finish(old)


def _finish(file: int) -> None:
    """On disk, which takes a while for so many lines."""
    try:
        os.fsync(file)
    except OSError as error:
        log.error("an old file of the audit log may not be on disk: %s", error.strerror)
    finally:
        os.close(file)
