"""A client that computes for ever and prints how many iterations it has done.

``python -m eunomia.sharing.shares.stress KIND --iteration-ms 5 --idle 20..40``: KIND is ``compute``, ``memory`` or the
path of an ONNX network. Where EUNOMIA_TOKEN is set it takes the token before each iteration; the first comes before.
Idle spells count from the first token, or from the start without one.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np

from eunomia.core.errors import ConfigError, EunomiaError
from eunomia.sharing.shares.token import SOCKET, Token

COMPUTE_S, MEMORY_S = 4e-6, 22e-6  # a piece of each kind on a server processor of 2023, about
MEMORY_BYTES = 64 << 20  # beyond any cache
PRINTED_EVERY_S = 0.01


def main(words: Sequence[str]) -> int:
    """Entry point of the process; 2 and a sentence where it cannot run."""
    parser = argparse.ArgumentParser(prog="stress", description=__doc__)
    parser.add_argument("kind")
    parser.add_argument("--iteration-ms", type=float, default=5.0)
    parser.add_argument("--idle", default="")
    asked = parser.parse_args(words)
    try:
        work = work_of(asked.kind, asked.iteration_ms / 1e3)
        idle = spell_of(asked.idle) if asked.idle else None
        work()
        print(1, flush=True)
        token = Token.of_environment() if os.environ.get(SOCKET) else None
        run(work, token, idle)
    except EunomiaError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def run(work: Callable[[], None], token: Token | None, idle: tuple[float, float] | None) -> None:
    """Iterate for ever."""
    if token is not None:
        token.hold()
        token.sync()
    began_s = printed_s = time.monotonic()
    count = 1
    while True:
        now_s = time.monotonic()
        if idle is not None and idle[0] <= now_s - began_s < idle[1]:
            if token is not None:
                token.release()
            time.sleep(began_s + idle[1] - now_s)
        if token is not None:
            token.hold()
        work()
        if token is not None:
            token.sync()
        count += 1
        if (now_s := time.monotonic()) - printed_s >= PRINTED_EVERY_S:
            print(count, flush=True)
            printed_s = now_s


def spell_of(text: str) -> tuple[float, float]:
    """``20..40`` in seconds. Raises ConfigError."""
    first, dots, last = text.partition("..")
    try:
        spell = float(first), float(last)
    except ValueError:
        spell = 1.0, 0.0
    if not dots or not 0.0 <= spell[0] < spell[1] < float("inf"):
        raise ConfigError(f"idle spell '{text}': FROM..TO in seconds, for example 20..40")
    return spell


def work_of(kind: str, iteration_s: float) -> Callable[[], None]:
    """One iteration of a kind. Raises ConfigError, and ModelError for a network that fails to load."""
    if not 0.0 < iteration_s <= 10.0:
        raise ConfigError(f"an iteration of {iteration_s * 1e3:g} ms; more than 0, at most 10000")
    if kind == "compute":
        table = np.linspace(0.1, 1.0, 2048)
        return repeated(lambda: np.sqrt(table * table + 1.0, out=table), iteration_s / COMPUTE_S)
    if kind == "memory":
        read, written = np.ones(MEMORY_BYTES // 16), np.zeros(MEMORY_BYTES // 16)
        place = 0

        def sweep() -> None:
            nonlocal place
            part = slice(place, place + 16384)
            np.multiply(read[part], 1.5, out=written[part])
            place = (place + 16384) % (len(read) - 16384)

        return repeated(sweep, iteration_s / MEMORY_S)
    return network(kind)


def repeated(piece: Callable[[], object], times: float) -> Callable[[], None]:
    """One iteration: as many pieces in every process, so that iterations of several processes can be compared."""
    count = max(1, round(times))

    def work() -> None:
        for _ in range(count):
            piece()

    return work


def network(path: str) -> Callable[[], None]:
    """One inference on a trial input, in one thread."""
    from eunomia.serving.devices.network import load_network
    from eunomia.serving.devices.piece import live_of
    from eunomia.serving.devices.trial import trial_of

    with tempfile.TemporaryDirectory() as cache:
        loaded = load_network(path, cache, {}, 1.0)
    feed = {port["name"]: trial_of(port, None) for port in loaded.description()["inputs"]}

    def work() -> None:
        live = live_of(feed)
        for block in range(loaded.blocks):
            live = loaded.run_block(block, live)

    return work


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
