"""A small scenario that every test of the command line can run in a fraction of a second."""

from __future__ import annotations

from pathlib import Path

SMALL = """
name = "small lab"
duration_s = 0.4
seed = 3

[platform]
accelerators = [{ type = "simba", count = 1 }, { type = "eyeriss", count = 1 }]
dram_bandwidth_gb_s = 16.0

[[tenant]]
name = "gold"
models = [{ model = "squeezenet", deadline_factor = 4.0, slo = { hit_rate = 0.95 } }]
arrivals = { process = "poisson", rate_per_s = 150.0 }

[[tenant]]
name = "bulk"
models = [{ model = "kws-res8", deadline_ms = 30.0, slo = { latency_p95_ms = 20.0 } }]
arrivals = { process = "periodic", period_s = 0.01 }

[compare]
policies = ["fcfs", "edf+f+eft"]
seeds = 2

[sweep]
load = [0.5, 1.0]
"""


def small(folder: Path) -> Path:
    """The scenario as a file in ``folder``."""
    path = folder / "small.toml"
    path.write_text(SMALL)
    return path
