"""The tables that a run leaves behind: Arrow schemas, versioned. See docs/records.md."""

from __future__ import annotations

import pyarrow as pa

from eunomia.core.schemas_cluster import CLUSTER_TABLES

SCHEMA_VERSION = 1

_name = pa.dictionary(pa.int32(), pa.string())
_terms = pa.list_(pa.struct([("feature", pa.string()), ("weight", pa.float64()), ("value", pa.float64())]))

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
        # from here on: of policies that score features; null for others
        ("decided_by", _name),  # score, base (nothing is learned), alarm or invalid (a guard took the base)
        ("score", pa.float64()),  # of the chosen sub-job; the highest goes first
        ("score_base", pa.float64()),  # what the base's weights give; the rest is learned
        ("score_network", pa.float64()),  # what a network or trees add to the sum of weight x value
        ("terms", _terms),  # the largest of the score: weight x value
        ("place_margin", pa.float64()),  # how much worse the next accelerator is; null = there is no other
        (
            "start_margin",
            pa.float64(),
        ),  # started because it is at least 0, or because nothing runs; null = no gate
        ("bandwidth_used", pa.float64()),  # D / B before the choice, starts of the same instant included
        (
            "rivals",  # the first of those who were not started
            pa.list_(
                pa.struct(
                    [
                        ("request", pa.int64()),
                        ("layer", pa.int32()),
                        ("fate", pa.string()),  # lost, kept (for ``wanted``, which is busy) or held
                        ("wanted", pa.int32()),  # null = unknown
                        ("late", pa.bool_()),  # hopeless, and therefore last
                        ("score", pa.float64()),
                        ("terms", _terms),  # the largest differences; value: the chosen one's minus its own
                    ]
                )
            ),
        ),
        (
            "held",  # the last sub-job held since the decision before; null = none
            pa.struct(
                [
                    ("request", pa.int64()),
                    ("layer", pa.int32()),
                    ("time_s", pa.float64()),
                    ("margin", pa.float64()),
                    ("bandwidth_used", pa.float64()),
                    ("terms", _terms),  # the largest of the margin, beside the gate and the bandwidth used
                ]
            ),
        ),
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
