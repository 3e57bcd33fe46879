"""What the soak says of takeovers, also when there was none."""

from __future__ import annotations

from benchmarks.serving.soak import upgraded


def test_takeovers_are_told_with_their_times_and_none_without() -> None:
    assert upgraded([]) == "0 times"
    said = upgraded([(1.0, 4.0), (3.0, 2.5)])
    assert said == "2 times: 2.0 s until it serves, 4.0 at most until the old one is gone"
