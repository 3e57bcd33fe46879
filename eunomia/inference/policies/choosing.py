"""What the published schedulers share: ties, lateness and the bandwidth gate."""

from __future__ import annotations

import math

from eunomia.contract.rows import Ready, System
from eunomia.core.errors import PolicyError
from eunomia.inference.kernel.jit import jitted

GATE = 7  # the parameter that holds the gate; the other seven are the scheduler's own


def with_gate(gate: float, *constants: float) -> tuple[float, ...]:
    """Parameters of a compiled scheduler: up to seven constants, then the gate. Raises PolicyError."""
    if not gate > 0.0:
        raise PolicyError(f"bandwidth gate is {gate}; it must be positive, such as 0.9, or be left out")
    return (*constants, *(0.0 for _ in range(GATE - len(constants))), float(gate))


def gated_name(name: str, gate: float) -> str:
    """The scheduler's name with its gate, as the grammar of names has it."""
    return f"{name}+g{gate:g}" if math.isfinite(gate) else name


@jitted
def is_shut(system: System) -> bool:
    """Whether running layers already ask for more than gate x B (the same test as Greedy's)."""
    return system.demand_bytes_s > system.parameters[GATE] * system.bandwidth_bytes_s


@jitted
def tier(job: Ready, system: System) -> int:
    """1 for a hopeless request that is served after all others, else 0."""
    return job.late if system.late_last == 1 else 0


@jitted
def precedes(late: int, key: float, job: Ready, best_late: int, best_key: float, best: Ready) -> bool:
    """Whether (late, key, sequence) of a sub-job is less than that of the best one so far."""
    if late != best_late:
        return late < best_late
    if key != best_key:
        return key < best_key
    return job.sequence < best.sequence
