"""Sizes that a network takes where it fails on inputs of one element, tried in turn before an operator is asked.

A convolution wider than its picture, a reshape to groups of eight and a window of a signal need more than one.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from eunomia.serving.devices.messages import Port, Ports
from eunomia.serving.devices.piece import Feed, live_of, piece_of
from eunomia.serving.devices.trial import trial_feed

if TYPE_CHECKING:
    from eunomia.serving.blocks.optimise import Optimised

SIZES = (8, 16, 32, 64, 128, 224, 256, 512, 1024, 1)  # of free axes behind the first: time may grow steeply
ROWS = (1, 2, 4, 8, 32)  # of free first axes
MOST_ELEMENTS = 2**22  # of one input
MOST_S = 20.0
Shapes = dict[str, list[int]]


def fitting(optimised: Optimised, ports: Ports, shapes: Mapping[str, Sequence[int]]) -> Shapes:
    """Of inputs with free axes to which ``shapes`` gives no sizes; empty where nothing fits, or time is up."""
    import onnxruntime as ort

    from eunomia.serving.blocks.optimise import session_options

    options, until_s = session_options(optimised=True), time.monotonic() + MOST_S
    session = ort.InferenceSession(str(optimised.path), options, providers=["CPUExecutionProvider"])
    names = [port["name"] for port in ports["inputs"]], [port["name"] for port in ports["outputs"]]
    whole = piece_of(session, *names)
    for found in candidates(ports, shapes):
        for ones in (False, True):
            feed: Feed = trial_feed(ports, {**found, **shapes}, ones=ones)
            with contextlib.suppress(Exception):  # whatever it does not like about them
                whole.run(live_of(feed))
                return found
        if time.monotonic() > until_s:
            break
    return {}


def candidates(ports: Ports, shapes: Mapping[str, Sequence[int]]) -> Iterator[Shapes]:
    """Fewest rows first; none of more elements than a trial may have."""
    unranked = ports.get("unranked", [])
    free = [p for p in ports["inputs"] if p["name"] not in {*shapes, *unranked} and -1 in p["shape"]]
    tried = list[Shapes]()
    for rows in ROWS:
        for size in SIZES:
            found = {port["name"]: _sized(port, rows, size) for port in free}
            few = all(math.prod(sizes) <= MOST_ELEMENTS for sizes in found.values())
            if found and few and found not in tried:
                tried.append(found)
                yield found


def _sized(port: Port, rows: int, size: int) -> list[int]:
    return [d if d >= 0 else size if n else rows for n, d in enumerate(port["shape"])]
