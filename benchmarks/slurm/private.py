"""A private Slurm of ``scripts/slurm-dev`` for a measurement, and what its controller's log says."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from benchmarks.page import ROOT

GPUS = {"a100": 2, "t4": 4}
WEIGHTS = {"job_size": 1000.0, "partition": 300.0}  # age and fair share count only with a database (slurmdbd)
CONF = """\
PriorityType=priority/multifactor
PriorityWeightJobSize=1000
PriorityWeightPartition=300
PartitionName=fast Nodes=ALL MaxTime=1-0 PriorityJobFactor=3 State=UP
"""
FACTOR = {"main": 1.0 / 3.0, "fast": 1.0}
LINE = re.compile(
    r"\[(\S+?)\] (?:sched: Allocate|sched/backfill: _start_job: Started|_job_complete:) JobId=(\d+)(.*)"
)


@contextmanager
def private_slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Its environment. Ends with a sentence where Slurm does not start."""
    folder.mkdir(parents=True, exist_ok=True)
    more = folder / "more.conf"
    more.write_text(CONF)
    gres = ",".join(f"gpu:{kind}:{count}" for kind, count in GPUS.items())
    script = str(ROOT / "scripts" / "slurm-dev")
    done = subprocess.run([script, "start", str(folder), gres, str(more)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"Slurm does not start here: {done.stderr.strip()[-300:]}")
    try:
        yield {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    finally:
        subprocess.run([script, "stop", str(folder)], capture_output=True)


class Log:
    """The controller's log, read as it grows."""

    def __init__(self, folder: Path) -> None:
        self.path, self.at = folder / "slurmctld.log", 0

    def new(self) -> list[tuple[float, str, int]]:
        """(time, ``start`` or ``end``, job) since the last call, in order."""
        with self.path.open(encoding="utf-8") as file:
            file.seek(self.at)
            lines = file.read()
        whole, _, _ = lines.rpartition("\n")
        self.at += len((whole + "\n").encode()) if whole else 0
        found = []
        for time, job, rest in LINE.findall(whole):
            ended = "done" in rest.split()
            if ended or "WEXITSTATUS" not in rest and "WTERMSIG" not in rest:
                found.append(
                    (datetime.fromisoformat(time).timestamp(), "end" if ended else "start", int(job))
                )
        return found
