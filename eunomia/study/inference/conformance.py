"""Whether a policy keeps its contract: small labs where policies go wrong, each run twice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.contract.view import Policy
from eunomia.core.errors import EunomiaError, PolicyError, within
from eunomia.hardware.table import CostTable
from eunomia.inference.options import EngineOptions
from eunomia.inference.policies.catalogue import own_policy, policy_name
from eunomia.inference.problem import Problem, build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.workload.model import DnnModel, Layer
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement, Slo

LABS = {  # what is unlike in it -> its accelerators, and the engine's options
    "a single accelerator": (1, EngineOptions(late="run")),
    "accelerators that cannot run every layer": (3, EngineOptions()),
    "late requests that are dropped": (3, EngineOptions(late="drop")),
    "the ticks of a period": (3, EngineOptions(period_s=0.7, period_mode="wait")),
}


@dataclass(frozen=True)
class _Platform:
    """Accelerators of two types in turn, which share one memory."""

    types: tuple[str, ...]
    type_of: npt.NDArray[np.int64]
    dram_bytes_s: float = 1.0
    contention: str = "proportional"


def check_policy(policy: str | Policy) -> None:
    """Run it in every lab, twice.

    ``policy``: a name, ``FILE.py:NAME``, a function of a View, a class or an object. Raises PolicyError for an illegal
    answer, for holding while nothing runs, for what the policy raises, and for a second run unlike the first. Raises
    ConfigError for what is no policy.
    """
    asked = own_policy(policy)
    for what, (lanes, options) in LABS.items():
        place = f"policy '{policy_name(policy)}' in the lab of {what}"
        first = _finished(asked, lab(lanes, 1, options), options, place)
        _finished(asked, lab(lanes, 9, options), options, place)  # something to forget
        again = _finished(asked, lab(lanes, 1, options), options, place)
        if not np.array_equal(first, again, equal_nan=True):
            raise PolicyError(
                f"{place}: the second run of the same requests differs from the first; forget everything in "
                "reset(seed), and draw random numbers from this seed alone"
            )


def lab(lanes: int, seed: int, options: EngineOptions) -> Problem:
    """Forty requests of two tenants, a chain and a network with branches, at more load than fits."""
    rng = np.random.default_rng(seed)
    layers = tuple(Layer(f"layer{n}", "elementwise", in_w=1 + n) for n in range(4))
    nets = (
        DnnModel("chain", layers[:3], ((0, 1), (1, 2))),
        DnnModel("fork", layers, ((0, 1), (0, 2), (1, 3), (2, 3))),
    )
    types = ("a", "b")[:lanes]
    latency_s = rng.uniform(0.5, 2.0, (7, len(types)))
    if lanes > 1:
        latency_s[2, 0] = latency_s[5, 1] = np.inf
    dram = np.where(np.isfinite(latency_s), rng.uniform(0.2, 1.0, latency_s.shape), 0.0)
    nothing, one = np.zeros_like(latency_s), np.ones_like(latency_s)
    table = CostTable(nets, types, latency_s, nothing, dram, one, np.full(len(types), 4.0))
    requests = RequestTable(
        (
            Agreement("gold", "chain", Slo(0.9, window_requests=10), 9.0, 2.0),
            Agreement("lead", "fork", Slo(0.5, window_requests=10)),
        ),
        rng.integers(0, 2, 40),
        np.cumsum(rng.exponential(4.5 / lanes, 40)),
        rng.uniform(4.0, 16.0, 40),
    )
    return build_problem(requests, table, _Platform(types, np.arange(lanes) % len(types)), options)


def _finished(
    policy: Policy, problem: Problem, options: EngineOptions, place: str
) -> npt.NDArray[np.float64]:
    """When each request ended. Raises PolicyError that names the lab."""
    try:
        with within(place):
            finish_s: npt.NDArray[np.float64] = simulate_problem(problem, policy, options).results["finish_s"]
    except EunomiaError:
        raise
    except Exception as error:  # whatever the policy raises
        raise PolicyError(f"{place}: it raises {type(error).__name__}: {error}") from error
    return finish_s
