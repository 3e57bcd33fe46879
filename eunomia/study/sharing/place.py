"""Applications on servers of many kinds, placed by scores from two probes and by the true ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.metrics.metric import Metric
from eunomia.sharing.placement import RULES, Apps, Servers, complete
from eunomia.sharing.placement.rules import Rule, performance
from eunomia.study.cluster.worlds import Figures, Worlds

KINDS, SOURCES, FACTORS = 10, 8, 3
PROFILED = 60  # applications that are known in full
METRICS = {
    "within_5": Metric("applications within 5 % of their best speed alone", "within 5 %", "share", "higher"),
    "within_20": Metric(
        "applications within 20 % of their best speed alone", "within 20 %", "share", "higher"
    ),
    "speed": Metric("mean speed over the best speed alone", "mean speed", "share", "higher"),
}


@dataclass(frozen=True)
class PlaceStudy:
    """Applications arrive one by one and stay."""

    servers: int = 1000
    apps: int = 2500
    slots: int = 4
    probes: int = 2
    seeds: tuple[int, ...] = tuple(range(5))

    def __post_init__(self) -> None:
        if min(self.servers, self.apps, self.slots) < 1 or self.apps > self.servers * self.slots:
            room = self.servers * self.slots
            raise ConfigError(
                f"{self.apps} applications for {self.servers} servers; at least 1, at most {room}"
            )
        if not 1 <= self.probes <= SOURCES:
            raise ConfigError(f"{self.probes} probes; 1 to {SOURCES}")


def run_place(study: PlaceStudy) -> Worlds:
    """Every rule with scores completed from probes; two-step and the last rule with the true scores, too."""
    rows: dict[str, tuple[str, bool]] = {name: (name, False) for name in RULES}
    rows |= {"two-step, true scores": ("two-step", True), "oracle": ("most within 5 %", True)}
    figures: dict[str, list[Figures]] = {name: [] for name in rows}
    for seed in study.seeds:
        rng = np.random.default_rng([seed, 41])
        true = draw_apps(rng, study.apps + PROFILED)
        apps, profiled = (
            Apps(*(part[where] for part in vars(true).values()))
            for where in (slice(PROFILED, None), slice(PROFILED))
        )
        guessed = Apps(*(
            estimate(whole, known, study.probes, rng)
            for whole, known in zip(vars(apps).values(), vars(profiled).values(), strict=True)
        ))  # fmt: skip
        kind = rng.integers(0, KINDS, study.servers)
        for name, (rule, truly) in rows.items():
            figures[name].append(
                _placed(RULES[rule], apps if truly else guessed, apps, Servers(kind, study.slots))
            )
    title = f"{study.apps} applications on {study.servers} servers, {study.probes} probes"
    return Worlds(title, study.seeds, {n: tuple(f) for n, f in figures.items()}, "within_5", METRICS)


def draw_apps(rng: np.random.Generator, number: int) -> Apps:
    """Scores from three hidden factors per application and noise: tolerates 0.3 to 0.9, causes 0 to 0.3."""
    hidden = rng.normal(size=(number, FACTORS))

    def scores(width: int) -> Floats:
        mixed = hidden @ rng.normal(size=(FACTORS, width)) / np.sqrt(FACTORS)
        return np.asarray(1.0 / (1.0 + np.exp(-mixed - 0.2 * rng.normal(size=(number, width)))))

    speed = 0.4 + 0.6 * scores(KINDS)
    return Apps(0.3 + 0.6 * scores(SOURCES), 0.3 * scores(SOURCES), speed / speed.max(axis=1, keepdims=True))


def estimate(true: Floats, profiled: Floats, probes: int, rng: np.random.Generator) -> Floats:
    """Each row from its scores at so many random places."""
    made = []
    for row in true:
        places = rng.choice(len(row), probes, replace=False).tolist()
        made.append(complete(profiled, places, row[places]))
    return np.array(made)


def _placed(rule: Rule, scores: Apps, true: Apps, servers: Servers) -> Figures:
    for app in range(len(scores.speed)):
        servers.put(app, rule(scores, servers, app))
    found = performance(true, servers.residents, servers.kind)
    found = found[np.isfinite(found)]
    return {
        "within_5": float((found >= 0.95).mean()),
        "within_20": float((found >= 0.80).mean()),
        "speed": float(found.mean()),
    }
