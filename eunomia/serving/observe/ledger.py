"""What every tenant used and was served, on disk before the answer leaves.

A journal of one line per request: ``CRC32 JSON``. One write per line, before the client has its answer, so
kill -9 of the server loses nothing that was acknowledged: an answer that cannot be written down is an error. The file
is synced every second, which bounds
what a power failure can take. When the journal is long, it starts anew, and its sums are written to a snapshot: in
small pieces between requests, then in one step, in a thread. Of a damaged journal all that can be read counts, and the
log says what does not; a damaged snapshot is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import threading
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from eunomia.core.atomic import write_text
from eunomia.core.errors import OutputError, RecordError
from eunomia.serving.observe.journal import (
    DAMAGED,
    Entry,
    Unread,
    journals,
    lines_of,
    missing,
    number,
    remark,
)
from eunomia.serving.observe.retired import Retired
from eunomia.serving.observe.snapshot import Usage, pieces, sums_in
from eunomia.serving.protocol.errors import Unavailable
from eunomia.serving.tenants.today import Today

log = logging.getLogger("eunomia.serving")
SEGMENT_BYTES = 8 * 1024**2
MAX_HELD = 10_000  # lines that wait in memory while the disk is full
PAUSE_S = 2e-3  # between two pieces of a snapshot


class Ledger:
    """One folder, one server; ``today`` gets the sums of the day, those of before a restart too.

    ``lock``: that of a server which still writes its own last lines; they are taken up once it has ended. A lock of
    another folder is let go.

    Raises RecordError when another server holds the folder or its snapshot is damaged, OutputError for other faults.
    """

    def __init__(
        self, folder: Path, watts: float = 0.0, today: Today | None = None, lock: int | None = None
    ) -> None:
        self.folder, self._watts = folder, watts
        self.today = today or Today()
        self.usage: dict[tuple[str, str], Usage] = {}
        self.held: deque[bytes] = deque()
        self.lost = 0
        self._segment = self._base = 0  # the journal that is written, and the first that no snapshot holds
        self._shared = False  # with another process: nothing is summed up
        self._read_to: dict[str, int] = {}  # of journals, by name
        self._damaged: set[str] = set()  # journals, by name
        self._refused = self._unsynced = self._goes_on = False  # the disk, as the log has said
        self._keeping = threading.Lock()  # while a snapshot takes the place of journals
        self._summing: asyncio.Task[None] | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if lock is not None and not _is(lock, folder / "lock"):
                os.close(lock)
                lock = None
            self._shared = lock is not None
            if lock is None:
                self.lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
                self._claim()
            else:
                self.lock = lock
            self._file = self._begin()
        except OSError as error:
            raise OutputError(
                f"ledger_dir: {error.filename or folder} cannot be used: {error.strerror}; {_remedy(error)}"
            ) from None

    @property
    def writable(self) -> bool:
        """Whether everything so far is in the journal."""
        return not self.held

    def record(self, retired: Retired, wall_s: float) -> Retired:
        """Write one request down, as it is returned: an answer that the disk refuses must not leave.

        Its line is held, as that of an error, and written later.
        """
        entry = (
            wall_s,
            retired.tenant,
            retired.model,
            retired.outcome,
            retired.response_s,
            retired.service_s,
        )
        self._count(entry)
        self.held.append(_line(entry))
        self.flush()
        if self.held and retired.answered:
            retired = replace(retired, outcome=Unavailable.reason)
            self._correct(entry, retired.outcome)
        if len(self.held) > MAX_HELD:
            self.held.popleft()
            self.lost += 1
            if self.lost == 1:
                log.error("the ledger holds %d lines that the disk refuses; the oldest are lost", MAX_HELD)
        return retired

    def flush(self) -> None:
        """Try to write what is held."""
        while self.held:
            line = self.held[0]
            try:
                written = os.write(self._file, line)
            except OSError as error:
                self._refuses(error.strerror)
                return
            if written < len(line):
                self._take_back(written)
                self._refuses("it took a part of a line")
                return
            self.held.popleft()
        if self._refused:
            self._refused = False
            log.warning("the ledger can be written again: no line waits in memory, requests are welcome")
        if os.fstat(self._file).st_size > SEGMENT_BYTES and not self._shared:
            self._compact_soon()

    def _correct(self, last: Entry, outcome: str) -> None:
        """Of the last line, which is held."""
        wall_s, tenant, model, before, response_s, device_s = last
        self.held[-1] = _line((wall_s, tenant, model, outcome, response_s, device_s))
        usage = self.usage[tenant, model]
        usage.outcomes[before] -= 1
        usage.outcomes[outcome] = usage.outcomes.get(outcome, 0) + 1
        usage.window[-1] = (wall_s, response_s, outcome)

    def _refuses(self, why: str | None) -> None:
        if not self._refused:
            self._refused = True
            log.error(
                "the ledger in %s cannot be written: %s; until it can, requests get 503: make room on its disk",
                self.folder,
                why,
            )

    def sync(self) -> None:
        """Wait until the journal is on disk."""
        try:
            os.fsync(self._file)
        except OSError as error:
            if not self._unsynced:
                log.error(
                    "the ledger in %s may not be on disk: %s; a loss of power would lose requests: look at the disk",
                    self.folder,
                    error.strerror,
                )
            self._unsynced = True
        else:
            self._unsynced = False

    def compact(self) -> None:
        """An empty journal, and sums into a snapshot; a crash in between counts nothing twice."""
        if not self._shared and (old := self._begin_segment()) is not None:
            os.close(old)
            self._keep_sums(self._segment, list(self._sums()))

    def _compact_soon(self) -> None:
        """The same between requests, where there are some."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.compact()
            return
        if self._summing is None or self._summing.done():
            old = self._begin_segment()
            if old is not None:
                self._summing = loop.create_task(self._sum_up(old, self._segment, self._sums()))

    async def _sum_up(self, old: int, segment: int, sums: Iterator[str]) -> None:
        def synced() -> None:
            with contextlib.suppress(OSError):  # what follows has its sums
                os.fsync(old)
            os.close(old)

        await asyncio.to_thread(synced)
        written = list[str]()
        for piece in sums:
            written.append(piece)
            await asyncio.sleep(PAUSE_S)
        await asyncio.to_thread(self._keep_sums, segment, written)

    def _sums(self) -> Iterator[str]:
        return pieces(self._segment, [self.today.day, dict(self.today.used_s)], self.usage)

    def _begin_segment(self) -> int | None:
        """The journal starts anew; the descriptor of the old one, or None where the disk refuses."""
        before, old = self._segment, self._file
        try:
            self._segment = 1 + max([before, *map(number, journals(self.folder))])
            self._file = self._open_segment()
        except OSError as error:
            self._segment = before
            if not self._goes_on:
                self._goes_on = True
                log.error(
                    "the ledger in %s goes on in its long journal: a new one cannot be opened: %s",
                    self.folder,
                    error.strerror,
                )
            return None
        self._goes_on = False
        self._read_to[self._journal(before).name] = os.fstat(old).st_size  # counted already
        return old

    def _keep_sums(self, segment: int, written: list[str]) -> None:
        """In one step; what it holds is in no journal from then on. Not while another process reads them."""
        with self._keeping:
            if not self._shared:
                self._replace(segment, written)

    def _replace(self, segment: int, written: list[str]) -> None:
        try:
            write_text(self.folder / "snapshot.json", "".join(written))
        except OutputError as error:
            log.error("the ledger's snapshot cannot be written: %s", error)
            return
        self._base = segment
        for path in journals(self.folder):
            if number(path) >= segment:
                break
            if path.name in self._damaged:
                path.replace(path.with_name(path.name + DAMAGED))
            else:
                path.unlink(missing_ok=True)

    def share(self) -> None:
        """Another process begins to read, and to write lines, into a journal of its own."""
        with self._keeping:
            self._shared = True

    def keep(self) -> None:
        """The other process has ended: its lines count, those before and after this one's."""
        for path in journals(self.folder):
            if self._base <= number(path) != self._segment:
                self._take_up(path, whole=True)
        self._shared = False

    def close(self) -> None:
        """Sync and let go of the folder; journals whose sums are not written yet are read at the next start."""
        if self._summing is not None:
            self._summing.cancel()
        self.share()
        self.flush()
        if self.held:
            log.error(
                "the ledger in %s ends without %d requests: the disk refuses their lines; none was acknowledged",
                self.folder,
                len(self.held),
            )
        self.sync()
        os.close(self._file)
        self._file = -1  # its number is another file's soon, and a request may end later
        os.close(self.lock)

    def _claim(self) -> None:
        import fcntl

        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.lock)
            raise RecordError(
                f"the ledger in {self.folder} belongs to another server that runs now"
            ) from None

    def _begin(self) -> int:
        """The journal to write; nothing stands behind a torn line."""
        try:
            self._read()
            self._segment += self._shared or self._journal(self._segment).name in self._damaged
            return self._open_segment()
        except BaseException:
            os.close(self.lock)
            raise

    def _read(self) -> None:
        snapshot = self.folder / "snapshot.json"
        if snapshot.exists():
            self._segment, (self.today.day, self.today.used_s), self.usage = sums_in(snapshot)
            self._base = self._segment
        paths = journals(self.folder)
        if gone := missing(self.folder, [number(path) for path in paths], self._base):
            log.warning(gone)
        for path in paths:
            if number(path) >= self._segment:
                self._segment = number(path)
                self._take_up(path, whole=not self._shared)

    def _take_up(self, path: Path, *, whole: bool) -> None:
        """Count what has come since the last time; ``whole``: a line without an end will get none."""
        data, begin = path.read_bytes(), self._read_to.get(path.name, 0)
        end = len(data) if whole else data.rfind(b"\n") + 1
        self._read_to[path.name] = end
        unread = list[Unread]()
        entries = list(lines_of(data[begin:end], unread, data.count(b"\n", 0, begin)))
        for entry in entries:
            self._count(entry)
        if unread:
            self._damaged.add(path.name)
            log.warning(remark(path, unread, len(entries)))

    def _count(self, entry: Entry) -> None:
        wall_s, tenant, model, outcome, response_s, device_s = entry
        usage = self.usage.setdefault((tenant, model), Usage())
        usage.outcomes[outcome] = usage.outcomes.get(outcome, 0) + 1
        usage.device_s += device_s
        usage.energy_j += device_s * self._watts
        usage.window.append((wall_s, response_s, outcome))
        self.today.add(tenant, device_s, wall_s)

    def _open_segment(self) -> int:
        path = self._journal(self._segment)
        return os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _journal(self, segment: int) -> Path:
        return self.folder / f"journal-{segment:08d}.log"

    def _take_back(self, written: int) -> None:
        """A part of a line, which is written again later; where that fails, its readers pass over it."""
        try:
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)
        except OSError as error:
            log.error("a torn line stays in the ledger: %s", error.strerror)


def _line(entry: Entry) -> bytes:
    text = json.dumps(entry, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x} {text}\n".encode()


def _is(file: int, path: Path) -> bool:
    """Whether a descriptor is that of this file."""
    return path.exists() and os.path.samestat(os.fstat(file), path.stat())


def _remedy(error: OSError) -> str:
    """What helps against it."""
    if isinstance(error, PermissionError):
        return "give the user that runs the server the right to read and write it"
    if isinstance(error, IsADirectoryError):
        return "a file is expected there: move the directory away"
    return "give a directory of its own"
