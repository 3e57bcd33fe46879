"""A Slurm of one's own on loopback, as ``scripts/slurm-dev`` starts it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import children


@contextmanager
def private_slurm(folder: Path) -> Iterator[dict[str, str]]:
    """The environment by which its commands find it; skips the test where there is none."""
    if not all(map(shutil.which, ("slurmctld", "slurmd", "squeue"))):
        pytest.skip("Slurm is not installed (Debian: apt-get install slurmctld slurmd slurm-client)")
    script = children.ROOT / "scripts" / "slurm-dev"
    done = children.run([script, "start", folder])
    if done.returncode:
        pytest.skip(f"Slurm does not start here: {done.stderr.strip()[:200]}")
    try:
        yield {"SLURM_CONF": str(folder / "slurm.conf")}
    finally:
        children.run([script, "stop", folder])
