"""Gavel's agnostic FIFO with the fault of its code: for parity in Gavel's mode, not for conclusions."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from eunomia.contract.allocation import Allocation, ClusterView, Needs

Sizes = dict[int, int]  # workers, by job
Runs = dict[int, list[bool]]  # on which types it can run, by job


@dataclass
class StaleFifo:
    """Draw one of the types with room, then place the job on another: the last by name of those with devices left.

    Gavel's code (OSDI 2020) draws a type for the head of the line. Then it goes on with the variable of the loop that
    looked for room before. While any type has room for the next job, all jobs therefore go to one type, which is handed
    out several times over; the rounds share it among them, so nobody waits for long. Only when the last type is handed
    out exactly is a type struck off, and that is the drawn one. A job that takes the place of a finished one goes to
    its type.

    Parity rests on the draws: Python's own generator, with the seed of the run. Does badly: as a baseline, for it is no
    first-in-first-out.
    """

    needs: Needs = Needs("devices", agnostic=True, every_event=True, overcommits=True)

    def __post_init__(self) -> None:
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Forget who was placed where."""
        self._draws = random.Random(seed)
        self._chosen: dict[int, int] = {}

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices of one type for every placed job, beyond what there is."""
        scale = dict(zip(view.key.tolist(), view.scale.tolist(), strict=True))
        free: list[int] = view.capacity.tolist()
        line = [key for key in sorted(scale) if key not in self._chosen]
        runs = dict(zip(view.key.tolist(), (view.throughput > 0.0).tolist(), strict=True))
        self._replace(scale, runs, free, line)
        self._serve(view, runs, free, line)
        devices = np.zeros(view.throughput.shape, np.int64)
        for m, key in enumerate(view.key.tolist()):
            if key in self._chosen:
                devices[m, self._chosen[key]] = view.scale[m]
        return Allocation(shares=(devices > 0).astype(np.float64), devices=devices)

    def _replace(self, scale: Sizes, runs: Runs, free: list[int], line: list[int]) -> None:
        """Count what placed jobs hold, in order of arrival; each that ended leaves its type to the head of the line."""
        for key in sorted(self._chosen):
            j = self._chosen[key]
            if key in scale:
                free[j] -= scale[key]
                continue
            del self._chosen[key]
            if line and scale[line[0]] <= free[j] and runs[line[0]][j]:
                head = line.pop(0)
                self._chosen[head] = j
                free[j] -= scale[head]

    def _serve(self, view: ClusterView, runs: Runs, free: list[int], line: list[int]) -> None:
        """The rest of the line, up to the first job for which no type has room."""
        names, scale = view.cluster.names, dict(zip(view.key.tolist(), view.scale.tolist(), strict=True))
        types = sorted((j for j in range(len(names)) if free[j] > 0), key=lambda j: names[j])
        for key in line:
            roomy = [place for place, j in enumerate(types) if free[j] >= scale[key]]
            if not roomy:
                return
            drawn = roomy[self._draws.randrange(len(roomy))]
            stale = types[-1]
            if not runs[key][stale]:
                continue  # passed over until the next time
            self._chosen[key] = stale
            free[stale] -= scale[key]
            if free[stale] == 0:
                del types[drawn]
