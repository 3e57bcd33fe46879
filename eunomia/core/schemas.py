"""The tables that a run leaves behind: Arrow schemas, versioned. See docs/records.md."""

from __future__ import annotations

import pyarrow as pa

from eunomia.core.schemas_cluster import CLUSTER_TABLES

SCHEMA_VERSION = 1

_name = pa.dictionary(pa.int32(), pa.string())

REQUESTS = pa.schema(
    [
        ("request", pa.int64()),
        ("tenant", _name),
        ("model", _name),
        ("arrival_s", pa.float64()),
        ("deadline_s", pa.float64()),  # absolute; null = none
        ("start_s", pa.float64()),  # first layer; null = never started
        ("finish_s", pa.float64()),  # last layer's end, or the instant of the drop; null = unfinished
        ("outcome", _name),  # hit, late, dropped, unfinished
        ("isolated_s", pa.float64()),  # iso_m, best type, true costs
        ("running_s", pa.float64()),  # time with at least one layer running
        (
            "work_s",
            pa.float64(),
        ),  # sum of isolated latency of its layers where they ran, decision time included
        ("stretch_s", pa.float64()),  # sum of slowdown by bandwidth contention
        ("switch_s", pa.float64()),  # sum of switch costs
        ("energy_j", pa.float64()),
        ("priority", pa.float64()),
    ]
)

SUBJOBS = pa.schema(
    [
        ("request", pa.int64()),
        ("layer", pa.int32()),
        ("accelerator", pa.int32()),
        ("ready_s", pa.float64()),
        ("start_s", pa.float64()),
        ("end_s", pa.float64()),  # null = still running at the end of the run
        ("work_s", pa.float64()),
        ("switch_s", pa.float64()),
        ("key", pa.float64()),  # the ordering key it was started with; null for policies without keys
        ("decision", pa.int64()),
    ]
)

DECISIONS = pa.schema(
    [
        ("decision", pa.int64()),
        ("time_s", pa.float64()),
        ("request", pa.int64()),
        ("layer", pa.int32()),
        ("accelerator", pa.int32()),
        ("waiting", pa.int64()),  # sub-jobs ready before the choice, the chosen one included
        ("demand_bytes_s", pa.float64()),  # estimated demand of running layers before the choice
        ("free_in_s", pa.list_(pa.float64())),  # (S,) estimated time left per accelerator, 0 = idle
    ]
)

PAIRS = pa.schema(
    [
        ("tenant", _name),
        ("model", _name),
        ("slo_kind", _name),  # null = no SLO
        ("slo_target", pa.float64()),
        ("sli", pa.float64()),  # over the whole measured run, same definition; null = no data
        ("met", pa.bool_()),  # null = no SLO
        ("shortfall", pa.float64()),
        ("arrived", pa.int64()),
        ("hits", pa.int64()),
        ("late", pa.int64()),
        ("dropped", pa.int64()),
        ("unfinished", pa.int64()),
        ("weight", pa.float64()),
        ("priority", pa.float64()),
    ]
)

ACCELERATORS = pa.schema(
    [
        ("accelerator", pa.int32()),
        ("name", pa.string()),
        ("type", _name),
        ("busy_s", pa.float64()),
        ("work_s", pa.float64()),  # sum of isolated layer time
    ]
)

COSTS = pa.schema(  # estimated and true costs: with subjobs and decisions, every choice can be recomputed
    [
        ("model", _name),
        ("layer", pa.int32()),
        ("layer_name", pa.string()),
        ("type", _name),
        ("latency_s", pa.float64()),
        ("estimate_s", pa.float64()),
        ("demand_bytes_s", pa.float64()),
        ("dram_bytes", pa.float64()),
        ("energy_j", pa.float64()),
    ]
)

TABLES: dict[str, pa.Schema] = {
    "requests": REQUESTS,
    "subjobs": SUBJOBS,
    "decisions": DECISIONS,
    "pairs": PAIRS,
    "accelerators": ACCELERATORS,
    "costs": COSTS,
    **CLUSTER_TABLES,
}
