"""Logs of clusters whose scheduler is known: a run of ours, written as its operator would find it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from eunomia.cluster.job import TrainingJob
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.problem import build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.throughput import ThroughputTable
from eunomia.contract.allocation import Allocator
from eunomia.contract.cluster import Cluster

START_S = 1_709_287_200.0  # 2024-03-01T10:00:00
CONF = """
ClusterName=ours
PriorityType=priority/multifactor   # what it is
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityMaxAge=1-0
PriorityDecayHalfLife=2-0
SchedulerType=sched/backfill
SchedulerParameters=bf_window=2880,bf_max_job_test=100,\\
    bf_continue
NodeName=DEFAULT CPUs=64
NodeName=a[01-02] Gres=gpu:a100:4
NodeName=v1,v2 Gres=gpu:v100:4(S:0-1),nvme:1
NodeName=login State=UP
PartitionName=DEFAULT MaxTime=2-00:00:00
PartitionName=gpu Nodes=a[01-02],v[1-2] Default=YES
PartitionName=fast Nodes=a[01-02] PriorityJobFactor=3
"""
QUEUES = {
    "kind": "List",
    "items": [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": name},
            "spec": {
                "cohort": "all", "queueingStrategy": "BestEffortFIFO",
                "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
                "resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": [
                    {"name": "a100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": quota}]},
                ]}],
            },
        }
        for name, quota in (("bio", 6), ("chem", 2))
    ],
}  # fmt: skip
JOBS = 120


def jobs(seed: int = 3) -> list[TrainingJob]:
    """Three users of two accounts, gangs of 1 to 4, about 1.3 times what 8 + 8 devices can do."""
    rng = np.random.default_rng(seed)
    at = np.floor(np.cumsum(rng.exponential(150.0, JOBS)))
    return [
        TrainingJob(
            str(n), str(rng.choice(["a100", "v100"])), float(rng.integers(300, 7200)), int(rng.choice([1, 2, 4])),
            float(at[n]), tenant=str(rng.choice(["bio/ann", "bio/bob", "chem/cy"])),
            traits={"time_limit_s": float(rng.choice([7200, 14_400]))},
        )
        for n in range(JOBS)
    ]  # fmt: skip


def run(allocator: Allocator, trained: list[TrainingJob], counts: dict[str, int]) -> np.ndarray:
    """When each job starts, s."""
    keys = tuple((name, scale) for name in counts for scale in (1, 2, 4))
    alone = np.array([[float(kind == name) for kind in counts] for name, _ in keys])
    p = build_problem(trained, Cluster.of(counts, 4), ThroughputTable(keys, tuple(counts), alone))
    return simulate_cluster(p, allocator, SimulationOptions(events="at_once")).ledger.first_start_s


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(START_S + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def sacct(folder: Path, trained: list[TrainingJob], start_s: np.ndarray) -> Path:
    lines = ["JobID|User|Account|Partition|QOS|State|Submit|Start|ElapsedRaw|TimelimitRaw|ReqTRES|AllocTRES"]
    for job, start in zip(trained, start_s.tolist(), strict=True):
        account, user = job.tenant.split("/")
        tres = f"cpu=4,gres/gpu:{job.job_type}={job.scale_factor},gres/gpu={job.scale_factor}"
        limit = int(job.traits["time_limit_s"] / 60)
        lines.append(
            f"{job.job_id}|{user}|{account}|gpu|normal|COMPLETED|{stamp(job.arrival_s)}|{stamp(start)}|"
            f"{int(job.total_steps)}|{limit}|{tres}|{tres}"
        )
    path = folder / "sacct.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def workloads(folder: Path, trained: list[TrainingJob], start_s: np.ndarray) -> Path:
    items = []
    for job, start in zip(trained, start_s.tolist(), strict=True):
        times = {"Admitted": start, "Finished": start + job.total_steps}
        items.append(
            {
                "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
                "metadata": {"name": job.job_id, "namespace": "x", "creationTimestamp": stamp(job.arrival_s) + "Z"},
                "spec": {"queueName": job.tenant, "podSets": [{"count": job.scale_factor, "template": {"spec": {
                    "containers": [{"resources": {"requests": {"nvidia.com/gpu": 1}}}]}}}]},
                "status": {
                    "admission": {"clusterQueue": job.tenant},
                    "conditions": [
                        {"type": kind, "status": "True", "lastTransitionTime": stamp(at) + "Z"}
                        for kind, at in times.items()
                    ],
                },
            }
        )  # fmt: skip
    path = folder / "workloads.json"
    path.write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
    return path


def conf(folder: Path, text: str = CONF) -> Path:
    path = folder / "slurm.conf"
    path.write_text(text, encoding="utf-8")
    return path


def queues(folder: Path, text: str | None = None) -> Path:
    path = folder / "queues.json"
    path.write_text(json.dumps(QUEUES) if text is None else text, encoding="utf-8")
    return path
