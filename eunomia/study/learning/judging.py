"""The evaluator of rules for search programs: the text of a rule in, figures with intervals out, bounded in time.

A rule is an expression over named features (learning/evolve/language.py): it is read against a list of what is
allowed, in this process, and nothing of it is executed. The runs then happen in a process of their own, with limits on
time and memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, PolicyError
from eunomia.learning.distill.policy import RulePolicy
from eunomia.learning.evolve.rule import read_rule, write_rule

AGAINST = "edf+f+eft+g0.9"
FIGURES = ("hit_rate", "slo_attainment", "slo_shortfall", "worst_shortfall")
MOST_SEEDS, MOST_SECONDS = 1_000, 86_400.0


def evaluate_rule(
    text: str,
    scenario: str | Path,
    seeds: int = 5,
    seconds: float = 60.0,
    *,
    against: str = AGAINST,
    memory_gb: float = 8.0,
) -> Data:
    """Figures of a rule on a scenario: mean and half width of the 95 % interval over seeds.

    ``gain`` is its hit rate minus that of ``against``, paired by seed. ``seconds`` bounds all of it, by the clock and
    by processor time; the first call of a version compiles, which takes a minute. Equal arguments give equal figures.
    Raises ConfigError or UnknownNameError for what is no rule, PolicyError for a run beyond its bounds.
    """
    rules = read_rule(text)
    if not 2 <= seeds <= MOST_SEEDS:
        raise ConfigError(f"seeds is {seeds}; give 2 to {MOST_SEEDS}: an interval needs two")
    if not 0.0 < seconds <= MOST_SECONDS or not memory_gb > 0.0:
        raise ConfigError(
            f"seconds is {seconds} and memory_gb {memory_gb}; both must be positive, a day at most"
        )
    order = {"rule": write_rule(rules), "scenario": str(scenario), "seeds": seeds, "against": against}
    limits = {"seconds": seconds, "memory_gb": memory_gb}
    began = time.monotonic()
    command = [sys.executable, "-m", __name__]
    try:
        done = subprocess.run(
            command,
            input=json.dumps({**order, **limits}),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PolicyError(
            f"the runs were stopped after {seconds:g} s; give more --seconds, or fewer --seeds"
        ) from None
    told = _last_line(done.stdout)
    if "complaint" in told:
        raise ConfigError(str(told["complaint"]))
    if done.returncode or not told:
        raise PolicyError(
            f"the runs ended at their bounds ({seconds:g} s of processor time, {memory_gb:g} GB of memory; status "
            f"{done.returncode}); give more --seconds or --memory"
        )
    return {**order, "nodes": rules.nodes, **told, "took_s": round(time.monotonic() - began, 2)}


def _last_line(text: str) -> Data:
    lines = text.strip().splitlines()
    return dict(json.loads(lines[-1])) if lines else {}


def _limit(seconds: float, memory_gb: float) -> None:
    """Bounds on this process, where the system has them."""
    try:
        import resource
    except ImportError:
        return
    most, size = int(seconds) + 1, int(memory_gb * 2**30)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def _measured(order: Data) -> Data:
    """Figures of the rule and of what it is compared with."""
    from eunomia.metrics.statistics import interval
    from eunomia.study.inference.run import SCENARIOS
    from eunomia.study.learning.evaluation import measure_policy
    from eunomia.study.run import seeds_from

    scenario = SCENARIOS.checked(order["scenario"], ())
    seeds = seeds_from(scenario.seed, order["seeds"])
    ours = measure_policy(RulePolicy(read_rule(order["rule"])), scenario, seeds)
    theirs = measure_policy(order["against"], scenario, seeds)

    def told(values: Sequence[float]) -> Data | None:
        found = interval(list(values))
        return {"mean": found.mean, "half_width": found.half_width} if found.mean == found.mean else None

    named = {name: told(column.tolist()) for name, column in zip(FIGURES, ours, strict=True)}
    gains = (ours[0] - theirs[0]).tolist()
    return {
        "figures": {**named, "gain": told(gains)},
        "hit_rate_by_seed": ours[0].tolist(),
        "gain_by_seed": gains,
    }


def main() -> None:
    """One order on standard input, one line of JSON on standard output."""
    from eunomia.core.errors import EunomiaError

    order = json.loads(sys.stdin.read())
    _limit(order["seconds"], order["memory_gb"])
    try:
        told = _measured(order)
    except EunomiaError as error:
        told = {"complaint": str(error)}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
