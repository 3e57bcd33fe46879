"""Sizes that a network takes where it fails on inputs of one element, tried in turn before an operator is asked.

A convolution wider than its picture, a reshape to groups of eight and a window of a signal need more than one. Axes
that the file names alike are alike (``axes``). Where that does not fit either, all are taken for themselves.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from eunomia.serving.devices.axes import Axes, Names, Shapes, names_of
from eunomia.serving.devices.messages import Ports
from eunomia.serving.devices.piece import Feed, live_of, piece_of
from eunomia.serving.devices.trial import trial_feed

if TYPE_CHECKING:
    from eunomia.serving.blocks.optimise import Optimised

SIZES = (8, 16, 32, 64, 128, 224, 256, 512, 1024, 1)  # of free axes behind the first: time may grow steeply
ROWS = (1, 2, 4, 8, 32)  # of free first axes
MOST_ELEMENTS = 2**22  # of one input
MOST, MOST_S = 200, 20.0  # candidates, and seconds


def fitting(optimised: Optimised, ports: Ports, shapes: Mapping[str, Sequence[int]]) -> Shapes:
    """Of inputs with free axes to which ``shapes`` gives no sizes; empty where nothing fits, or time is up."""
    import onnxruntime as ort

    from eunomia.serving.blocks.optimise import session_options

    options, until_s = session_options(optimised=True), time.monotonic() + MOST_S
    session = ort.InferenceSession(str(optimised.path), options, providers=["CPUExecutionProvider"])
    names = [port["name"] for port in ports["inputs"]], [port["name"] for port in ports["outputs"]]
    whole = piece_of(session, *names)
    for found in candidates(ports, shapes, names_of(optimised.model)):
        for ones in (False, True):
            feed: Feed = trial_feed(ports, {**found, **shapes}, ones=ones)
            with contextlib.suppress(Exception):  # whatever it does not like about them
                whole.run(live_of(feed))
                return found
        if time.monotonic() > until_s:
            break
    return {}


def first_guess(ports: Ports, shapes: Mapping[str, Sequence[int]], names: Names) -> Shapes:
    """One element for each name, and what follows for sums of names.

    Empty where that is one element everywhere, or more than a trial may have.
    """
    axes = Axes(ports, shapes, names)
    found = axes.shapes(1, 1)
    same = found == Axes(ports, shapes, {}).shapes(1, 1)
    return {} if same or not _few(found) else found


def candidates(
    ports: Ports, shapes: Mapping[str, Sequence[int]], names: Names | None = None
) -> Iterator[Shapes]:
    """Fewest rows first; none of more elements than a trial may have. ``names``: of axes."""
    tried = list[Shapes]()
    for found in islice(_guesses(ports, shapes, names or {}), MOST):
        if found and _few(found) and found not in tried:
            tried.append(found)
            yield found


def _few(found: Shapes) -> bool:
    return all(math.prod(sizes) <= MOST_ELEMENTS for sizes in found.values())


def _guesses(ports: Ports, shapes: Mapping[str, Sequence[int]], names: Names) -> Iterator[Shapes]:
    """One row and one size, by names and without; one axis larger than the others; more rows."""
    ways = [Axes(ports, shapes, names), Axes(ports, shapes, {})]
    for axes in ways:
        yield from (axes.shapes(ROWS[0], size) for size in SIZES)
    for axes in ways:
        yield from axes.one_larger(ROWS[1:], (2, *SIZES[:-1]))
    for rows in ROWS[1:]:
        for axes in ways:
            yield from (axes.shapes(rows, size) for size in SIZES)
