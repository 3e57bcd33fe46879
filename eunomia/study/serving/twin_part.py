"""A part of a recording, as a recording of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eunomia.core.errors import ConfigError
from eunomia.study.serving.twin import Twin
from eunomia.study.serving.twin_training import stretch

MOST = 10_000  # requests that the server's dispatcher replays: 1 to 2 ms each


def part(twin: Twin, start: int, end: int) -> Twin:
    """Requests ``start`` .. ``end - 1``, the first at time 0."""
    rows = slice(start, end)
    return replace(
        twin,
        requests=stretch(twin.requests, start, end),
        hit=twin.hit[rows],
        response_s=twin.response_s[rows],
        reach_s=twin.reach_s[rows],
        answer_s=twin.answer_s[rows],
        gone_s=twin.gone_s[rows],
        given_up=twin.given_up[rows],
        failed=twin.failed[rows],
        factor=twin.factor[rows],
        share=twin.share[rows],
        more_s=twin.more_s[rows],
        once=twin.once[rows],
        worked_on=twin.worked_on[rows],
    )


def latest(twin: Twin, last_s: float = np.inf) -> Twin:
    """What came in the last ``last_s`` seconds; ``MOST`` requests at most where the dispatcher replays them.

    Those still under way when the part begins are not in it: the busier the server was then, the more its first
    requests look better than they were.
    """
    count, arrival_s = len(twin.requests), twin.requests.arrival_s
    if not last_s >= 0.0:
        raise ConfigError(
            f"the last {last_s:g} seconds of a recording cannot be taken; give a number from 0 on"
        )
    start = int(np.searchsorted(arrival_s, arrival_s[-1] - last_s))
    if twin.server is not None:
        start = max(start, count - MOST)
    return twin if start == 0 else part(twin, start, count)
