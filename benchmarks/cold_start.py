"""From nothing to a policy that passes the gate on a new deployment: ``python -m benchmarks.cold_start [--write]``.

The command line trains `cold_start.toml` (a platform and networks that no shipped policy saw) in a new process, with
all caches empty: machine code is compiled, costs are computed, heuristics are compared, then the search runs from the
best heuristic and from no learned policy, and the gate judges on validation traces. Wall time of it all, on all cores.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "learned.md"
BEGIN, END = "<!-- begin: python -m benchmarks.cold_start --write -->", "<!-- end of cold start -->"
TRAINING = "benchmarks/learned_data/cold_start.toml"
LIMIT_S = 600.0


def measure(workers: int) -> list[str]:
    """Train in a copy of the package without any compiled code, and say what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in ("eunomia", "benchmarks"):
            skipped = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
            shutil.copytree(ROOT / name, place / name, ignore=skipped)
        environment = {
            **os.environ, "XDG_CACHE_HOME": f"{folder}/cache", "EUNOMIA_CACHE": f"{folder}/cache",
            "NUMBA_CACHE_DIR": f"{folder}/numba", "PYTHONPATH": folder,
        }  # fmt: skip
        command = ["train", TRAINING, "--out", f"{folder}/run", "--workers", str(workers), "--quiet"]
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "eunomia", *command], cwd=folder, env=environment, check=True)
        took_s = time.perf_counter() - began
        card = json.loads((place / "run" / "cold-start.json").read_text())
    return report(card, took_s, workers)


def report(card: dict[str, object], took_s: float, workers: int) -> list[str]:
    """The page's lines."""
    gate = card["validation"]
    assert isinstance(gate, dict)
    low = gate["gain"] - 1.96 * gate["error"]
    return [
        f"* `eunomia train {TRAINING}` with all caches empty: **{took_s:.0f} s** of wall time with {workers} processes "
        f"({os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the end; target {LIMIT_S:.0f} s: "
        f"{'met' if took_s < LIMIT_S else '**not met**'}); {card['cpu_s']} s of processor time in the search.",
        f"* The gate on {gate['episodes']} validation traces, proportional sharing, loads 0.85 to 1.3, one training: "
        f"{100 * gate['gain']:+.2f} points over `{gate['heuristic']}`, at least {100 * low:+.2f} (95 %): "
        f"{'passed' if low > 0.0 else '**not passed**'}.",
    ]


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    text = "\n".join(measure(options.workers))
    print(text)
    if options.write:
        page = RESULTS.read_text()
        head, _, rest = page.partition(BEGIN)
        RESULTS.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
