"""What a comparison of a scenario says beside its table: gains, SLOs not met, and what is no finding."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eunomia.core.data import Data
from eunomia.report.units import span


@dataclass(frozen=True)
class PairOutcome:
    """The SLO of a tenant-model pair under one policy; names as in schema PAIRS.

    ``sli`` and ``shortfall`` are means over seeds, ``met`` is the share of seeds that met the SLO.
    """

    tenant: str
    model: str
    slo_kind: str
    slo_target: float
    sli: float
    met: float
    shortfall: float


def unmet(policy: str, pairs: Sequence[PairOutcome]) -> str:
    """Which SLOs a policy misses on more than half of the seeds, and by how much, on average over the seeds."""
    missed = [pair for pair in pairs if pair.met < 0.5]
    if all(pair.met == 1.0 for pair in pairs):
        return f"{policy} meets every SLO on every seed."
    if not missed:
        return f"{policy} meets each SLO on at least half of the seeds."
    listed = ", ".join(f"{pair.tenant}/{pair.model} ({against_target(pair)})" for pair in missed)
    return f"{policy} does not meet the SLO of {listed}."


def against_target(pair: PairOutcome) -> str:
    """``hit rate 72.0 %, target 95 %``."""
    kind, sli, target = pair.slo_kind, pair.sli, pair.slo_target
    if math.isnan(sli):
        return f"{kind.replace('_', ' ')}: nothing finished"
    if kind in ("hit_rate", "drop_rate"):
        return f"{kind.replace('_', ' ')} {100 * sli:.1f} %, target {100 * target:.3g} %"
    if kind == "throughput":
        return f"throughput {sli:.3g} /s, target {target:.3g} /s"
    return f"response {span(sli)}, target {span(target)}"


def replayed_note(tenants: Sequence[str], seeds: int) -> list[str]:
    """Which tenants' arrivals do not vary with the seed."""
    if not tenants or seeds < 2:
        return []
    return [
        f"every seed replays the same arrivals for {', '.join(tenants)}; the intervals leave their variation out"
    ]


def rehearsed_notes(policies: Sequence[str], answers: Mapping[tuple[str, int], Data]) -> list[str]:
    """What ran in the place of each policy that rehearses, and on how many seeds."""
    notes = []
    for policy in policies:
        mine = [answer.get("rehearsed") for (name, _), answer in answers.items() if name == policy]
        counts = Counter(chosen for chosen in mine if chosen)
        if counts:
            total = counts.total()
            parts = (f"{chosen} on {n} of {total} seeds" for chosen, n in counts.most_common())
            notes.append(f"{policy} ran as {', '.join(parts)}: chosen by a rehearsal before each run")
    return notes


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
