"""Memory that the front end and all workers see: tensors lie here, messages only say where."""

from __future__ import annotations

import bisect
import contextlib
import mmap
import os
import tempfile
from dataclasses import dataclass, field

PAGE = 4096
FLAGS = 2 * PAGE  # the first pages hold ``NUMBERS`` per device
# Runs up to the first one stop at their next block boundary; the second is not started; the device has heard that the
# third is to end in its midst.
NUMBERS = 4
SMALL = 1024**2  # bytes of a piece
KEPT = 16  # one part in so many is for small pieces alone: no large one shuts everybody out


class ArenaFull(Exception):
    """No room for a tensor now; a matter of load, not of a fault."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A piece of the arena."""

    offset: int
    size: int


@dataclass
class Arena:
    """Shared memory with a first-fit allocator in the process that made it.

    Pieces are whole pages; neighbours that are free become one again. The file has no name, so
    nothing is left behind when every process that maps it is gone, kill -9 included.
    """

    size: int
    descriptor: int
    memory: mmap.mmap
    owner: bool = True
    _free: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._flags = memoryview(self.memory)[:FLAGS].cast("Q")
        self.free_bytes = sum(length for _, length in self._free)  # in however many pieces
        self.room_bytes = room = self.size - FLAGS  # for tensors
        self.most_bytes = max(room - room // KEPT, min(room, SMALL))  # of one piece, were nobody else there

    @classmethod
    def create(cls, size: int) -> Arena:
        """Room for ``size`` bytes of tensors, and the page of flags."""
        total = FLAGS + _pages(size)
        descriptor = nameless_file()
        os.truncate(descriptor, total)
        return cls(total, descriptor, mmap.mmap(descriptor, total), _free=[(FLAGS, total - FLAGS)])

    @classmethod
    def attach(cls, descriptor: int) -> Arena:
        """The same memory in a worker, which reads and writes but never allocates."""
        total = os.fstat(descriptor).st_size
        return cls(total, descriptor, mmap.mmap(descriptor, total), owner=False)

    def allocate(self, size: int) -> Slot:
        """The first piece that is large enough; raises ArenaFull. What is not small leaves some room for others."""
        need = _pages(max(size, 1))
        if need > SMALL and self.free_bytes - need < self.room_bytes - self.most_bytes:
            raise ArenaFull(f"{size} bytes are wanted, and some room is for small tensors")
        for n, (offset, length) in enumerate(self._free):
            if length >= need:
                if length == need:
                    del self._free[n]
                else:
                    self._free[n] = (offset + need, length - need)
                self.free_bytes -= need
                return Slot(offset, need)
        raise ArenaFull(f"{size} bytes are wanted")

    def release(self, slot: Slot) -> None:
        """Give a piece back; it joins its free neighbours. Raises ValueError for one that is free already."""
        free, offset, length = self._free, slot.offset, slot.size
        n = bisect.bisect(free, (offset, 0))
        begin, size = free[n - 1] if n else (0, 0)
        after = free[n][0] if n < len(free) else self.size
        if begin + size > offset or offset + length > after:
            raise ValueError(f"{length} bytes at {offset} of the arena are free already")
        self.free_bytes += length
        if n < len(free) and offset + length == after:
            length += free.pop(n)[1]
        if n and begin + size == offset:
            free[n - 1] = (begin, size + length)
        else:
            free.insert(n, (offset, length))

    def view(self, offset: int, size: int) -> memoryview:
        """Bytes of the arena; a caller's mistake cannot reach beyond it."""
        if not FLAGS <= offset <= offset + size <= self.size:
            raise ValueError(f"bytes {offset}..{offset + size} lie outside the arena of {self.size}")
        return memoryview(self.memory)[offset : offset + size]

    def stop(self, device: int, ticket: int) -> None:
        """Ask a device to stop the run with this ticket, and earlier ones, at the next block boundary."""
        self._flags[NUMBERS * device] = ticket

    def stopped(self, device: int, ticket: int) -> bool:
        """Whether a run must stop: one number read per boundary."""
        return self._flags[NUMBERS * device] >= ticket

    def skip(self, device: int, ticket: int) -> None:
        """Ask a device not to start the run with this ticket. An earlier one may still wait for its tensors."""
        self._flags[NUMBERS * device + 1] = ticket

    def skipped(self, device: int, ticket: int) -> bool:
        """Whether a run is not to be started any more."""
        return self._flags[NUMBERS * device + 1] == ticket

    def hears(self, device: int, number: int) -> None:
        """It knows that this run, or the trial with a number below zero, is to end in its midst."""
        self._flags[NUMBERS * device + 2] = number % 2**64

    def heard(self, device: int, number: int) -> bool:
        """Whether it does."""
        return self._flags[NUMBERS * device + 2] == number % 2**64

    def close(self) -> None:
        """Unmap; views that are still held keep their memory."""
        self._flags.release()
        with contextlib.suppress(BufferError):
            self.memory.close()
        os.close(self.descriptor)


def nameless_file() -> int:
    """A file that nobody else can open: in memory, of which /dev/shm may hold less (64 MiB in a container)."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("eunomia")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _pages(size: int) -> int:
    return -(-size // PAGE) * PAGE
