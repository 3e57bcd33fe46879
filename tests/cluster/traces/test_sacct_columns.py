"""What a log by ``sacct -P`` with other columns is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from eunomia.cluster.traces import read_jobs
from eunomia.core.errors import TraceError

ROW = "7|COMPLETED|2024-03-01T00:00:00|2024-03-01T00:00:05|60|gres/gpu:a100=2,gres/gpu=2|gpu\n"


def test_the_raw_number_of_a_job_will_do(tmp_path: Path) -> None:
    log = tmp_path / "sacct.txt"
    log.write_text("JobIDRaw|State|Submit|Start|ElapsedRaw|AllocTRES|Partition\n" + ROW)
    assert read_jobs(log, "sacct").gpus.tolist() == [2]


def test_all_missing_columns_are_named_at_once(tmp_path: Path) -> None:
    log = tmp_path / "sacct.txt"
    log.write_text("JobID|Submit|AllocTRES|Partition\n7|2024-03-01T00:00:00|gres/gpu=2|gpu\n")
    with pytest.raises(TraceError, match="Start, State, ElapsedRaw or Elapsed': these columns are missing"):
        read_jobs(log, "sacct")
