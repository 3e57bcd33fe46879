"""The process in which a network is tried on inputs that are empty, as it may die of them.

Started as ``python -m eunomia.serving.devices.empty_trial``, with its order as JSON. The input is made up, of the sizes
that a client sent; no value of the client's is there. It goes through the blocks of the cut that serves, and then
through the whole network.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator

import numpy as np

from eunomia.core.errors import ModelError
from eunomia.core.workers import follow_parent, how_it_ended
from eunomia.serving.devices.asked import GONE, ONE_THREAD, bound
from eunomia.serving.devices.axes import Shapes
from eunomia.serving.devices.cutting import LONGEST, Away, CutNetwork, kept
from eunomia.serving.devices.messages import Message, Ports
from eunomia.serving.devices.network import LoadedNetwork, sessions_of, whole_of
from eunomia.serving.devices.piece import Feed, live_of
from eunomia.serving.devices.ports import ranked
from eunomia.serving.devices.prepare import FULL, POLITE, REFUSED, UTF_8
from eunomia.serving.devices.priority import end_first
from eunomia.serving.devices.trial import cause, on_either, trial_feed

MOST_S, MOST_USED_S = 30.0, 10  # on the clock, and of processor time
COUNTS = 4  # sizes that are tried as values
LETTERS = 64 * 1024  # of what it may say


async def try_empty(order: Message) -> None:
    """Whether the network of an ``order`` runs an input of its ``shapes``. Raises ModelError; Away if nobody knows."""
    python = sys.executable, "-m", "eunomia.serving.devices.empty_trial"
    alone = {**os.environ, **UTF_8, **ONE_THREAD}
    # By the event loop's thread, with which it ends.
    process = await asyncio.create_subprocess_exec(
        *python, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=alone
    )
    try:
        async with asyncio.timeout(MOST_S):
            said, _ = await process.communicate(json.dumps(order).encode())
    except TimeoutError:
        raise ModelError(f"it did not end within {MOST_S:.0f} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    status, why = process.returncode or 0, said[:LETTERS].decode(errors="replace").strip()
    if status == FULL:
        raise Away(why)
    if status == REFUSED:
        raise ModelError(why[:LONGEST])
    if status == -signal.SIGXCPU:
        raise ModelError(f"it took more than {MOST_USED_S} s of processor time")
    if -status in (signal.SIGKILL, signal.SIGTERM):
        raise Away(f"the process that tries it {how_it_ended(status, said)}")
    if status:
        raise ModelError(f"the process that tried it {how_it_ended(status, said)}")


def run(cut: CutNetwork, shapes: Shapes) -> None:
    """In blocks, and whole; raises ModelError, MemoryError and what the runtime raises."""
    names = [(inputs, outputs) for inputs, outputs, _ in cut.blocks]
    blocks = LoadedNetwork(sessions_of(cut), names, ranked(cut.ports, {}))
    whole = LoadedNetwork([whole_of(cut)], [(names[0][0], names[-1][1])], ranked(cut.ports, {}))
    for network in (blocks, whole):
        _on_any(network, shapes)


def _on_any(network: LoadedNetwork, shapes: Shapes) -> None:
    """On numbers, or ones, or on numbers beside scalars that count; raises the first ModelError."""
    try:
        on_either(lambda ones: _through(network, trial_feed(network.ports, shapes, ones=ones)))
    except ModelError:
        for feed in counting(network.ports, trial_feed(network.ports, shapes)):
            with contextlib.suppress(ModelError):
                _through(network, feed)
                return
        raise


def counting(ports: Ports, feed: Feed) -> Iterator[Feed]:
    """The same with sizes of free axes as the scalars of whole numbers, where there are any; each size once.

    Such scalars are often lengths of other inputs: GroupQueryAttention's ``total_sequence_length`` is.
    """
    scalars = {
        name: array.dtype for name, array in feed.items() if not array.shape and array.dtype.kind in "iu"
    }
    free = {
        size
        for p in ports["inputs"]
        for size, of in zip(feed[p["name"]].shape, p["shape"], strict=True)
        if of < 0
    }
    for size in sorted(free - {0}, reverse=True)[: COUNTS * bool(scalars)]:
        if all(size <= np.iinfo(dtype.name).max for dtype in scalars.values()):
            yield {**feed, **{name: np.full((), size, dtype) for name, dtype in scalars.items()}}


def _through(network: LoadedNetwork, feed: Feed) -> None:
    live = live_of(feed)
    try:
        for n in range(network.blocks):
            live = network.run_block(n, live)
    except Exception as error:  # ONNX Runtime's exceptions share no base class
        raise ModelError(cause(error)) from None


def main() -> int:
    """Entry point of the process."""
    told = json.load(sys.stdin)
    os.nice(POLITE)
    end_first()
    cut = kept("", told["cache"], {}, told["target_s"], told["name"])
    if cut is None:
        print(GONE)
        return FULL
    bound(cut, told["memory"])
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (min(MOST_USED_S, hard) if hard >= 0 else MOST_USED_S, hard))
    try:
        run(cut, told["shapes"])
    except Exception as error:
        print(cause(error))
        return REFUSED
    return 0


if __name__ == "__main__":
    follow_parent(os.getppid())
    sys.exit(main())
