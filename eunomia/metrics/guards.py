"""How often the guards of a learned policy acted, from what it counted."""

from __future__ import annotations

import math
from collections.abc import Mapping


def rate(counts: Mapping[str, int], guard: str) -> float:
    """Share of a learned policy's decisions at states unlike its training, and by its base; alarms that began.

    Misleads: far from its training a policy may still decide well.
    """
    decisions = counts.get("decisions", 0)
    return counts[guard] / decisions if decisions and guard in counts else math.nan


def count(counts: Mapping[str, int], guard: str) -> float:
    """How often a guard acted; nan for a policy that decided nothing or has no such guard."""
    return float(counts[guard]) if counts.get("decisions", 0) and guard in counts else math.nan
