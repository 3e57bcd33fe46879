"""Servers with residents, how fast these run, and rules that choose a server for one more application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError

LOST_AT_T = 0.05  # what an application loses where the pressure is what it tolerates


@dataclass(frozen=True)
class Apps:
    """``tolerated``, ``caused`` (A, S) per source of interference; ``speed`` (A, K) per kind, 1 on the best one."""

    tolerated: Floats
    caused: Floats
    speed: Floats

    def __post_init__(self) -> None:
        for name, values in vars(self).items():
            if not (np.isfinite(values).all() and (values >= 0.0).all() and (values <= 1.0).all()):
                raise ConfigError(f"applications: '{name}' is not within 0 and 1")
        if self.tolerated.shape != self.caused.shape or len(self.speed) != len(self.caused):
            raise ConfigError("applications: tolerated, caused and speed are of different sizes")


@dataclass
class Servers:
    """``kind`` (N,) of each server; ``residents`` (N, slots): rows of applications, -1 = free."""

    kind: Ints
    slots: int
    residents: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.residents = np.full((len(self.kind), self.slots), -1)

    @property
    def free(self) -> Ints:
        """Servers with room."""
        return np.flatnonzero((self.residents < 0).any(axis=1))

    def put(self, app: int, server: int) -> None:
        """Into the first free slot; ConfigError for a full server."""
        slots = np.flatnonzero(self.residents[server] < 0)
        if not len(slots):
            raise ConfigError(f"server {server} has no free slot")
        self.residents[server, slots[0]] = app


def performance(apps: Apps, residents: Ints, kind: Ints) -> Floats:
    """(N, slots) speed of every resident over its best speed alone; nan for a free slot.

    Pressure on one is the sum of what the others cause. It costs 5 % where it equals what is tolerated, in proportion
    below, as much as the excess above; the worst source counts.
    """
    there = residents >= 0
    caused = np.where(there[..., None], apps.caused[residents], 0.0)
    pressure = caused.sum(axis=1, keepdims=True) - caused
    tolerated = apps.tolerated[residents]
    below = LOST_AT_T * np.minimum(pressure / np.maximum(tolerated, 1e-9), 1.0)
    lost = (below + np.maximum(pressure - tolerated, 0.0)).max(axis=2)
    speed = apps.speed[residents, kind[:, None]] * np.clip(1.0 - lost, 0.0, 1.0)
    return np.where(there, speed, np.nan)


def _margins(apps: Apps, servers: Servers, app: int, among: Ints) -> tuple[Floats, Floats]:
    """D1 = t_server - c_new and D2 = t_new - c_server, (servers, sources)."""
    residents = servers.residents[among]
    there = (residents >= 0)[..., None]
    caused = np.where(there, apps.caused[residents], 0.0)
    load = caused.sum(axis=1)
    left = np.where(there, apps.tolerated[residents] - (load[:, None] - caused), 1.0).min(axis=1)
    return left - apps.caused[app], apps.tolerated[app] - load


def two_step(apps: Apps, servers: Servers, app: int) -> int:
    """Paragon: servers where D1 and D2 are 0 or more, of these the fastest kind, then the tightest fit.

    If no server is acceptable: the one with the least violation.
    """
    among = servers.free
    first, second = _margins(apps, servers, app, among)
    worst = np.minimum(first, second).min(axis=1)
    size = np.abs(first + second).sum(axis=1)
    speed = apps.speed[app, servers.kind[among]]
    fits = bool((worst >= 0.0).any())
    order = np.lexsort((size, -speed, worst < 0.0) if fits else (-speed, -worst))
    return int(among[order[0]])


def interference_only(apps: Apps, servers: Servers, app: int) -> int:
    """The tightest fit among the acceptable servers, whatever their kind."""
    among = servers.free
    first, second = _margins(apps, servers, app, among)
    worst = np.minimum(first, second).min(axis=1)
    size = np.abs(first + second).sum(axis=1)
    order = np.lexsort((size, np.minimum(worst, 0.0) * -1.0))
    return int(among[order[0]])


def heterogeneity_only(apps: Apps, servers: Servers, app: int) -> int:
    """The fastest kind, first server with room."""
    among = servers.free
    return int(among[np.argmax(apps.speed[app, servers.kind[among]])])


def least_loaded(apps: Apps, servers: Servers, app: int) -> int:
    """The server with the fewest residents."""
    among = servers.free
    return int(among[np.argmin((servers.residents[among] >= 0).sum(axis=1))])


def least_degradation(apps: Apps, servers: Servers, app: int) -> int:
    """Co-scheML's minimum: where the predicted speeds of residents and newcomer lose the least in sum."""
    return _greatest(apps, servers, app, lambda speeds: np.asarray(np.nan_to_num(speeds).sum(axis=1)))


def most_within_bound(apps: Apps, servers: Servers, app: int) -> int:
    """Most applications within 5 % of their best speed alone, then the greatest sum: with true scores, the oracle."""
    return _greatest(
        apps,
        servers,
        app,
        lambda v: np.asarray((v >= 0.95).sum(axis=1) + 0.1 * np.nan_to_num(v).sum(axis=1)),
    )


def _greatest(apps: Apps, servers: Servers, app: int, value: Callable[[Floats], Floats]) -> int:
    """Where the value of a server's speeds gains most."""
    among = servers.free
    before, kind = servers.residents[among], servers.kind[among]
    after = before.copy()
    after[np.arange(len(among)), (before < 0).argmax(axis=1)] = app
    gain = value(performance(apps, after, kind)) - value(performance(apps, before, kind))
    return int(among[np.argmax(gain)])


Rule = Callable[[Apps, Servers, int], int]
RULES: Mapping[str, Rule] = {
    "least loaded": least_loaded,
    "heterogeneity only": heterogeneity_only,
    "interference only": interference_only,
    "two-step": two_step,
    "least degradation": least_degradation,
    "most within 5 %": most_within_bound,
}
