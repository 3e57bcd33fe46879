"""Back-tests of harvesting on series that the rules have not seen: what is reclaimed, and how often too much."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.metrics.metric import Metric
from eunomia.sharing.harvest import pack
from eunomia.sharing.harvest.peak import FORECASTS as OF_THE_SERVER
from eunomia.sharing.harvest.peak import RISK, WINDOW, Peak
from eunomia.study.cluster.worlds import Figures, Worlds

METRICS = {
    "reclaimed": Metric(
        "part of the peak reservation that is given to others", "reclaimed", "share", "higher"
    ),
    "violated": Metric("samples above what was left", "violated", "share", "lower"),
    "error": Metric("root mean square error of the forecast over the peak", "error", "share", "lower"),
}
PACK_METRICS = {
    "nodes": Metric("nodes per node of peak reservation", "nodes", "ratio", "lower"),
    "violated": Metric("samples in which a node's pods exceed its capacity", "violated", "share", "lower"),
}
ROOM_METRICS = {
    "reclaimed": Metric("part of what others leave that takers get", "reclaimed", "share", "higher"),
    "violated": Metric("samples in which both ask for more than there is", "violated", "share", "lower"),
    "put_off": Metric("part of the others' demand that finds no room", "put off", "share", "lower"),
}
Forecast = Callable[[Floats], float]
FORECASTS: dict[str, Forecast] = {
    "persistence": OF_THE_SERVER["persistence"],
    "AR(1)": OF_THE_SERVER["ar1"],
    "90th percentile": lambda past: float(np.percentile(past, 90.0)),
    "mean": lambda past: float(past.mean()),
}


def run_forecasts(known: Mapping[str, Floats]) -> Worlds:
    """One figure per series: the first half sets peak and margins, the second one tests.

    Each forecast is for the next sample, from the last 60, and gets the margin that 5 % of the first half exceed.
    """
    figures: dict[str, list[Figures]] = {"peak reservation": [], **{name: [] for name in FORECASTS}}
    for name, values in known.items():
        half = len(values) // 2
        if half <= WINDOW:
            raise ConfigError(f"series '{name}' has {len(values)} samples; more than {2 * WINDOW}")
        if (peak := float(values[:half].max())) <= 0.0:
            continue
        later = values[half:]
        flat = np.full(len(later), peak)
        figures["peak reservation"].append(_figures(flat, later, peak, 0.0))
        for method, forecast in FORECASTS.items():
            guess = np.array([forecast(values[t - WINDOW : t]) for t in range(WINDOW, len(values))])
            margin = float(np.quantile(values[WINDOW:half] - guess[: half - WINDOW], 1.0 - RISK))
            figures[method].append(_figures(guess[half - WINDOW :], later, peak, margin))
    if not figures["peak reservation"]:
        raise ConfigError("every series is 0 throughout its first half; nothing is reserved")
    seeds = tuple(range(len(figures["peak reservation"])))
    return Worlds("harvest, forecasts", seeds, {m: tuple(f) for m, f in figures.items()}, "error", METRICS)


def run_room(known: Mapping[str, Floats], slack: float = 1.0) -> Worlds:
    """One figure per series of demand: what a taker that always wants more gets by the rule of ``[harvest]``.

    There is as much as ``slack`` peaks of the first half. ``percentile``: all but the 90th percentile of that half is
    given, whatever comes; ``everything``: takers are never refused.
    """
    figures: dict[str, list[Figures]] = {
        name: [] for name in ("nothing", *OF_THE_SERVER, "percentile", "everything")
    }
    for name, values in known.items():
        half = len(values) // 2
        if half <= WINDOW:
            raise ConfigError(f"series '{name}' has {len(values)} samples; more than {2 * WINDOW}")
        if (most := slack * float(values[:half].max())) <= 0.0:
            continue
        later = values[half:]
        kept = {"nothing": most, "percentile": float(np.percentile(values[:half], 90.0)), "everything": 0.0}
        for method, runs in figures.items():
            foreseen = _foreseen(method, values, half) if method in OF_THE_SERVER else kept[method]
            runs.append(_given(np.maximum(0.0, most - foreseen) * np.ones(len(later)), later, most))
    if not figures["nothing"]:
        raise ConfigError("every series is 0 throughout its first half; nothing is reserved")
    seeds = tuple(range(len(figures["nothing"])))
    runs_of = {m: tuple(f) for m, f in figures.items()}
    return Worlds("harvest, room", seeds, runs_of, "reclaimed", ROOM_METRICS)


def _foreseen(forecast: str, values: Floats, half: int) -> Floats:
    peak, found = Peak(forecast), []
    for value in values:
        found.append(peak.next)
        peak.add(float(value))
    return np.array(found[half:])


def _given(given: Floats, later: Floats, most: float) -> Figures:
    over = np.maximum(0.0, np.minimum(later, most) + given - most)
    idle = np.maximum(0.0, most - later)
    return {
        "reclaimed": float(np.minimum(given, idle).sum() / max(idle.sum(), 1e-300)),
        "violated": float((over > 1e-9 * most).mean()),
        "put_off": float(over.sum() / max(later.sum(), 1e-300)),
    }


def run_packing(known: Mapping[str, Floats], capacities: tuple[float, ...] = (1.5, 2.0, 3.0)) -> Worlds:
    """One figure per capacity, in peaks of the largest pod: placed by the first half, tested on the second one."""
    half = min(map(len, known.values())) // 2
    past = {name: values[:half] for name, values in known.items()}
    figures: dict[str, list[Figures]] = {name: [] for name in ("peak", "percentile", "cbp", "pp")}
    for factor in capacities:
        capacity = factor * max(float(values.max()) for values in past.values())
        if capacity <= 0.0:
            raise ConfigError("every series is 0 throughout its first half; nothing is reserved")
        base = len(pack(past, capacity, "peak"))
        for rule, runs in figures.items():
            nodes = pack(past, capacity, rule)
            used = np.array(
                [np.sum([known[p][half : 2 * half] for p in node.pods], axis=0) for node in nodes]
            )
            runs.append({"nodes": len(nodes) / base, "violated": float((used > capacity).mean())})
    runs_of = {rule: tuple(runs) for rule, runs in figures.items()}
    return Worlds("harvest, packing", tuple(range(len(capacities))), runs_of, "nodes", PACK_METRICS)


def _figures(guess: Floats, later: Floats, peak: float, margin: float) -> Figures:
    left = np.clip(guess + margin, 0.0, peak)
    return {
        "reclaimed": float(1.0 - left.mean() / peak),
        "violated": float((later > left + 1e-9 * peak).mean()),
        "error": float(np.sqrt(np.mean((later - guess) ** 2)) / peak),
    }
