"""The tables that a run of the cluster wing leaves behind: Arrow schemas. See docs/cluster.md."""

from __future__ import annotations

import pyarrow as pa

_name = pa.dictionary(pa.int32(), pa.string())

JOBS = pa.schema(
    [
        ("job", pa.string()),
        ("tenant", _name),
        ("job_type", _name),
        ("scale_factor", pa.int64()),  # as submitted
        ("weight", pa.float64()),
        ("arrival_s", pa.float64()),
        ("start_s", pa.float64()),  # first time on devices; null = never
        ("finish_s", pa.float64()),  # null = not finished
        ("outcome", _name),  # finished, unfinished, dropped
        ("deadline_s", pa.float64()),  # absolute; null = none
        ("total_steps", pa.float64()),
        ("steps_done", pa.float64()),
        ("alone_s", pa.float64()),  # time on its fastest type without anybody else
        ("isolated_s", pa.float64()),  # C: time under the isolated share of each moment, for the steps done
        ("contention", pa.float64()),  # jobs present, averaged over its life
        ("held_s", pa.float64()),  # device-seconds
        ("useful_s", pa.float64()),  # device-seconds of lasting progress, at consolidated speed
        ("overhead_s", pa.float64()),  # device-seconds of saving, loading, warming up
        ("lost_s", pa.float64()),  # device-seconds of progress lost to failures
        ("starts", pa.int64()),
        ("preemptions", pa.int64()),
        ("moves", pa.int64()),
        ("resizes", pa.int64()),
        ("failures", pa.int64()),
        ("cost", pa.float64()),
    ]
)

DEVICES = pa.schema(
    [
        ("type", pa.string()),
        ("count", pa.int64()),
        ("servers", pa.int64()),
        ("cost_per_hour", pa.float64()),
        ("available_s", pa.float64()),  # device-seconds from first arrival to end, repairs left out
        ("busy_s", pa.float64()),  # device-seconds held
    ]
)

LEASES = pa.schema(
    [
        ("job", _name),
        ("type", _name),
        ("server", pa.int64()),
        ("devices", pa.int64()),
        ("start_s", pa.float64()),
        ("end_s", pa.float64()),
    ]
)

ALLOCATIONS = pa.schema(
    [
        ("time_s", pa.float64()),
        ("jobs", pa.int64()),  # present
        ("objective", pa.float64()),
        ("notes", pa.string()),  # fallbacks, relaxed objectives; empty = none
    ]
)

CHOICES = pa.schema(
    [
        ("point", pa.int64()),  # number of the round or event
        ("time_s", pa.float64()),
        ("job", _name),
        ("partner", _name),  # of a pair; null = alone
        ("type", _name),
        ("share", pa.float64()),  # X; of an outright answer, devices
        ("deficit_s", pa.float64()),
        ("priority", pa.float64()),  # null = cannot run there
        ("scale_factor", pa.int64()),
        ("ran", pa.bool_()),  # the unit runs on this type from now on
        ("reason", _name),  # why the policy gave it nothing, "kind: details"; null = it does not say
    ]
)

CLUSTER_TABLES: dict[str, pa.Schema] = {
    "jobs": JOBS,
    "devices": DEVICES,
    "leases": LEASES,
    "allocations": ALLOCATIONS,
    "choices": CHOICES,
}
