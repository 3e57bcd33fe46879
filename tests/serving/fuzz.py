"""Coverage-guided fuzzing of everything that reads a stranger's bytes: ``python -m tests.serving.fuzz http``.

Needs atheris (``pip install atheris``; wheels exist for Linux). Targets: ``http`` (a body with binary tensors),
``grpc`` (a ModelInferRequest), ``policy`` (the body that puts a policy in), ``grant`` (a tenant), ``journal`` (a
damaged ledger), ``twin`` (a recording). Whatever is neither read nor refused in words is a finding, and is written
down as ``crash-...``. ``--seconds N`` (default 60); a folder of inputs to begin with may follow.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from tests import children
from tests.serving.fuzz_targets import SEEDS, TARGETS


def campaign(target: str, seconds: int) -> tuple[int, list[str]]:
    """Inputs tried by a process of its own, and what it found: the names of libFuzzer's files, or its last words."""
    command = children.python("-m", "tests.serving.fuzz", target, "--seconds", seconds, "-seed=1")
    with tempfile.TemporaryDirectory() as folder:
        run = children.run([*command, f"-artifact_prefix={folder}/"], timeout=None)
        crashes = sorted(path.name for path in Path(folder).iterdir())
    log = run.stdout + run.stderr
    counts = re.findall(r"(?:Done |^#)(\d+)", log, re.MULTILINE)
    if run.returncode and not crashes:
        crashes = [f"it ended with status {run.returncode}: {log.strip()[-200:]}"]
    return max(map(int, counts), default=0), crashes


def main() -> None:
    """Entry point; words that are not understood here are libFuzzer's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=60)
    asked, more = parser.parse_known_args()
    try:
        import atheris
    except ImportError:
        sys.exit("this needs atheris: pip install atheris")
    seed = SEEDS.get(asked.target, b"")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "seed").write_bytes(seed)
        with atheris.instrument_imports(include=["eunomia"], enable_loader_override=False):
            TARGETS[asked.target](seed)
        limits = [f"-max_total_time={asked.seconds}", "-max_len=4096"]
        atheris.Setup([sys.argv[0], *limits, folder, *more], TARGETS[asked.target])
        atheris.Fuzz()


if __name__ == "__main__":
    main()
