"""Settings by accelerator type: a number, or numbers of equal chance, for all types or for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError

Draw = float | tuple[float, ...]  # always the same, or one of these by lot
ByType = Draw | dict[str, Draw]  # for all types, or by type; 0 where a type is not named


def check_by_type(name: str, value: ByType) -> None:
    """Raise ConfigError unless every number is one from 0 on."""
    for kind, draw in value.items() if isinstance(value, dict) else [("", value)]:
        for number in draw if isinstance(draw, tuple) else [draw]:
            if not number >= 0.0:
                of = f"{name} of type '{kind}'" if kind else name
                raise ConfigError(f"{of} is {number}; it must be at least 0")
        if draw == ():
            raise ConfigError(f"{name} has an empty list; give numbers of equal chance, or one number")


def is_any(value: ByType) -> bool:
    """Whether it is above zero for some type."""
    return any(_mean(draw) > 0.0 for draw in _draws(value))


def is_drawn(value: ByType) -> bool:
    """Whether it is drawn by lot for some type."""
    return any(isinstance(draw, tuple) for draw in _draws(value))


def means(value: ByType) -> ByType:
    """The same without lots."""
    return {kind: _mean(draw) for kind, draw in value.items()} if isinstance(value, dict) else _mean(value)


def of_types(name: str, value: ByType, types: Sequence[str], known: Sequence[str]) -> list[Draw]:
    """One for each of ``types``; raises ConfigError for a type that has no costs (``known`` have)."""
    if not isinstance(value, dict):
        return [value] * len(types)
    for kind in value:
        if kind not in known:
            raise ConfigError(f"engine.{name} names type '{kind}'; there are costs of: {', '.join(known)}")
    return [value.get(kind, 0.0) for kind in types]


def means_of(draws: Sequence[Draw]) -> Floats:
    """(types,)."""
    return np.array([_mean(draw) for draw in draws])


def around_mean(draws: Sequence[Draw]) -> list[Floats]:
    """By type, the numbers of equal chance less their mean; none where it is always the same."""
    return [np.array(draw) - _mean(draw) if isinstance(draw, tuple) else np.zeros(0) for draw in draws]


def over_mean(draws: Sequence[Draw]) -> list[Floats]:
    """By type, the numbers of equal chance over their mean; none where it is always the same."""
    drawn = [np.array(draw) if isinstance(draw, tuple) else np.zeros(0) for draw in draws]
    return [draw / draw.mean() if draw.sum() > 0.0 else draw[:0] for draw in drawn]


def _mean(draw: Draw) -> float:
    return sum(draw) / len(draw) if isinstance(draw, tuple) else float(draw)


def _draws(value: ByType) -> Sequence[Draw]:
    return list(value.values()) if isinstance(value, dict) else [value]
