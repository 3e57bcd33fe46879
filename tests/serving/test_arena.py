"""The allocator of shared memory against a plain model of it."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.serving.devices.arena import FLAGS, PAGE, Arena, ArenaFull, Slot


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5 * PAGE)), max_size=60))
def test_pieces_never_overlap_and_all_room_comes_back(steps: list[tuple[bool, int]]) -> None:
    arena = Arena.create(16 * PAGE)
    held: list[Slot] = []
    for take, size in steps:
        if take:
            try:
                held.append(arena.allocate(size))
            except ArenaFull:
                assert arena.free_bytes < 16 * PAGE  # only what is held can be in the way
        elif held:
            arena.release(held.pop(size % len(held)))
        ends = sorted((s.offset, s.offset + s.size) for s in held)
        assert all(a[1] <= b[0] for a, b in zip(ends, ends[1:], strict=False))
        assert all(start >= FLAGS and stop <= arena.size for start, stop in ends)
        assert arena.free_bytes == 16 * PAGE - sum(s.size for s in held)
    for slot in held:
        arena.release(slot)
    assert arena.allocate(16 * PAGE) == Slot(FLAGS, 16 * PAGE)  # in one piece
    arena.close()


def test_two_processes_may_map_it_and_nobody_reaches_beyond() -> None:
    arena = Arena.create(PAGE)
    other = Arena.attach(arena.descriptor)
    slot = arena.allocate(8)
    arena.view(slot.offset, 8)[:] = b"12345678"
    assert bytes(other.view(slot.offset, 8)) == b"12345678"
    with pytest.raises(ValueError, match="outside the arena"):
        arena.view(slot.offset, 2 * PAGE)
    with pytest.raises(ValueError, match="outside the arena"):
        arena.view(0, 8)


def test_it_is_no_file_of_a_folder_that_may_be_too_small() -> None:
    """A container has 64 MiB in /dev/shm: as it was, the first tensor beyond them ended the server with SIGBUS."""
    arena = Arena.create(PAGE)
    if hasattr(os, "memfd_create"):
        assert "memfd:eunomia" in os.readlink(f"/proc/self/fd/{arena.descriptor}")
    arena.close()


def test_a_flag_is_seen_by_the_worker_for_runs_up_to_its_ticket() -> None:
    arena = Arena.create(PAGE)
    worker = Arena.attach(arena.descriptor)
    arena.stop(3, 7)
    assert worker.stopped(3, 7) and worker.stopped(3, 6)
    assert not worker.stopped(3, 8) and not worker.stopped(2, 7) and not worker.skipped(3, 7)
    arena.skip(255, 9)
    assert worker.skipped(255, 9) and not worker.skipped(255, 10) and not worker.stopped(255, 9)
