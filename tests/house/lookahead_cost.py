"""What a simulated layer end costs that follows the learned policy: ``python -m tests.house.lookahead_cost``.

Processor time of all plans of compiled runs without a budget, over the layer ends they simulate; at the places of
``benchmarks lookahead`` with loads 1 and 1.3, on the first test trace.
"""

from __future__ import annotations

import itertools

from benchmarks.inference.lookahead import FIRST_SEED, SETS, Place, run_time
from eunomia.inference.lookahead.rollout import ROLLOUT
from eunomia.inference.policies import load_policy

TIMED = ("edf+f+g0.9", "edf+f+eft+g0.9", "eunomia")


def cost_ns(place: Place, base: str) -> float:
    """Nanoseconds per simulated layer end."""
    policy = load_policy(f"lookahead(base={base},portfolio=none,budget_us=0)")
    problem = place.episode(FIRST_SEED).problem
    (with_s, companion), (without_s, _) = (run_time(problem, policy, planning) for planning in (True, False))
    assert companion is not None
    ends = companion.count("layer_ends") - ROLLOUT * companion.count("rollouts")
    return 1e9 * (with_s - without_s) * int(companion.arrays["portfolio"]["cost"][0]) / ends


if __name__ == "__main__":
    for name, load in itertools.product(SETS, (1.0, 1.3)):
        took = {base: cost_ns(Place(name, load, 250), base) for base in TIMED}
        ratios = ", ".join(f"{took['eunomia'] / took[rule]:.2f} times {rule}" for rule in TIMED[:2])
        print(f"{name} at {load:g}: {took['eunomia']:.0f} ns, {ratios}", flush=True)
