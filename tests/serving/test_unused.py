"""What lies unused goes back to the system a few blocks at a time, and by itself the C library gives nothing back."""

from __future__ import annotations

import asyncio
import ctypes
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eunomia.serving import server as servers
from eunomia.serving.devices import unused
from eunomia.serving.devices.unused import AT_ONCE, BLOCK, FREED_AT_ONCE, KEPT_BYTES, LOOKS, Unused
from tests import children
from tests.patience import until
from tests.serving.live import running

MIB = 1024**2
FREED = """
import asyncio, os
from eunomia.serving.devices.memory import own_bytes
from eunomia.serving.devices.unused import Unused, keep_freed_in_one_heap
held = lambda: own_bytes(os.getpid()) // 2**20
heap, seen = keep_freed_in_one_heap(), []
one = Unused(heap, lambda: seen.append(held()))
pieces = [bytes(b"a") * 2**18 for _ in range(600)]
small = [bytes(b"b") * 3000 for _ in range(100)]  # behind them in the heap
whole = bytes(b"c") * (150 * 2**20)
full = held()
del pieces, whole
freed = held()
asyncio.run(one.give_back())
seen.append(held())
print(full, freed, *seen)
"""


def glibc() -> bool:
    return hasattr(ctypes.CDLL(None), "mallinfo2")


@pytest.mark.skipif(not glibc(), reason="another C library gives memory back in its own way")
def test_300_mib_go_back_in_pieces_none_within_free() -> None:
    """By default the block of 150 MiB goes within ``free``, and what lies before a small block never goes."""
    done = children.run(children.python("-c", FREED), check=True)
    full, freed, *seen = map(int, done.stdout.split())
    assert freed > full - 10
    steps = [before - after for before, after in zip(seen, seen[1:], strict=False)]
    assert max(steps) <= AT_ONCE * BLOCK // MIB + 4
    assert seen[-1] < full - 280


GOES_ON = """
import os
from eunomia.serving.devices.memory import own_bytes
from eunomia.serving.devices.unused import give_back_as_usual, keep_freed_in_one_heap
keep_freed_in_one_heap()
give_back_as_usual()
whole, small = bytes(b"c") * (150 * 2**20), [bytes(b"b") * 3000 for _ in range(100)]
full = own_bytes(os.getpid())
del whole
print((full - own_bytes(os.getpid())) // 2**20)
"""


@pytest.mark.skipif(not glibc(), reason="another C library gives memory back in its own way")
def test_a_program_that_goes_on_without_its_server_gives_memory_back() -> None:
    """As it was, never again: glibc had been told not to, and nobody else did so any more."""
    assert int(children.run(children.python("-c", GOES_ON), check=True).stdout) > 140


@dataclass
class Blocks:
    """A heap with ``free`` blocks that have been used, and any number that have not."""

    free_blocks: int
    taken: set[int] = field(default_factory=set)
    emptied: list[int] = field(default_factory=list)
    given: int = 0
    used_bytes: int = 0

    def used(self) -> int:
        return self.used_bytes

    def end(self) -> int:
        return self.free_blocks * BLOCK

    def take(self) -> int:
        block = next(n for n in range(BLOCK, (len(self.taken) + 2) * BLOCK, BLOCK) if n not in self.taken)
        self.taken.add(block)
        return block

    def empty(self, block: int) -> None:
        self.emptied.append(block)

    def free(self, block: int) -> None:
        self.taken.remove(block)
        self.given += 1


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unused, "REST_S", 0.0)


def test_each_turn_empties_and_frees_only_so_many_blocks() -> None:
    heap, turns = Blocks(2 * FREED_AT_ONCE + 9), list[tuple[int, int]]()
    one = Unused(heap, lambda: turns.append((len(heap.emptied), heap.given)), lambda: 0)
    asyncio.run(one.give_back())
    turns.append((len(heap.emptied), heap.given))
    steps = [(a - b, c - d) for (b, d), (a, c) in zip(turns, turns[1:], strict=False)]
    assert max(emptied for emptied, _ in steps) == AT_ONCE
    assert max(given for _, given in steps) == FREED_AT_ONCE
    assert len(heap.emptied) == 2 * FREED_AT_ONCE + 8, "no block begins at 0"
    assert not heap.taken


def test_a_cut_leaves_no_block_taken() -> None:
    heap = Blocks(10 * AT_ONCE)

    async def main() -> None:
        task = asyncio.create_task(Unused(heap, lambda: None, lambda: 0).give_back())
        await asyncio.sleep(0)
        assert heap.taken
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    assert not heap.taken and heap.given


def test_memory_in_use_is_not_looked_through_and_some_may_lie_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unused, "DOUBT_BYTES", 0)
    heap, held = Blocks(100), [100 * MIB]
    heap.used_bytes = 60 * MIB
    one = Unused(heap, lambda: None, lambda: held[0])

    async def looks(number: int) -> int:
        before = heap.given
        for _ in range(number):
            await one.look()
        return heap.given - before

    assert asyncio.run(looks(LOOKS)) == 0
    held[0], heap.used_bytes = 900 * MIB, 860 * MIB
    assert asyncio.run(looks(LOOKS)) == 0
    heap.used_bytes = 860 * MIB - KEPT_BYTES
    assert asyncio.run(looks(LOOKS)) == 0
    heap.used_bytes -= 1
    assert asyncio.run(looks(LOOKS - 1)) == 0
    assert asyncio.run(looks(1)) > 0
    assert asyncio.run(looks(LOOKS)) == 0, "what did not go back then is not the heap's"


def test_what_did_not_go_back_is_tried_again_after_a_while() -> None:
    """It may have been freed meanwhile, and was taken for something else's for ever."""
    heap, held = Blocks(100), [100 * MIB]
    heap.used_bytes = 60 * MIB
    one = Unused(heap, lambda: None, lambda: held[0])
    held[0] += 3 * KEPT_BYTES

    async def looks_until_given() -> int:
        before, number = heap.given, 0
        while heap.given == before:
            await one.look()
            number += 1
        return number

    assert asyncio.run(looks_until_given()) == LOOKS
    assert asyncio.run(looks_until_given()) == KEPT_BYTES // unused.DOUBT_BYTES + LOOKS


def test_a_server_looks_in_turns_of_its_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heap = Blocks(10 * AT_ONCE)
    monkeypatch.setattr(unused, "EVERY_S", 0.01)
    monkeypatch.setattr(unused, "KEPT_BYTES", -(2**40))  # whatever lies unused is too much
    monkeypatch.setattr(unused, "keep_freed_in_one_heap", lambda: heap)
    ended = list[bool]()
    monkeypatch.setattr(servers, "give_back_as_usual", lambda: ended.append(True))
    with running(tmp_path):
        until(lambda: len(heap.emptied) > AT_ONCE)
        assert not ended
    assert ended
