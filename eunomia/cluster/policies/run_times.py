"""How long jobs run, from what their users' earlier jobs did: hazards by user and size, and the index of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from eunomia.core.arrays import Floats, Ints

BINS = 48
EDGES = np.concatenate([[0.0], np.geomspace(30.0, 3e6, BINS)])  # of ages, s; the last bin is open
WIDTH = np.append(np.diff(EDGES), EDGES[-1])
HEAVY = WIDTH / (
    WIDTH + np.maximum(EDGES, 30.0)
)  # hazard of a tail 1 / age: what is believed without history


@dataclass
class RunTimes:
    """Run times of ended jobs by (user, size), and the ages of running ones, which are known to take longer.

    Hazard of a bin: those that ended in it over those that reached it and left it by ending or by living on
    (Kaplan and Meier 1958). A user's jobs of a size are drawn to all jobs of that user. These are drawn to everybody's,
    and those to a heavy tail, with the weight of ``strength`` jobs each.
    """

    strength: float = 5.0
    _leaf: dict[tuple[str, int], int] = field(default_factory=dict, repr=False)
    _user: dict[str, int] = field(default_factory=dict, repr=False)
    _user_of: list[int] = field(default_factory=list, repr=False)
    _ended: Floats = field(default_factory=lambda: np.zeros((0, BINS + 1)), repr=False)

    def leaf(self, user: str, size: int) -> int:
        """Number of the group of a job."""
        if (user, size) not in self._leaf:
            self._leaf[user, size] = len(self._leaf)
            self._user_of.append(self._user.setdefault(user, len(self._user)))
            if len(self._leaf) > len(self._ended):
                self._ended = np.concatenate([self._ended, np.zeros((len(self._ended) + 8, BINS + 1))])
        return self._leaf[user, size]

    def learn(self, leaf: Ints, run_s: Floats) -> None:
        """These jobs have ended after so many seconds of running."""
        np.add.at(self._ended, (leaf, age_bin(run_s)), 1.0)

    def hazards(self, leaf: Ints, age_s: Floats) -> Floats:
        """(groups, bins) chance to end in a bin for a job that reaches it, with these jobs running now."""
        groups = len(self._leaf)
        ended, alive = self._ended[:groups], np.zeros((groups, BINS + 1))
        np.add.at(alive, (leaf, age_bin(age_s)), 1.0)
        user = np.array(self._user_of, np.int64)
        hazard = self._drawn(ended.sum(axis=0), alive.sum(axis=0), HEAVY)
        ended_of, alive_of = np.zeros((2, len(self._user), BINS + 1))
        np.add.at(ended_of, user, ended)
        np.add.at(alive_of, user, alive)
        return self._drawn(ended, alive, self._drawn(ended_of, alive_of, hazard)[user])

    def _drawn(self, ended: Floats, alive: Floats, parent: Floats) -> Floats:
        past = _after(ended) + _after(alive) - alive
        return np.asarray((ended + self.strength * parent) / (past + self.strength))


def age_bin(age_s: Floats) -> Ints:
    """The bin of an age."""
    return np.asarray(np.searchsorted(EDGES, age_s, side="right") - 1, np.int64)


def index(hazard: Floats) -> Floats:
    """Gittins index at each bin, 1/s: max over horizons of P(ends by then) / E[time spent until then or its end]."""
    best = np.zeros_like(hazard)
    for start in range(hazard.shape[1]):
        here = hazard[:, start:]
        lives = np.cumprod(1.0 - here, axis=1)
        reach = np.concatenate([np.ones((len(here), 1)), lives[:, :-1]], axis=1)
        spent = np.cumsum(reach * WIDTH[start:] * (1.0 - 0.5 * here), axis=1)
        best[:, start] = ((1.0 - lives) / spent).max(axis=1)
    return best


def _after(counts: Floats) -> Floats:
    """Sums from each bin to the last."""
    return np.asarray(np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1])
