"""What a scenario's traces hold that a replay does not use: said, not passed over in silence."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from eunomia.config import Scenario
from eunomia.config.arrivals import TraceConfig
from eunomia.study.inference.bench import costed
from eunomia.workload import traces


def trace_notes(scenario: Scenario) -> list[str]:
    """One sentence per tenant whose canonical trace names models, tenants, deadlines or priorities.

    A replay uses arrival times (and ``tenant``, to choose rows) alone; the rest comes from the scenario.
    """
    configs = [(tenant.name, tenant.arrivals) for tenant in scenario.tenant]
    found = [(name, _unused(config)) for name, config in configs if isinstance(config, TraceConfig)]
    return [
        f"tenant '{name}': of its trace the arrival times are used; {' and '.join(unused)} of the trace are "
        "ignored, the scenario's are used"
        for name, unused in found
        if unused
    ]


def cost_notes(scenario: Scenario) -> list[str]:
    """Of measured costs: how much was given, how the rest was estimated and how wrong that is, what was assumed."""
    machine = costed(scenario)[1]
    return [*(how.sentence() for how in machine.filled if how.estimated), *machine.assumed]


def slowdown_notes(scenario: Scenario) -> list[str]:
    """Of a table of slowdowns: what is estimated, not used, or noisy."""
    return [] if scenario.platform.slowdowns is None else [*costed(scenario)[1].told]


def _unused(config: TraceConfig) -> list[str]:
    if not Path(config.path).is_file():
        return []  # said where it is read
    if (traces.detect(config.path) if config.trace == "auto" else config.trace) != "canonical":
        return []
    trace = traces.open("canonical", config.path)
    trace = trace if config.tenant is None else trace.of_tenant(config.tenant)
    deadlines = trace.relative_deadline_s
    columns = {
        f"{len(trace.tenants)} tenants": config.tenant is None and len(trace.tenants) > 1,
        "models": bool((trace.model >= 0).any()),
        "deadlines": deadlines is not None and bool(np.isfinite(deadlines).any()),
        "priorities": trace.priority is not None and len(np.unique(trace.priority)) > 1,
    }
    return [name for name, present in columns.items() if present]
