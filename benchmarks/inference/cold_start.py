"""From nothing to a policy that passes the gate on a new deployment.

The command line trains `cold_start.toml` (a platform and networks that no shipped policy saw) in a new process, with
all caches empty: machine code is compiled, costs are computed, heuristics are compared, then the search runs from the
best heuristic and from no learned policy, and the gate judges on validation traces. Wall time of it all. The quick run
trains for one generation.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.page import ROOT
from benchmarks.table import Options, Table

TRAINING = "studies/training/cold_start.toml"
LIMIT_S = 600.0
QUICK = ("--set", "validation=2", "--set", "stage=[{generations=1,population=4,episodes=1}]")


def measure(options: Options) -> Iterator[Table]:
    """Train in a copy of the package without any compiled code, and say what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in ("eunomia", "studies/training"):
            skipped = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
            shutil.copytree(ROOT / name, place / name, ignore=skipped)
        caches = dict.fromkeys(("XDG_CACHE_HOME", "EUNOMIA_CACHE", "NUMBA_CACHE_DIR"), str(place / "cache"))
        environment = {**os.environ, **caches, "PYTHONPATH": folder}
        command = ["train", TRAINING, "--out", f"{folder}/run", "--workers", str(options.workers), "--quiet"]
        command += QUICK if options.quick else ()
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "eunomia", *command], cwd=folder, env=environment, check=True)
        took_s = time.perf_counter() - began
        card = json.loads((place / "run" / "cold-start.json").read_text())
    gate, met = card["validation"], "met" if took_s < LIMIT_S else "**not met**"
    low = gate["gain"] - 1.96 * gate["error"]
    yield Table(
        "gate",
        notes=(
            f"* `eunomia train {TRAINING}` with all caches empty: **{took_s:.0f} s** of wall time with "
            f"{options.workers} "
            f"processes ({os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the end; target "
            f"{LIMIT_S:.0f} s: {met}); {card['cpu_s']} s of processor time in the search.\n"
            f"* The gate on {gate['episodes']} validation traces, proportional sharing, loads 0.85 to 1.3, one "
            f"training: "
            f"{100 * gate['gain']:+.2f} points over `{gate['heuristic']}`, at least {100 * low:+.2f} (95 %): "
            f"{'passed' if low > 0.0 else '**not passed**'}.",
        ),
    )
