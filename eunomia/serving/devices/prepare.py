"""The process that optimises and cuts a network while its device serves others.

Started as ``python -m eunomia.serving.devices.prepare FILE CACHE SHAPES TARGET_S KEY MOST_S``; the result stays in the
cache. It reads and writes whole networks, during which no other thread of its process could run.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from eunomia.core.atomic import clear_output_errors
from eunomia.core.errors import EunomiaError, ModelError, OutputError
from eunomia.core.workers import follow_parent, how_it_ended
from eunomia.serving.blocks.long import LongBlock
from eunomia.serving.blocks.optimise import SCRATCH
from eunomia.serving.devices.cutting import Away, kept, prepare
from eunomia.serving.devices.memory import (
    LEAST_LEFT,
    bound_memory,
    no_room,
    out_of_memory,
    own_bytes,
    within_what_is_free,
)
from eunomia.serving.devices.priority import end_first

POLITE = 3  # whose device it shares goes first
UTF_8 = {"PYTHONIOENCODING": "utf-8:backslashreplace"}  # no name of a file is beyond its words
MOST_S = 100.0  # less than the front end waits for a device that loads
MOST_USED_S = 30  # of processor time, where clients chose the sizes
REFUSED, LONG, FULL = 3, 4, 5  # exit status: its output says why, or how long a block takes; of the disk


def prepare_aside(
    path: str,
    cache: str,
    shapes: Mapping[str, list[int]],
    target_s: float,
    key: str = "",
    most_s: float = 0.0,
) -> None:
    """Run it to its end. ``key``: of the content, if that is known.

    ``most_s``: of a block, where clients chose the sizes; a cut with a longer one does not stay (LongBlock). 0 = it
    may. Raises ModelError in its words, or where it fails or hangs: no device tries that file.
    """
    if kept(path, cache, dict(shapes), target_s, key) is not None:
        return
    arguments = [path, cache, json.dumps(dict(shapes)), repr(target_s), key, repr(most_s)]
    with _scratch(Path(cache)) as scratch:
        try:
            done = subprocess.run(
                [sys.executable, "-m", "eunomia.serving.devices.prepare", *arguments],
                stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=MOST_S,
                env={**os.environ, **UTF_8, "TMPDIR": scratch},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise ModelError(f"it was not optimised and cut within {MOST_S:.0f} s") from None
    if done.returncode == -signal.SIGXCPU:
        raise ModelError(f"it was not cut within {MOST_USED_S} s of processor time")
    if done.returncode == LONG:
        longest_s, _, text = done.stdout.decode(errors="replace").partition("\n")
        raise LongBlock(text.strip(), float(longest_s))
    if done.returncode in (REFUSED, FULL):
        kind = Away if done.returncode == FULL else ModelError
        raise kind(done.stdout.decode(errors="replace").strip())
    if done.returncode:
        how = how_it_ended(done.returncode, done.stdout + b"\n" + done.stderr)
        of_file = "" if ":" in how else ": ONNX Runtime dies of the file; export it anew"
        raise ModelError(f"the process that optimises it {how}{of_file}")


@contextlib.contextmanager
def _scratch(cache: Path) -> Iterator[str]:
    """A folder for what a process leaves that is ended; raises Away."""
    try:
        with clear_output_errors(cache):
            cache.mkdir(parents=True, exist_ok=True)
            folder = tempfile.TemporaryDirectory(prefix=SCRATCH, dir=cache, ignore_cleanup_errors=True)
    except OutputError as error:
        raise Away(str(error)) from None
    with folder as name:
        yield name


def bound() -> None:
    """Sizes may be made to take all: so long, and no more memory than is left of the device's."""
    end_first()
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_USED_S if hard < 0 else min(MOST_USED_S, hard), hard))
    if (most := resource.getrlimit(resource.RLIMIT_DATA)[0]) >= 0:
        bound_memory(max(most - own_bytes(os.getppid()), LEAST_LEFT))


def main(arguments: list[str]) -> int:
    """Entry point of the process."""
    path, cache, shapes, target_s, key, most_s = arguments
    os.nice(POLITE)
    if float(most_s):
        bound()
    most = max(resource.getrlimit(resource.RLIMIT_DATA)[0], 0)
    try:
        with clear_output_errors(Path(cache)), within_what_is_free(most):
            cut = prepare(path, cache, json.loads(shapes), float(target_s), key, float(most_s) or math.inf)
        if not cut.folder.exists():
            raise OutputError(f"{cache} does not keep its blocks; see that it can be written")
    except LongBlock as error:
        print(error.longest_s, error, sep="\n")
        return LONG
    except EunomiaError as error:
        print(error)
        return FULL if isinstance(error, OutputError) else REFUSED
    except Exception as error:
        if (bound_mib := out_of_memory(error)) is None:
            raise
        print(no_room(bound_mib))
        return REFUSED
    return 0


if __name__ == "__main__":
    follow_parent(os.getppid())
    sys.exit(main(sys.argv[1:]))
