"""A policy of your own, compared with two built-in ones: python examples/custom_policy.py

The same file works from the command line:

    eunomia compare examples/mixed_npu.toml -p edf -p examples/custom_policy.py:least_laxity
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import eunomia
from eunomia import Assign, View

SCENARIO = Path(__file__).with_name("mixed_npu.toml")


def least_laxity(view: View) -> list[Assign]:
    """Start the waiting layer with the least time to spare, where it runs fastest among the idle.

    Laxity is how long a request can still wait and meet its deadline: deadline - now - remaining critical path.
    """
    if not len(view.idle):  # at the tick of a period all may be busy
        return []
    laxity_s = view.ready["deadline_s"] - view.now_s - view.ready["path_best_s"]
    job = int(np.argmin(laxity_s))
    device = int(view.idle[np.argmin(view.latency_s[job, view.idle])])
    return [view.assign(job, device)] if np.isfinite(view.latency_s[job, device]) else []


def main(overrides: list[str] | None = None) -> None:
    """Compare and print."""
    result = eunomia.compare(SCENARIO, ["fcfs", "edf", least_laxity], seeds=2, overrides=overrides or [])
    for policy in result.policies:
        print(f"{policy:<14} hit rate {result.estimate(policy, 'hit_rate'):.1%}, "
              f"worst tenant {result.worst_tenant(policy)}")  # fmt: skip


if __name__ == "__main__":
    main()
