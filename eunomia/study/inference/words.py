"""What a comparison of a scenario says beside its table: gains, broken promises, and what is no finding."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from eunomia.metrics.statistics import Estimate
from eunomia.report.units import span


def gain_text(gain: Estimate, short: bool = False) -> str:
    """``+3.1 ±1.2``: a difference of shares in points; ``-`` without data."""
    if not gain.n:
        return "-"
    spread = f" ±{100 * gain.half_width:.1f}" if gain.has_interval and not short else ""
    return f"{100 * gain.mean:+.1f}{spread}"


@dataclass(frozen=True)
class Promise:
    """One agreement under one policy: ``got`` is its mean indicator, ``kept`` the share of seeds that met it."""

    tenant: str
    model: str
    kind: str
    target: float
    got: float
    kept: float


def unmet(policy: str, promises: Sequence[Promise]) -> str:
    """Which SLOs a policy does not meet on most seeds, and by how much, on average over the seeds."""
    broken = [promise for promise in promises if promise.kept < 0.5]
    if not broken:
        return f"{policy} meets every SLO on most seeds."
    listed = ", ".join(f"{p.tenant}/{p.model} ({promised(p)})" for p in broken)
    return f"{policy} does not meet the SLO of {listed}."


def promised(promise: Promise) -> str:
    """``hit rate 72.0 % of 95 % promised``."""
    kind, got, target = promise.kind, promise.got, promise.target
    if math.isnan(got):
        return f"{kind}: nothing finished"
    if kind in ("hit_rate", "drop_rate"):
        limit = "promised" if kind == "hit_rate" else "allowed"
        return f"{kind.replace('_', ' ')} {100 * got:.1f} % of {100 * target:.0f} % {limit}"
    if kind == "throughput":
        return f"{got:.3g} of {target:.3g} per s promised"
    return f"latency {span(got)} of {span(target)} allowed"


def replayed_note(tenants: Sequence[str], seeds: int) -> list[str]:
    """Which tenants' arrivals do not vary with the seed."""
    if not tenants or seeds < 2:
        return []
    return [
        f"every seed replays the same arrivals for {', '.join(tenants)}; the intervals leave their variation out"
    ]


def twins_note(policies: Sequence[str], late: str) -> list[str]:
    """Which policies are the same one under ``late = "last"``."""
    return [
        f'{plain} and {feasible} are the same under late = "last", where hopeless requests run last '
        "anyway; tell them apart with --set engine.late=run"
        for plain, feasible in (_twins(policies) if late == "last" else [])
    ]


def _twins(policies: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of policies that differ by the suffix +f alone."""
    parts = {policy: re.split(r"[+-]", policy.lower()) for policy in policies}
    core = {policy: [part for part in parts[policy] if part not in ("f", "feasible")] for policy in policies}
    return [
        (plain, other)
        for plain in policies
        for other in policies
        if core[plain] == parts[plain] and core[other] == core[plain] and parts[other] != core[other]
    ]
