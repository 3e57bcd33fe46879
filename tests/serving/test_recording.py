"""What a server notes about its requests takes the same room however many there were."""

from __future__ import annotations

import gc
import math
import sys

from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.observe.recording import SLICE, Recording
from eunomia.serving.observe.retired import Retired


def answered(n: int, outcome: str = "hit", deadline_s: float = 0.5) -> Retired:
    return Retired(
        "a",
        "net",
        outcome,
        0.25,
        0.125,
        0.1,
        n,
        0,
        deadline_s,
        0.0625,
        0.03125,
        "1",
        (n % 5, 3, 1),
        0.0625 * n,
        0.5,
        0.25,
        0.75,
        n,
        n % 2,
    )


def test_requests_come_back_as_they_were_noted() -> None:
    recording = Recording(kept=3)
    assert recording.requests() == []
    recording.retired(answered(1), 10.0)
    recording.retired(answered(2, "late", math.inf), 11.0)
    first = [9.75, "a", "net", 0.5, 1, "hit", 0.25, 0.125, 0.0625, 0.03125, 0, 0.0625, 0.5, 0.25, 0.75, 1, 1]
    second = [
        10.75,
        "a",
        "net",
        None,
        2,
        "late",
        0.25,
        0.125,
        0.0625,
        0.03125,
        1,
        0.125,
        0.5,
        0.25,
        0.75,
        2,
        0,
    ]
    assert recording.requests() == [first, second] and recording.sizes == [(1, 3, 1), (2, 3, 1)]
    recording.retired(answered(3), 12.0)
    recording.retired(answered(4), 13.0)
    assert [row[4] for row in recording.requests()] == [2, 3, 4], "the oldest is forgotten"


def test_slices_are_of_one_moment_and_lose_nobody() -> None:
    for kept in (2500, 10_000):  # the ring is full, or is not
        recording = Recording(kept=kept)
        for n in range(3300):
            recording.retired(answered(n), float(n))
        slices, whole = recording.slices(), recording.requests()
        for n in range(5000):
            recording.retired(answered(n + 5000), 1e4)
        sizes = [len(rows) for rows in slices]
        assert sum(sizes) == len(whole) == min(kept, 3300) and max(sizes) <= SLICE
        assert [row[4] for row in whole] == list(range(3300 - len(whole), 3300))


def test_a_recorded_request_leaves_no_object_behind() -> None:
    recording = Recording()
    recording.retired(answered(1), 1.0)
    gc.collect()
    before = sys.getallocatedblocks()
    for n in range(5000):
        recording.retired(answered(n + 1000), n + 0.5)
    gc.collect()
    assert sys.getallocatedblocks() - before < 500


def test_a_forgotten_network_leaves_no_sums_behind() -> None:
    costs = CostBook(1)
    sums = []
    for _ in range(20):
        network = costs.add("net", 3)
        costs.measured(network, 0, [1e-3] * 3)
        costs.rest_s(network)
        costs.forget(network)
        sums.append(len(costs._rest))
    assert max(sums) == 0
