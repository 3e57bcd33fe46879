"""The process that optimises and cuts a network while its device serves others.

Started as ``python -m eunomia.serving.devices.prepare FILE CACHE SHAPES TARGET_S``; the result stays in the cache. It
reads and writes whole networks, during which no other thread of its process could run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

from eunomia.core.errors import EunomiaError
from eunomia.serving.devices.network import kept, prepare

POLITE = 3  # whose device it shares goes first


def prepare_aside(path: str, cache: str, shapes: Mapping[str, list[int]], target_s: float) -> None:
    """Run it to its end; a fault shows when the network is loaded."""
    if kept(path, cache, target_s) is not None:
        return
    arguments = [path, cache, json.dumps(dict(shapes)), repr(target_s)]
    subprocess.run(
        [sys.executable, "-m", "eunomia.serving.devices.prepare", *arguments],
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def main(arguments: list[str]) -> int:
    """Entry point of the process."""
    path, cache, shapes, target_s = arguments
    os.nice(POLITE)
    try:
        prepare(path, cache, json.loads(shapes), float(target_s))
    except EunomiaError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
