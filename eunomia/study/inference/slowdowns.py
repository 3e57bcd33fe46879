"""From a scenario's ``[platform.slowdowns]`` to a table for the contention model ``matrix``: measured, or estimated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from eunomia.config.hardware import SlowdownConfig
from eunomia.contract.contention.slowdowns import Slowdowns
from eunomia.core.errors import ConfigError, UnknownNameError, within
from eunomia.sharing.interference import CoRun, predictor
from eunomia.sharing.interference.table import read_co_runs

WIDE = 0.25  # of a slowdown: a wider 95 % interval is said
Place = tuple[str, tuple[str, ...]]  # target, neighbours in order


@dataclass(frozen=True)
class Table:
    """Slowdowns of a scenario's networks, and what a reader must know of them."""

    slowdowns: Slowdowns
    told: tuple[str, ...] = ()


def build_slowdowns(config: SlowdownConfig, names: Sequence[str]) -> Table:
    """Geometric means of what was measured of these networks; the rest by ``missing``.

    Raises ConfigError for pairs that are not known where ``missing`` is ``refuse``. Raises UnknownNameError for a kind
    that the file lacks, and for networks that the scenario lacks.
    """
    with within("platform.slowdowns"):
        rows = _rows(config, names)
        known = _means(rows)
        wanted: list[Place] = [(target, (other,)) for target, other in product(names, names)]
        absent = [place for place in wanted if place not in known]
        found = {**known, **(_estimates(config, rows, absent, len(wanted)) if absent else {})}
        pairs = tuple(tuple(found[target, (other,)] for other in names) for target in names)
        place = {name: n for n, name in enumerate(names)}
        threes = tuple(
            (place[target], place[others[0]], place[others[1]], slow)
            for (target, others), slow in known.items()
            if len(others) == 2 and {target, *others} <= set(names)
        )
        return Table(Slowdowns(tuple(names), pairs, threes), _told(config, rows, names, absent))


def _rows(config: SlowdownConfig, names: Sequence[str]) -> list[CoRun]:
    if config.pairs is not None:
        given = [
            CoRun(target, tuple(name.strip() for name in others.split("+")), "", slow)
            for target, row in config.pairs.items()
            for others, slow in row.items()
        ]
        for row in given:
            for name in (row.target, *row.neighbours):
                if name not in names:
                    raise UnknownNameError("network", name, names, " in pairs")
        return given
    path = Path(config.file or "")
    rows = read_co_runs(path, config.column)
    kinds = sorted({row.kind for row in rows})
    if config.kind is None and len(kinds) > 1:
        raise ConfigError(
            f"{path} has co-runs of kinds {', '.join(map(repr, kinds))}; choose one by kind = ..."
        )
    if config.kind is not None and config.kind not in kinds:
        raise UnknownNameError("kind", config.kind, kinds, f" in {path}")
    return [row for row in rows if config.kind in (None, row.kind)]


def _means(rows: Sequence[CoRun]) -> dict[Place, float]:
    logs: dict[Place, list[float]] = {}
    for row in rows:
        logs.setdefault((row.target, tuple(sorted(row.neighbours))), []).append(float(np.log(row.slowdown)))
    return {place: float(np.exp(np.mean(found))) for place, found in logs.items()}


def _estimates(
    config: SlowdownConfig, rows: list[CoRun], absent: list[Place], wanted: int
) -> dict[Place, float]:
    if config.missing == "refuse":
        target, (other,) = absent[0]
        raise ConfigError(
            f"{len(absent)} of {wanted} pairs of networks are not measured, such as '{target}' beside '{other}'; "
            'measure them (eunomia profile corun), or accept estimates: missing = "mean"'
        )
    pairs = [row for row in rows if len(row.neighbours) == 1]
    if not pairs:
        raise ConfigError("no pair of networks is measured, so there is nothing to estimate the others from")
    model = predictor(config.missing)
    model.fit(pairs)
    return {(t, o): model.predict(t, o, pairs[0].kind)[0] for t, o in absent}


def _told(
    config: SlowdownConfig, rows: Sequence[CoRun], names: Sequence[str], absent: Sequence[Place]
) -> tuple[str, ...]:
    mine = [row for row in rows if {row.target, *row.neighbours} <= set(names)]
    larger, wide = [row for row in mine if len(row.neighbours) > 2], [row for row in mine if row.width > WIDE]
    told = []
    if absent:
        shown = ", ".join(f"{target} beside {others[0]}" for target, others in absent[:3])
        more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        told.append(f"slowdowns of {len(absent)} pairs are estimated ({config.missing}): {shown}{more}")
    if larger:
        told.append(
            f"{len(larger)} co-runs of more than three networks are not used: slowdowns of fewer multiply"
        )
    if wide:
        worst = max(wide, key=lambda row: row.width)
        told.append(
            f"{len(wide)} of {len(mine)} measured slowdowns have intervals wider than {WIDE:.0%}, the widest "
            f"({worst.width:.0%}) that of {worst.target} beside {' + '.join(worst.neighbours)}; measure longer"
        )
    return tuple(told)
