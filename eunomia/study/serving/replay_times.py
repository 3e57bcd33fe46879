"""What the devices of a replay take: as recorded where that is known, else one of the recorded numbers by lot.

The lot of a request is its own: under two policies the same request draws the same numbers, in whatever order it runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from eunomia.inference.reference.noise import uniform
from eunomia.serving.dispatch.jobs import SEVERAL
from eunomia.serving.dispatch.overheads import BESIDE, DELAYS, HEARD
from eunomia.study.serving.twin import Twin

STREAM = 16  # of lots; those below are the engine's


class Times:
    """Of one replay."""

    def __init__(self, twin: Twin, seed: int) -> None:
        assert twin.server is not None, "an older recording"
        self._twin, self._server, self._seed = twin, twin.server, seed
        self._model: list[int] = twin.model.tolist()
        places, factors = twin.worked_on.tolist(), twin.factor.tolist()
        self._lost: list[tuple[float, float]] = list(
            zip(twin.share.tolist(), twin.more_s.tolist(), strict=True)
        )
        self._once: list[bool] = twin.once.tolist()
        self._mean_s = {
            kind: [fmean(draws) for draws in lists] for kind, lists in self._server.delays.items()
        }
        self._own: list[tuple[int, float]] = list(zip(places, factors, strict=True))

    def delay_s(self, kind: str, device: int, number: int, block: int) -> float:
        """What is lost before this block of a request, or behind it; before it, less or more than others as recorded.

        Less in proportion, as if all its starts were quick; more by as much each, as if others held them up. Before a
        request's only run as it was, if it begins as it did.
        """
        share, more_s = self._lost[number]
        if kind in BESIDE or math.isnan(share):
            return self._drawn(self._server.delays[kind][device], number, block, DELAYS.index(kind))
        if self._once[number]:
            return share * self._mean_s[kind][device] + more_s
        return (
            share * self._drawn(self._server.delays[kind][device], number, block, DELAYS.index(kind)) + more_s
        )

    def heard_s(self, device: int, number: int, block: int, *, last: bool) -> float:
        """Between the end of a run and the front end's knowing of it; of a request's last run as recorded."""
        return float(self._twin.answer_s[number]) if last else self.delay_s(HEARD, device, number, block)

    def blocks_s(self, device: int, number: int, first: int, last: int) -> list[float]:
        """What blocks ``first`` .. ``last - 1`` of a request take."""
        model = self._model[number]
        times_s: list[float] = self._server.blocks[model][first:last, device].tolist()
        factor = self._factor(device, number, self._server.network[model])
        return [time_s * factor for time_s in times_s]

    def _factor(self, device: int, number: int, network: str) -> float:
        """Of its blocks over their means: its own where it ran there, or on several, else that of a run there."""
        place, own = self._own[number]
        if place in (device, SEVERAL) and own > 0.0:
            return own
        factors = self._server.runs[network][device]
        return self._drawn(factors, number, device, len(DELAYS)) if factors else 1.0

    def _drawn(self, values: Sequence[float], number: int, block: int, stream: int) -> float:
        if len(values) == 1:
            return values[0]
        lot = uniform(self._seed, number, block, STREAM + stream)
        return values[math.floor(lot * len(values))]
