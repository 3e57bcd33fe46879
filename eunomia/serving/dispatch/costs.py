"""What every block costs on every device, measured and kept up to date while serving."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from eunomia.core.errors import ModelError

LEARN = 0.05  # weight of a new measurement; a block's time drifts with clock speed and neighbours
LEARN_TWIN = 0.005  # the same for the digital twin: the mean of some 200 runs, not of the last 20
WILD = 0.7  # logarithms beyond it (a block that took twice as long) are an interruption, not the block's own spread


@dataclass(frozen=True)
class Network:
    """One loaded network: its rows in the table are ``first_row`` .. ``first_row + blocks - 1``."""

    index: int
    name: str
    first_row: int
    blocks: int
    whole: bool = False  # devices hold it in one piece too


class CostBook:
    """Seconds per (block, device), and the sums that policies ask for.

    ``latency_s``: (rows, devices), inf where a network is not loaded or the device is dead. Rows of an
    unloaded network are kept, so that running requests stay valid; a network loaded anew gets new rows. What is
    known of a dead device still counts in ``rest_s``: it will be back, and its requests are not hopeless.

    ``mean_s`` and ``spread``: for the digital twin. The mean is that of every block's time over its last few
    hundred runs. The spread is the standard deviation of the logarithm of time over mean.
    """

    def __init__(self, devices: int) -> None:
        self.latency_s: npt.NDArray[np.float64] = np.empty((0, devices))
        self._known_s = self.latency_s.copy()
        self.mean_s = self.latency_s.copy()
        self._seen = np.zeros((0, devices))
        self._variance, self._ratios = 0.0, 0
        self.networks: dict[str, Network] = {}
        self._count = 0
        self._rest: dict[int, tuple[list[float], list[float]]] = {}

    def add(self, name: str, blocks: int, *, whole: bool = False) -> Network:
        """Room for a network whose times no device has measured yet."""
        network = Network(self._count, name, len(self.latency_s), blocks, whole)
        self._count += 1
        fresh = np.full((blocks, self.latency_s.shape[1]), np.inf)
        self.latency_s = np.concatenate([self.latency_s, fresh])
        self._known_s = np.concatenate([self._known_s, fresh])
        self.mean_s = np.concatenate([self.mean_s, fresh])
        self._seen = np.concatenate([self._seen, np.zeros(fresh.shape)])
        self.networks[name] = network
        return network

    def measured(self, network: Network, device: int, block_s: list[float]) -> None:
        """Times of all blocks on one device."""
        if len(block_s) != network.blocks:
            raise ModelError(
                f"network '{network.name}' has {len(block_s)} blocks on device {device} and "
                f"{network.blocks} elsewhere; devices must cut it alike"
            )
        for table in (self.latency_s, self._known_s, self.mean_s):
            table[self.rows(network), device] = block_s
        self._seen[self.rows(network), device] = 0.0  # a trial weighs as much as one run
        self._rest.pop(network.index, None)

    def forget(self, network: Network) -> None:
        """No request needs it any more: its sums go; its rows stay, a few bytes a block."""
        self._rest.pop(network.index, None)

    def lost(self, device: int) -> None:
        """A device has died: nothing runs there until it has loaded its networks again."""
        self.latency_s[:, device] = np.inf

    def learn(self, network: Network, device: int, first: int, seconds: list[float], batch: int) -> None:
        """Times just seen, per request of the batch."""
        rows = slice(network.first_row + first, network.first_row + first + len(seconds))
        old = self.latency_s[rows, device]
        seen = np.asarray(seconds) / max(batch, 1)
        new = np.where(np.isfinite(old), old + LEARN * (seen - old), seen)
        self.latency_s[rows, device] = self._known_s[rows, device] = new
        self._rest.pop(network.index, None)
        self._learn_for_twin(rows, device, seen)

    @property
    def spread(self) -> float:
        """Of single block times around their means."""
        return math.sqrt(self._variance)

    def _learn_for_twin(self, rows: slice, device: int, seen: npt.NDArray[np.float64]) -> None:
        mean = self.mean_s[rows, device]
        known = np.isfinite(mean) & (mean > 0.0) & (seen > 0.0)
        ratio = np.log(seen[known] / mean[known])
        ratio = ratio[np.abs(ratio) < WILD]
        if len(ratio):
            self._ratios += 1
            weight = max(LEARN_TWIN, 1.0 / self._ratios)
            self._variance += weight * (float(np.mean(ratio**2)) - self._variance)
        self._seen[rows, device] += 1.0
        weights = np.maximum(LEARN_TWIN, 1.0 / self._seen[rows, device])
        self.mean_s[rows, device] = np.where(np.isfinite(mean), mean + weights * (seen - mean), seen)

    def rows(self, network: Network) -> slice:
        """Where the blocks of a network stand."""
        return slice(network.first_row, network.first_row + network.blocks)

    def rest_s(self, network: Network) -> tuple[list[float], list[float]]:
        """Time from block n to the end, blocks + 1 each: on the best device of each block, and mean over devices."""
        if network.index not in self._rest:
            table = self._known_s[self.rows(network)].tolist()
            best = [min(row) for row in table]
            known = [[t for t in row if t < math.inf] for row in table]
            mean = [sum(row) / max(len(row), 1) for row in known]
            self._rest[network.index] = _from_here(best), _from_here(mean)
        return self._rest[network.index]


def _from_here(values: list[float]) -> list[float]:
    return list(accumulate(reversed(values), initial=0.0))[::-1]
