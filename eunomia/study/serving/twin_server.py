"""What a recording says of the server itself: how its dispatcher was set, and what its devices took besides means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.data import Data
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.dispatch.overheads import ASKED, BESIDE, DELAYS, MOVED
from eunomia.study.serving.twin_costs import Damaged
from eunomia.study.serving.twin_noise import MOST_FACTOR, MOST_S, number_lists

DISPATCHED = 8  # formats from this one on say enough to run the dispatcher itself
LONGEST_S = 1e6  # of an option

Draws = Sequence[float]  # numbers of equal chance


@dataclass(frozen=True)
class TwinServer:
    """``blocks``: by model of the twin's table, seconds of each block on each device; inf = it does not run there.

    ``network``: the name of each model's network; ``whole``: of those that can run in one piece. ``delays``: by kind
    and device (serving/dispatch/overheads.py), what is lost before and behind runs. ``runs``: by network and device,
    what runs took over the means of their blocks.
    """

    options: DispatchOptions
    blocks: tuple[Floats, ...]
    network: tuple[str, ...]
    whole: frozenset[str]
    delays: Mapping[str, Sequence[Draws]]
    runs: Mapping[str, Sequence[Draws]]


def twin_server(content: Data, blocks: tuple[Floats, ...], network: tuple[str, ...]) -> TwinServer | None:
    """None where the format is older. Raises Damaged, KeyError."""
    if content["format"] < DISPATCHED:
        return None
    names, devices = set(content["networks"]), len(content["devices"])
    for name, times in zip(network, blocks, strict=True):
        if not np.isfinite(times).all(axis=0).any():
            raise Damaged(f"no device runs all blocks of network '{name:.50}'")
    delays = {
        kind: number_lists(f"delays, {kind}", content["delays"][kind], devices, MOST_S) for kind in DELAYS
    }
    runs = {
        name: number_lists(
            f"runs of '{name:.50}'", content["runs"].get(name) or [[]] * devices, devices, MOST_FACTOR
        )
        for name in names
    }
    if not isinstance(content["whole"], list) or not set(content["whole"]) <= names:
        raise Damaged(f"whole is {content['whole']!r:.80}; it names networks of the recording")
    options = {name: _seconds(name, value) for name, value in content["options"].items()}
    return TwinServer(
        DispatchOptions(
            _seconds("lease_s", content["lease_s"]),
            "drop" if content["late"] == "drop" else "last",
            ahead_s=options["ahead_s"],
            starve_s=options["starve_s"],
            calm_s=options["calm_s"],
        ),
        blocks,
        network,
        frozenset(content["whole"]),
        _filled(delays),
        runs,
    )


def _filled(delays: Mapping[str, Sequence[Draws]]) -> dict[str, Sequence[Draws]]:
    """A device that has measured nothing of a kind is like all others together.

    Where none has, a start is like one of a device that got its order late, and a change of device costs twice that.
    """
    of_all = {kind: [number for each in lists for number in each] for kind, lists in delays.items()}
    asked = of_all[ASKED] or [0.0]
    instead = dict.fromkeys(DELAYS, asked) | {
        MOVED: [2.0 * number for number in asked],
        **dict.fromkeys(BESIDE, [0.0]),
    }
    return {kind: [each or of_all[kind] or instead[kind] for each in lists] for kind, lists in delays.items()}


def _seconds(name: str, value: object) -> float:
    """An option; null = endless."""
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= LONGEST_S:
        raise Damaged(f"{name} is {value!r:.50}; it lies in 0..{LONGEST_S:g}, null means endless")
    return float(value)
