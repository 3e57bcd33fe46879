"""Freed memory of the front end goes back to the system a little at a time.

By itself, glibc gives it back within ``free``: all at once, 0.07 ms a MiB, while everybody else waits. Or never, if a
small block in use stands behind it. So it gives nothing back by itself any more. ``Unused`` takes free blocks, some in
each turn of the event loop, has the system empty their pages, and frees them. Addresses stay; pages come anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import mmap
import os
from collections.abc import Callable
from typing import Protocol

from eunomia.serving.devices.memory import NoDescriptor, keep_freed_memory, own_bytes

EVERY_S, LOOKS = 1.0, 2  # so many looks in a row find too much
KEPT_BYTES = 64 * 1024**2  # for the next requests
DOUBT_BYTES = (
    1024**2
)  # a look's doubt whether what did not go back is the heap's: it may have been freed meanwhile
BLOCK = 64 * 1024
AT_ONCE, FREED_AT_ONCE = 64, 1024  # blocks in one turn: each takes half a millisecond at most
REST_S = 5e-3  # between two such turns
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -3, -4, -8  # of mallopt(3)
USUAL = (  # glibc's own values, of thresholds that it moves the highest: it moves none again that has been set
    (M_ARENA_MAX, 0),
    (M_MMAP_MAX, 65536),
    (M_MMAP_THRESHOLD, 32 * 1024**2),
    (M_TRIM_THRESHOLD, 64 * 1024**2),
)


class Counts(ctypes.Structure):
    """What mallinfo2(3) says."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "used",
            "free",
            "top",
        )
    ]


PROTOTYPES = {
    "mallopt": (ctypes.c_int, (ctypes.c_int, ctypes.c_int)),
    "mallinfo2": (Counts, ()),
    "malloc": (ctypes.c_void_p, (ctypes.c_size_t,)),
    "free": (None, (ctypes.c_void_p,)),
    "madvise": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)),
    "sbrk": (ctypes.c_void_p, (ctypes.c_ssize_t,)),
}


class Heap(Protocol):
    """Where blocks of ``BLOCK`` bytes come from."""

    def used(self) -> int:
        """Bytes that are somebody's."""
        ...

    def end(self) -> int:
        """Behind its last byte."""
        ...

    def take(self) -> int:
        """A block of nobody's: its address, 0 = there is none."""
        ...

    def empty(self, block: int) -> None:
        """The system has its pages again."""

    def free(self, block: int) -> None:
        """It is nobody's again."""


class OneHeap:
    """The C library's, for all threads and for blocks of any size. Raises OSError where it is no glibc of today."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.PyDLL(
                None
            )  # the interpreter stays with this thread: a call takes a microsecond
            for name, (result, arguments) in PROTOTYPES.items():
                call = getattr(self._library, name)
                call.restype, call.argtypes = result, arguments
        except (AttributeError, TypeError) as error:
            raise OSError(f"no heap of glibc: {error}") from None
        for parameter, value in ((M_ARENA_MAX, 1), (M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, -1)):
            if not self._library.mallopt(parameter, value):
                raise OSError(f"mallopt({parameter}, {value}) fails")

    def used(self) -> int:
        """Bytes that are somebody's."""
        return int(self._library.mallinfo2().used)

    def end(self) -> int:
        """Behind its last byte."""
        return int(self._library.sbrk(0))

    def take(self) -> int:
        """A block of nobody's: its address, 0 = there is none."""
        return self._library.malloc(BLOCK) or 0

    def empty(self, block: int) -> None:
        """The system has its whole pages again."""
        begin = -(-block // mmap.PAGESIZE) * mmap.PAGESIZE
        size = (block + BLOCK - begin) // mmap.PAGESIZE * mmap.PAGESIZE
        self._library.madvise(begin, size, mmap.MADV_DONTNEED)

    def free(self, block: int) -> None:
        """It is nobody's again."""
        self._library.free(block)


def keep_freed_in_one_heap() -> Heap | None:
    """From now on; None where there is no such heap. Called before threads begin: each might get one of its own."""
    try:
        return OneHeap()
    except OSError:
        keep_freed_memory()
        return None


def give_back_as_usual() -> None:
    """The C library does so by itself from now on: nobody else does, where a program goes on without its server."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in USUAL:
            mallopt(parameter, value)


async def give_back_unused(begin: Callable[[], None]) -> None:
    """What lies unused, again and again, until cancelled. ``begin``: this turn of the event loop has work."""
    heap = keep_freed_in_one_heap()
    if heap is not None:
        await Unused(heap, begin).keep()


class Unused:
    """``held``: bytes of memory that this process has for itself."""

    def __init__(
        self, heap: Heap, begin: Callable[[], None], held: Callable[[], int] = lambda: own_bytes(os.getpid())
    ) -> None:
        self._heap, self._begin, self._held = heap, begin, held
        self._elsewhere = held() - heap.used()  # bytes that are not of the heap
        self._found = 0

    async def keep(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            with contextlib.suppress(NoDescriptor):
                await self.look()

    async def look(self) -> None:
        """Give back what is free, if there is too much of it for long; raises NoDescriptor."""
        self._elsewhere -= DOUBT_BYTES
        unused = self._held() - self._heap.used() - self._elsewhere
        self._elsewhere += min(unused, 0)
        self._found = self._found + 1 if unused > KEPT_BYTES else 0
        if self._found >= LOOKS:
            self._found = 0
            await self.give_back()
            self._elsewhere = self._held() - self._heap.used()

    async def give_back(self) -> None:
        """All that is free; what is freed meanwhile stays."""
        taken, end = list[int](), self._heap.end()
        try:
            while self._empty_some(taken, end):
                await asyncio.sleep(REST_S)
            while len(taken) > FREED_AT_ONCE:
                self._free(taken, FREED_AT_ONCE)
                await asyncio.sleep(REST_S)
        finally:
            self._free(taken, len(taken))

    def _empty_some(self, taken: list[int], end: int) -> bool:
        """False = there is no more: the last block has never been used."""
        self._begin()
        for _ in range(AT_ONCE):
            block = self._heap.take()
            if not block:
                return False
            taken.append(block)
            if block + BLOCK > end:
                return False
            self._heap.empty(block)
        return True

    def _free(self, taken: list[int], number: int) -> None:
        self._begin()
        for _ in range(number):
            self._heap.free(taken.pop())
