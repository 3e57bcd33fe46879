"""Kueue's Workloads, as ``kubectl get workloads,localqueues -A -o yaml`` (or json) writes them.

Devices are the GPUs of all pods. Tenants are ClusterQueues: of the admission, else the LocalQueue, else its name
A workload waits from its creation to its admission and runs until its condition Finished.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eunomia.cluster.traces.job_trace import JobTrace, JobTraceFormat, of_durations, require_unique
from eunomia.cluster.traces.kubernetes import begins, devices, entries, is_gpu, objects, part
from eunomia.cluster.traces.slurm_text import moment_s
from eunomia.core.errors import TraceError
from eunomia.workload.traces.table import MAX_ROWS

if TYPE_CHECKING:
    from eunomia.core.data import Data

KINDS = ("Workload", "LocalQueue", "List", "WorkloadList")


def read(path: Path, *, max_rows: int = MAX_ROWS) -> JobTrace:
    """One row per workload with GPUs that ran to its end, by creation, from time 0. Raises TraceError."""
    found = objects(path)
    workloads = [each for each in found if each["kind"] == "Workload"]
    if not workloads:
        kinds = ", ".join(sorted({each["kind"] for each in found})[:6])
        raise TraceError(f"no Workload among {kinds}; write them with kubectl get workloads -A -o yaml", path)
    if len(workloads) > max_rows:
        raise TraceError(f"more than {max_rows} workloads; take one namespace", path)
    queues = {_name(path, each): _queue(path, each) for each in found if each["kind"] == "LocalQueue"}
    rows = [_row(path, each, queues) for each in workloads]
    kept = [row for row in rows if row is not None and row["gpus"] and row["run_s"] > 0.0]
    unfinished = sum(row is None or math.isnan(row["run_s"]) for row in rows)
    no_gpu = sum(row is not None and not row["gpus"] for row in rows)
    if not kept:
        raise TraceError(
            f"no workload with GPUs ran to its end ({no_gpu} without GPU, {unfinished} not finished); "
            "export them before Kueue's retention deletes finished ones",
            path,
        )
    ids = [str(row["id"]) for row in kept]
    require_unique(path, ids, lambda row: None)
    tenants = tuple(dict.fromkeys(str(row["queue"]) for row in kept))
    place = {name: code for code, name in enumerate(tenants)}
    evicted = sum(bool(row["evicted"]) for row in kept)
    return of_durations(
        "kueue",
        path,
        np.array([row["created_s"] for row in kept]),
        np.array([row["gpus"] for row in kept], np.int64),
        np.array([row["run_s"] for row in kept]),
        tenants,
        np.array([place[str(row["queue"])] for row in kept], np.int32),
        ids=tuple(ids),
        source="Kueue",
        notes=(
            "jobs name no network",
            *([f"{no_gpu} workloads without GPU left out"] if no_gpu else []),
            *([f"{unfinished} workloads that did not finish left out"] if unfinished else []),
            *(
                [f"{evicted} workloads were evicted once or more: their last admission counts"]
                if evicted
                else []
            ),
        ),
        more={
            "wait_s": np.array([row["wait_s"] for row in kept]),
            "time_limit_s": np.array([row["limit_s"] for row in kept]),
            "priority": np.array([row["priority"] for row in kept]),
            "ran_on": np.array([row["flavor"] for row in kept], object),
        },
    )


def _row(path: Path, workload: Data, queues: dict[str, str]) -> Data | None:
    """The facts of one workload; None for one that was never admitted."""
    name = _name(path, workload)
    where = f"workload '{name}'"
    spec, status = part(path, where, workload, "spec"), part(path, where, workload, "status")
    admission = part(path, where, status, "admission")
    created_s = _moment(
        path, where, "creationTimestamp", part(path, where, workload, "metadata").get("creationTimestamp")
    )
    when, evicted = _conditions(path, where, status)
    flavors = {
        str(flavor)
        for each in entries(path, where, admission, "podSetAssignments")
        for resource, flavor in part(path, where, each, "flavors").items()
        if is_gpu(resource)
    }
    if "Admitted" not in when:
        return None
    local = f"{name.rpartition('/')[0]}/{spec.get('queueName', '')}"
    queue = admission.get("clusterQueue") or queues.get(local) or spec.get("queueName") or "none"
    limit = spec.get("maximumExecutionTimeSeconds")
    priority = spec.get("priority")
    for key, value in (("maximumExecutionTimeSeconds", limit), ("priority", priority)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise TraceError(f"{where}: {key} is {value!r}; it must be a whole number", path)
    return {
        "id": name,
        "gpus": _gpus(path, where, spec, admission),
        "created_s": created_s,
        "wait_s": max(when["Admitted"] - created_s, 0.0),
        "run_s": when["Finished"] - when["Admitted"] if "Finished" in when else math.nan,
        "queue": str(queue),
        "flavor": next(iter(flavors)) if len(flavors) == 1 else "",
        "limit_s": math.nan if limit is None else float(limit),
        "priority": math.nan if priority is None else float(priority),
        "evicted": evicted,
    }


def _gpus(path: Path, where: str, spec: Data, admission: Data) -> int:
    """GPUs of all pods together: of those that were admitted, where that says how many.

    Where no container names any (claims of dynamic resource allocation do not), those that the admission counts.
    """
    admitted = {each.get("name"): each for each in entries(path, where, admission, "podSetAssignments")}
    total = 0
    for pods in entries(path, where, spec, "podSets"):
        template = part(path, where, pods, "template", "spec")
        each = 0
        for container in entries(path, where, template, "containers"):
            resources = part(path, where, container, "resources")
            asked = {**part(path, where, resources, "limits"), **part(path, where, resources, "requests")}
            each += sum(devices(path, where, value) for key, value in asked.items() if is_gpu(key))
        count = admitted.get(pods.get("name"), {}).get("count")
        total += each * devices(path, where, pods.get("count", 1) if count is None else count)
    if total:
        return total
    used = [part(path, where, each, "resourceUsage") for each in admitted.values()]
    return sum(devices(path, where, value) for one in used for key, value in one.items() if is_gpu(key))


def _conditions(path: Path, where: str, status: Data) -> tuple[dict[str, float], bool]:
    """Since when which condition is true, and whether the workload was ever evicted."""
    when: dict[str, float] = {}
    evicted = False
    for condition in entries(path, where, status, "conditions"):
        kind = str(condition.get("type"))
        evicted |= kind == "Evicted"
        if kind in ("Admitted", "Finished") and (condition.get("status") == "True" or kind == "Admitted"):
            when[kind] = _moment(
                path, where, f"lastTransitionTime of {kind}", condition.get("lastTransitionTime")
            )
    return when, evicted


def _moment(path: Path, where: str, key: str, value: object) -> float:
    found = moment_s(value.isoformat() if hasattr(value, "isoformat") else str(value))
    if found is None:
        raise TraceError(
            f"{where}: {key} is '{str(value)[:40]}'; write a time such as 2024-03-01T10:00:00Z", path
        )
    return found


def _name(path: Path, each: Data) -> str:
    meta = part(path, f"a {each['kind']}", each, "metadata")
    if not meta.get("name"):
        raise TraceError(f"a {each['kind']} has no metadata.name; write the file with kubectl", path)
    return f"{meta.get('namespace', 'default')}/{meta['name']}"


def _queue(path: Path, local: Data) -> str:
    return str(part(path, "a LocalQueue", local, "spec").get("clusterQueue", ""))


_EXAMPLE = """apiVersion: v1
kind: List
items:
- &one
  apiVersion: kueue.x-k8s.io/v1beta1
  kind: Workload
  metadata: {name: job-a, namespace: team, creationTimestamp: "2024-03-01T10:00:00Z"}
  spec:
    queueName: main
    priority: 100
    podSets:
    - count: 2
      template: {spec: {containers: [{resources: {requests: {nvidia.com/gpu: 4}}}]}}
  status:
    admission: {clusterQueue: research, podSetAssignments: [{flavors: {nvidia.com/gpu: a100}}]}
    conditions:
    - {type: Admitted, status: "True", lastTransitionTime: "2024-03-01T10:05:00Z"}
    - {type: Finished, status: "True", lastTransitionTime: "2024-03-01T12:05:00Z"}
- <<: *one
  metadata: {name: job-b, namespace: team, creationTimestamp: "2024-03-01T10:01:00Z"}
"""

FORMAT = JobTraceFormat(
    "kueue",
    "Kueue's Workloads: kubectl get workloads -A -o yaml, or json",
    (),
    read,
    begins=lambda path: begins(path, KINDS),
    example=_EXAMPLE,
)
