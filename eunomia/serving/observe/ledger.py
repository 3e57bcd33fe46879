"""What every tenant used and was served, on disk before the answer leaves.

A journal of one line per request: ``CRC32 JSON``. One write per line, before the client has its answer, so
kill -9 of the server loses nothing that was acknowledged; the file is synced every second, which bounds
what a power failure can take. A torn last line is ignored. When the journal is long, its sums are written
to a snapshot in one step and it starts anew.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from eunomia.core.atomic import write_text
from eunomia.core.errors import OutputError, RecordError
from eunomia.serving.observe.retired import Retired

log = logging.getLogger("eunomia.serving")
SEGMENT_BYTES = 8 * 1024**2
MAX_HELD = 10_000  # lines that wait in memory while the disk is full


Entry = tuple[
    float, str, str, str, float, float
]  # wall time, tenant, network, outcome, response, device time


@dataclass
class Usage:
    """Sums over all requests of one (tenant, model) pair, and its window of recent ones."""

    outcomes: dict[str, int] = field(default_factory=dict)
    device_s: float = 0.0
    energy_j: float = 0.0
    window: deque[tuple[float, float, str]] = field(
        default_factory=lambda: deque(maxlen=10_000)
    )  # wall time, response, outcome


class Ledger:
    """One folder, one server. Raises RecordError when another server holds it, OutputError when it cannot write."""

    def __init__(self, folder: Path, watts: float = 0.0) -> None:
        self.folder, self._watts = folder, watts
        self.usage: dict[tuple[str, str], Usage] = {}
        self.held: deque[bytes] = deque()
        self.lost = 0
        self._segment = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            self._claim()
            self._read()
            self._file = self._open_segment()
        except OSError as error:
            raise OutputError(f"the ledger in {folder} cannot be used: {error.strerror}") from None

    @property
    def writable(self) -> bool:
        """Whether everything so far is in the journal."""
        return not self.held

    def record(self, retired: Retired, wall_s: float) -> None:
        """Write one request down; when the disk refuses, it is held and written later."""
        entry = (
            wall_s,
            retired.tenant,
            retired.model,
            retired.outcome,
            retired.response_s,
            retired.service_s,
        )
        self._count(entry)
        text = json.dumps(entry, separators=(",", ":"))
        self.held.append(f"{zlib.crc32(text.encode()):08x} {text}\n".encode())
        self.flush()
        if len(self.held) > MAX_HELD:
            self.held.popleft()
            self.lost += 1

    def flush(self) -> None:
        """Try to write what is held."""
        while self.held:
            line = self.held[0]
            try:
                written = os.write(self._file, line)
            except OSError as error:
                if len(self.held) == 1:
                    log.error(
                        "the ledger cannot be written: %s; new requests are refused until it can",
                        error.strerror,
                    )
                return
            if written < len(
                line
            ):  # the disk filled up in the middle: end the torn line, write it again later
                self._end_torn_line()
                return
            self.held.popleft()
        if os.fstat(self._file).st_size > SEGMENT_BYTES:
            self.compact()

    def sync(self) -> None:
        """Wait until the journal is on disk."""
        os.fsync(self._file)

    def compact(self) -> None:
        """Sums into a snapshot, then an empty journal; a crash in between counts nothing twice."""
        old = self._segment
        self._segment += 1
        content = {
            "segment": self._segment,
            "usage": [
                [t, m, u.outcomes, u.device_s, u.energy_j, list(u.window)] for (t, m), u in self.usage.items()
            ],
        }
        try:
            write_text(self.folder / "snapshot.json", json.dumps(content, separators=(",", ":")))
        except OutputError as error:
            self._segment = old
            log.error("the ledger's snapshot cannot be written: %s", error)
            return
        fresh = self._open_segment()
        os.close(self._file)
        self._file = fresh
        for path in self._segments():
            if int(path.stem.split("-")[1]) < self._segment:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Sync and let go of the folder."""
        self.flush()
        self.sync()
        os.close(self._file)
        os.close(self._lock)

    def _claim(self) -> None:
        import fcntl

        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise RecordError(
                f"the ledger in {self.folder} belongs to another server that runs now"
            ) from None

    def _read(self) -> None:
        snapshot = self.folder / "snapshot.json"
        if snapshot.exists():
            content = json.loads(snapshot.read_text())
            self._segment = int(content["segment"])
            for tenant, model, outcomes, device_s, energy_j, window in content["usage"]:
                usage = self.usage[tenant, model] = Usage(dict(outcomes), device_s, energy_j)
                usage.window.extend((at_s, response_s, outcome) for at_s, response_s, outcome in window)
        for path in self._segments():
            number = int(path.stem.split("-")[1])
            if number >= self._segment:
                self._segment = number
                for entry in read_lines(path):
                    self._count(entry)

    def _count(self, entry: Entry) -> None:
        wall_s, tenant, model, outcome, response_s, device_s = entry
        usage = self.usage.setdefault((tenant, model), Usage())
        usage.outcomes[outcome] = usage.outcomes.get(outcome, 0) + 1
        usage.device_s += device_s
        usage.energy_j += device_s * self._watts
        usage.window.append((wall_s, response_s, outcome))

    def _segments(self) -> list[Path]:
        return sorted(self.folder.glob("journal-*.log"))

    def _open_segment(self) -> int:
        path = self.folder / f"journal-{self._segment:08d}.log"
        return os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _end_torn_line(self) -> None:
        try:
            os.write(self._file, b"\n")
        except OSError:  # still full; the reader skips the torn line even when the next one is glued to it
            return


def read_lines(path: Path) -> Iterator[Entry]:
    """Entries of a journal; torn lines are skipped."""
    for line in path.read_bytes().split(b"\n"):
        start = line.rfind(b" [") - 8  # a torn piece may stand before it
        if start < 0:
            continue
        text = line[start + 9 :]
        try:
            if int(line[start : start + 8], 16) == zlib.crc32(text):
                wall_s, tenant, model, outcome, response_s, device_s = json.loads(text)
                yield wall_s, tenant, model, outcome, response_s, device_s
        except ValueError:
            continue
