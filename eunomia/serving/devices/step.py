"""An input of some sizes, made up, that goes through a network block by block, with other orders between two blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eunomia.serving.devices.network import LoadedNetwork
from eunomia.serving.devices.piece import live_of
from eunomia.serving.devices.trial import trial_of


class Step:
    """Twice: the first time warms it up. ``seconds``: of each block, once it is over, the shorter of the two."""

    def __init__(self, network: LoadedNetwork, shapes: Mapping[str, Sequence[int]]) -> None:
        self._network, self.seconds, self._first = network, list[float](), list[float]()
        self._feed = {
            p["name"]: trial_of(p, shapes[p["name"]], ones=network.ones) for p in network.ports["inputs"]
        }
        self._live = live_of(self._feed)

    @property
    def over(self) -> bool:
        """Whether all has run."""
        return len(self.seconds) == self._network.blocks

    def next(self) -> float:
        """One more block; what it took."""
        done, blocks = len(self._first) + len(self.seconds), self._network.blocks
        if done == blocks:
            self._live = live_of(self._feed)
        began_s = self._network.clock()
        self._live = self._network.run_block(done % blocks, self._live)
        took_s = self._network.clock() - began_s
        if done < blocks:
            self._first.append(took_s)
        else:
            self.seconds.append(min(took_s, self._first[done - blocks]))
        return took_s
