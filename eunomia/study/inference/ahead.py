"""``python -m eunomia.study.inference.ahead``: compile what a rehearsal tries, into the cache, and end.

Beside a first run on another core, it halves the wait of a fresh installation. Where all is compiled it takes seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from eunomia.config import demo_scenario
from eunomia.core.workers import follow_parent
from eunomia.inference.rehearsal import PUBLISHED
from eunomia.study.inference.run import run


@contextmanager
def compiling_beside(wanted: bool = True) -> Iterator[None]:
    """Such a process, where there is another core, until the block ends."""
    if not wanted or (os.cpu_count() or 1) < 2:
        yield
        return
    command = [sys.executable, "-m", "eunomia.study.inference.ahead", str(os.getpid())]
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing) as one:
        try:
            yield
        finally:
            one.kill()


def main(parent: int) -> None:
    """The learned decision first: it takes longest."""
    follow_parent(parent)
    scenario = demo_scenario(("duration_s=0.02", "warmup_s=0"))
    for policy in ("eunomia(rehearse=0)", *PUBLISHED, "lookahead(base=edf+f,charge=true)", "blend"):
        run(scenario, policy, record="requests")


if __name__ == "__main__":
    main(int(sys.argv[1]))
