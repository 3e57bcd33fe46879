"""What every block costs on every device, measured and kept up to date while serving."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from eunomia.core.errors import ModelError
from eunomia.serving.dispatch.learning import TRIAL, compile_learning
from eunomia.serving.dispatch.scatter import Scatter
from eunomia.serving.dispatch.shapes import COARSE, NOBODY, STEEPEST, ShapeClass, ShapeClasses, curve, grown

DOUBTED = 0.25  # runs that evidence counts for which has proved wrong: four fifths of the next one replace it


@dataclass(frozen=True)
class Network:
    """One loaded network: its rows in the table are ``first_row`` .. ``first_row + blocks - 1``.

    They are for inputs of the trial's shape; other shapes have rows of their own.
    """

    index: int
    name: str
    first_row: int
    blocks: int
    whole: bool = False  # devices hold it in one piece too
    untried: bool = False  # no made-up input runs on it
    rows: int = 1  # of the trial's input


class CostBook:
    """Seconds per (block, device) and row of input, for each class of shapes, and the sums that policies need.

    ``latency_s``: (rows, devices), inf where a network is not loaded or the device is dead. Rows of an
    unloaded network are kept, so that running requests stay valid; a network loaded anew gets new rows. What is
    known of a dead device still counts in ``rest_s``: it will be back, and its requests are not hopeless.

    A class that never ran has estimates (shapes.py), and ``evident`` is False. The first run of a network that is
    ``untried`` stands for its trial; until then its time is a guess of the device's, and ``longest_s`` has no end.

    ``mean_s``: of every block's time over its last few hundred runs, for each class of shapes by itself; ``scatter``:
    how far single times lie around it.
    """

    def __init__(self, devices: int) -> None:
        self.latency_s: npt.NDArray[np.float64] = np.empty((0, devices))
        self._known_s = self.latency_s.copy()
        self.mean_s = self.latency_s.copy()
        self._seen = np.zeros((0, devices))
        self._runs = np.zeros((0, devices))  # that speak for a block's time
        self._evident: set[int] = set()  # first rows of classes all of whose blocks some device has run
        self.scatter = Scatter(devices)
        self.networks: dict[str, Network] = {}
        self.apart: set[int] = set()  # numbers of networks whose requests share no run
        self.by_row: set[int] = set()  # of those that answer each row as if it were alone
        self.usual = dict[int, int]()  # networks cut otherwise -> as which they were tried first
        self._guessed: set[int] = set()  # numbers of networks that never ran
        self._shapes: dict[int, ShapeClasses] = {}  # by number of network
        self._learn = compile_learning()
        self._count = 0
        self._rest: dict[int, tuple[list[float], list[float]]] = {}  # by first row

    def add(
        self,
        name: str,
        blocks: int,
        *,
        whole: bool = False,
        rows: int = 1,
        sizes: Sequence[int] = (),
        untried: bool = False,
    ) -> Network:
        """Room for a network whose times no device has measured yet; ``rows``, ``sizes``: of the trial's input."""
        network = Network(self._count, name, self._grow(blocks), blocks, whole, untried, rows)
        self._count += 1
        self.networks[name] = network
        self.scatter.add(network.index)
        shapes = self._shapes[network.index] = ShapeClasses()
        if untried:  # the shape of its first request is that of its trial
            self._guessed.add(network.index)
        else:
            shapes.add(shapes.key(rows, sizes), sizes, network.first_row)
        return network

    def _grow(self, blocks: int) -> int:
        first_row, fresh = len(self.latency_s), np.full((blocks, self.latency_s.shape[1]), np.inf)
        self.latency_s = np.concatenate([self.latency_s, fresh])
        self._known_s = np.concatenate([self._known_s, fresh])
        self.mean_s = np.concatenate([self.mean_s, fresh])
        self._seen = np.concatenate([self._seen, np.zeros(fresh.shape)])
        self._runs = np.concatenate([self._runs, np.zeros(fresh.shape)])
        return first_row

    def row_of(self, network: Network, rows: int, sizes: Sequence[int], owner: int = NOBODY) -> int:
        """First row of the times for a shape: so many rows, so many elements per row in each input.

        A class without evidence is estimated anew, from what was measured since. ``owner``: whose request it is.
        """
        shapes = self._shapes.get(network.index)
        if shapes is None or not sizes:
            return network.first_row
        key = shapes.key(rows, sizes, owner)
        found = shapes.found.get(key)
        if found is None:
            first_row = self._grow(network.blocks) if shapes.found else network.first_row
            found = shapes.add(key, sizes, first_row, owner)
        if found.first_row not in self._evident:
            self._estimate(network, found)
        return found.first_row

    def evident(self, first_row: int) -> bool:
        """Whether every block has run, on some device, with an input of this class."""
        return first_row in self._evident

    def fine(self, network: Network, first_row: int) -> bool:
        """Whether a class holds like shapes only: beyond a number of classes, they hold more."""
        found = self._shapes[network.index].found if network.index in self._shapes else {}
        return any(one.first_row == first_row and key[0] != COARSE for key, one in found.items())

    def settled(self, network: Network, device: int, first_row: int) -> bool:
        """Whether so much has run of a class on a device that one more run says little."""
        return bool((self._runs[first_row : first_row + network.blocks, device] >= TRIAL).all())

    def doubt(self, network: Network, first_row: int) -> None:
        """What is known of a class has proved wrong: its next runs count for much."""
        rows = slice(first_row, first_row + network.blocks)
        self._runs[rows] = np.minimum(self._runs[rows], DOUBTED)

    def measured(self, network: Network, device: int, block_s: list[float]) -> None:
        """Times of all blocks on one device."""
        self._fits(network, device, block_s)
        rows = self.rows(network)
        if network.untried:  # what it took, here or elsewhere, comes before a guess
            ran = self._runs[rows].any(axis=1)
            block_s = np.where(ran, self._known_s[rows].min(axis=1), block_s).tolist()
        for table in (self.latency_s, self._known_s, self.mean_s):
            table[rows, device] = block_s
        self._seen[rows, device] = 0.0  # a trial weighs as much as one run
        if not network.untried:
            self._runs[rows, device] = TRIAL
            self._evident.add(network.first_row)
        self._rest.pop(network.first_row, None)
        for one in self._shapes[network.index].found.values():
            self._estimate(network, one)

    def timed(self, network: Network, rows: int, sizes: Sequence[int]) -> None:
        """One that is ``untried`` was timed just now, with a request's input of these sizes: that is no guess."""
        shapes, base = self._shapes[network.index], self.rows(network)
        self._guessed.discard(network.index)
        shapes.add(shapes.key(rows, sizes), sizes, network.first_row)
        self._runs[base] = np.where(np.isfinite(self._known_s[base]), TRIAL, 0.0)
        self._evident.add(network.first_row)

    def back(self, network: Network, device: int, block_s: list[float]) -> None:
        """A device that had died has a network again: what was learned of it there holds."""
        self._fits(network, device, block_s)
        classes = self._shapes[network.index].found.values()
        for first_row in {network.first_row, *(one.first_row for one in classes)}:
            rows = slice(first_row, first_row + network.blocks)
            self.latency_s[rows, device] = self._known_s[rows, device]

    def known(self, network: Network, device: int) -> list[float]:
        """Times of all blocks on a device with the trial's input; none where a block never ran there."""
        found: list[float] = self._known_s[self.rows(network), device].tolist()
        return found if np.isfinite(found).all() else []

    def _fits(self, network: Network, device: int, block_s: list[float]) -> None:
        if len(block_s) != network.blocks:
            raise ModelError(
                f"network '{network.name}' has {len(block_s)} blocks on device {device} and "
                f"{network.blocks} elsewhere; devices must cut it alike"
            )

    def forget(self, network: Network) -> None:
        """No request needs it any more: its sums go; its rows stay, a few bytes a block."""
        self.apart.discard(network.index)
        self.by_row.discard(network.index)
        self.usual.pop(network.index, None)
        self._guessed.discard(network.index)
        self.scatter.runs.pop(network.index, None)
        for one in self._shapes.pop(network.index, ShapeClasses()).found.values():
            self._rest.pop(one.first_row, None)
            self._evident.discard(one.first_row)

    def lost(self, device: int) -> None:
        """A device has died: nothing runs there until it has loaded its networks again."""
        self.latency_s[:, device] = np.inf

    def learn(
        self,
        network: Network,
        device: int,
        first: int,
        seconds: list[float],
        batch: int,
        first_row: int | None = None,
    ) -> bool:
        """Times just seen, for all rows of the batch together; ``first_row``: of its class, by default the trial's.

        Whether the class has evidence now, and had none.
        """
        return self.learn_all(network, device, first, [seconds], batch, first_row)

    def learn_all(
        self,
        network: Network,
        device: int,
        first: int,
        runs: Sequence[list[float]],
        batch: int,
        first_row: int | None = None,
    ) -> bool:
        """The same of several runs of the same blocks, in their order."""
        start = network.first_row if first_row is None else first_row
        rows = slice(start + first, start + first + len(runs[0]))
        tables = self.latency_s, self._known_s, self.mean_s, self._seen, self._runs
        rows_s = np.asarray(runs) / max(batch, 1)
        learned = [self._learn(tables, rows.start, device, seen_s) for seen_s in rows_s]
        self._rest.pop(start, None)
        self.scatter.note(network.index, device, learned)
        if network.index in self._guessed:
            self._first_run(network, device, start)
        if start != network.first_row:
            if (
                network.index in self._shapes and not self._runs[rows].all()
            ):  # what one device has measured says something of the others
                self._estimate(network, self._class_at(network, start))
        if network.index in self._shapes:
            self.rest_s(network, start)  # now: the next request asks for it on its way to a device
        if start in self._evident or network.index not in self._shapes:
            return False
        if self._runs[start : start + network.blocks].any(axis=1).all():
            self._evident.add(start)
        return start in self._evident

    def _first_run(self, network: Network, device: int, start: int) -> None:
        """For all devices and the class of the first request, in proportion to elements."""
        self._guessed.discard(network.index)
        found, rows = self._shapes[network.index].found, self.rows(network)
        share = 1.0
        if start != network.first_row:
            here, base = self._class_at(network, start), self._class_at(network, network.first_row)
            share = grown([here], base)[0]
        took_s = self._known_s[start : start + network.blocks, [device]] * share
        fresh = (self._runs[rows] == 0.0) & np.isfinite(self._known_s[rows])
        for table in (self.latency_s, self._known_s, self.mean_s):
            table[rows] = np.where(fresh & np.isfinite(table[rows]), took_s, table[rows])
        self._runs[rows] = np.where(fresh, DOUBTED, self._runs[rows])
        self._rest.pop(network.first_row, None)
        for one in found.values():
            self._estimate(network, one)

    def _class_at(self, network: Network, first_row: int) -> ShapeClass:
        return next(one for one in self._shapes[network.index].found.values() if one.first_row == first_row)

    def _estimate(self, network: Network, wanted: ShapeClass) -> None:
        """Fill in what devices have not measured of a class: the curve, in proportion to their times of the trial."""
        base, rows = self.rows(network), slice(wanted.first_row, wanted.first_row + network.blocks)
        trial_s = self._known_s[base]
        measured = [] if wanted.first_row == network.first_row else self._measured(network)
        share = curve(wanted, measured) if measured else 1.0
        guess = np.where(self._runs[rows] > 0.0, self._known_s[rows], trial_s * np.reshape(share, (-1, 1)))
        self._known_s[rows] = guess
        self.latency_s[rows] = np.where(np.isfinite(self.latency_s[base]), guess, np.inf)
        self._rest.pop(wanted.first_row, None)

    def _measured(self, network: Network) -> list[tuple[ShapeClass, npt.NDArray[np.float64]]]:
        """Classes with evidence: their times over those of the trial, mean of the devices that measured both."""
        base, found = self._known_s[self.rows(network)], []
        for one in self._shapes[network.index].found.values():
            rows = slice(one.first_row, one.first_row + network.blocks)
            both = (self._runs[rows] > 0.0) & (self._runs[self.rows(network)] > 0.0)
            if both.any(axis=1).all():
                ratio = np.divide(
                    self._known_s[rows], np.maximum(base, 1e-12), out=np.zeros(both.shape), where=both
                )
                found.append((one, ratio.sum(axis=1) / both.sum(axis=1)))
        return found

    def longest_s(self, network: Network, first_row: int) -> float:
        """The longest block of a class per row of input: as measured, or no less than it can be.

        A class that never ran counts as grown with the square of its elements from any smaller one that did; from the
        trial alone, which may be of one element, in proportion.
        """
        if network.index in self._guessed:
            return math.inf
        if first_row in self._evident or network.index not in self._shapes:
            return self._longest_s(network, first_row)
        smaller = [
            self._longest_s(network, one.first_row) * grown**STEEPEST
            for one, grown in self._grown(network, first_row)
            if one.first_row != network.first_row
        ]
        return max(min(smaller, default=0.0), self._longest_s(network, first_row))

    def least_s(self, network: Network, first_row: int) -> float:
        """What one row of a class takes; of one that never ran, if time grows no faster than elements do.

        The curve may be steep where what was measured lies close together, and a little of it was chance.
        """
        foreseen_s = self.rest_s(network, first_row)[0][0]
        if first_row in self._evident or network.index not in self._shapes:
            return foreseen_s
        grown = self._grown(network, first_row)
        return min([foreseen_s, *(self.rest_s(network, one.first_row)[0][0] * times for one, times in grown)])

    def _grown(self, network: Network, first_row: int) -> list[tuple[ShapeClass, float]]:
        """Classes with evidence that are no larger than this one, and how many times their size it has."""
        wanted = self._class_at(network, first_row)
        there = [one for one in self.classes(network) if one.first_row in self._evident]
        pairs = zip(there, grown(there, wanted), strict=True)
        return [(one, times) for one, times in pairs if times >= 1.0]

    def classes(self, network: Network) -> list[ShapeClass]:
        """Of its shapes, as far as they were seen."""
        return [*self._shapes[network.index].found.values()] if network.index in self._shapes else []

    def _longest_s(self, network: Network, first_row: int) -> float:
        to_the_end = self.rest_s(network, first_row)[0]
        return max(now - later for now, later in pairwise(to_the_end))

    def expected_s(self, first_row: int, first: int, following: int, device: int) -> float:
        """What these blocks of a class take in the mean; 0 where that is not known."""
        mean_s = float(sum(self.mean_s[first_row + first : first_row + following, device].tolist()))
        return mean_s if mean_s < math.inf else 0.0

    @property
    def known_s(self) -> npt.NDArray[np.float64]:
        """As ``latency_s``, and for dead devices what was known of them."""
        return self._known_s

    def rows(self, network: Network) -> slice:
        """Where the blocks of a network stand."""
        return slice(network.first_row, network.first_row + network.blocks)

    def rest_s(self, network: Network, first_row: int | None = None) -> tuple[list[float], list[float]]:
        """Time from block n to the end, blocks + 1 each: on the best device of each block, and mean over devices.

        For one row of an input of the class with this ``first_row``, by default the trial's.
        """
        start = network.first_row if first_row is None else first_row
        if start not in self._rest:
            table = self._known_s[start : start + network.blocks].tolist()
            best = [min(row) for row in table]
            known = [[t for t in row if t < math.inf] for row in table]
            mean = [sum(row) / max(len(row), 1) for row in known]
            self._rest[start] = _from_here(best), _from_here(mean)
        return self._rest[start]


def _from_here(values: list[float]) -> list[float]:
    return list(accumulate(reversed(values), initial=0.0))[::-1]
