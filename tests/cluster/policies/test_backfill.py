"""Backfill: the profile of free devices against a count second by second, and two types worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.cluster.policies.backfill import Backfill, Profile
from eunomia.contract.cluster import Cluster
from tests.cluster.policies.peer_views import view_of

END_S = 400  # later than anything that these profiles hold


@given(
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 3)), max_size=5),
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 6)), min_size=1, max_size=8),
)
def test_places_are_the_first_that_fit_second_by_second(
    free: int, released: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    profile, seconds = Profile(5.0, free), np.full(END_S, free)
    for at_s, count in released:
        profile.release(5.0 + at_s, count)
        seconds[at_s:] += count
    for length_s, count in asked:
        fits = (t for t in range(END_S - length_s) if seconds[t : t + length_s].min() >= count)
        expected = next(fits, None)
        assert profile.earliest(float(length_s), count) == (np.inf if expected is None else 5.0 + expected)
        if expected is not None:
            profile.reserve(5.0 + expected, float(length_s), count)
            seconds[expected : expected + length_s] -= count


@pytest.mark.parametrize(
    ("policy", "devices"),
    [
        (Backfill(), [[1, 0], [0, 0], [0, 1], [0, 0]]),
        (Backfill("conservative"), [[1, 0], [0, 0], [0, 0], [0, 1]]),
        (Backfill(depth=1), [[1, 0], [0, 0], [0, 0], [0, 0]]),
        (Backfill(depth=2), [[1, 0], [0, 0], [0, 1], [0, 0]]),
    ],
)
def test_without_a_reservation_a_job_takes_the_slow_device_that_is_free(
    policy: Backfill, devices: list[list[int]]
) -> None:
    """One fast device, held for 10 s more, and a free one of a tenth of its speed.

    Job 1 (5 s) would end at 15 s on the fast one and at 50 s on the slow one: it waits for the fast one. Job 2 (4 s)
    would end at 19 s after it, or at 40 s now. EASY gives it no reservation, so it starts now; a conservative one
    waits, and leaves the slow device to job 3 (1 s), which ends there at 10 s, before its place on the fast one.
    """
    view = view_of(
        Cluster.of({"fast": 1, "slow": 1}), [[1.0, 0.1]] * 4, [10.0, 5.0, 4.0, 1.0], holdings=[(0, 0, 1)]
    )
    answer = policy.allocate(view)
    assert answer.devices is not None and answer.devices.tolist() == devices
