"""What a recording says of times that nobody can know beforehand: turns, moves, block times around their means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from eunomia.core.data import Data
from eunomia.inference.by_type import Draw
from eunomia.study.serving.twin_costs import Damaged

MOST_S, WIDEST, MOST_FACTOR = 10.0, 1.0, 1e6  # a change of request; the spread and the factors of block times
MOST_DRAWS = 1000
DRAWN = 6  # formats from this one on hold what was measured as numbers of equal chance


class TwinNoise(NamedTuple):
    """By device, as the engine takes it. ``look_s``: no boundary is looked at sooner after another."""

    turn: dict[str, Draw]
    move: dict[str, Draw]
    jitter: dict[str, Draw]
    look_s: float


def twin_noise(content: Data) -> TwinNoise:
    """Raises Damaged, KeyError."""
    devices: Sequence[str] = content["devices"]
    if len(set(devices)) != len(devices):
        raise Damaged(f"two devices have one name: {', '.join(map(str, devices)):.100}")
    turn_s, spread = (_numbers(content, *each) for each in (("turn_s", MOST_S), ("spread", WIDEST)))
    turn: list[Draw] = [*turn_s]
    move: list[Draw] = [0.0] * len(devices)
    jitter: list[Draw] = [*spread]
    look_s = 0.0
    if content["format"] >= DRAWN:
        turn = _scaled(_lists(content, "turns", MOST_S), turn_s)
        move = _scaled(_lists(content, "moves", MOST_S), _numbers(content, "move_s", MOST_S))
        factors = _lists(content, "factors", MOST_FACTOR)
        jitter = [tuple(draws) if sum(draws) > 0.0 else s for draws, s in zip(factors, spread, strict=True)]
        look_s = _number("look_s", content["look_s"], MOST_S)
    by_device = [dict(zip(devices, draws, strict=True)) for draws in (turn, move, jitter)]
    return TwinNoise(by_device[0], by_device[1], by_device[2], look_s)


def _scaled(lists: Sequence[Sequence[float]], means: Sequence[float]) -> list[Draw]:
    """Numbers of equal chance with these means; where there are none, the mean."""
    return [
        tuple(number * mean * len(draws) / sum(draws) for number in draws) if sum(draws) > 0.0 else mean
        for draws, mean in zip(lists, means, strict=True)
    ]


def _numbers(content: Data, name: str, most: float) -> list[float]:
    """One for each device; before format 5 there is one for all."""
    devices, value = content["devices"], content[name]
    values = value if isinstance(value, list) else [value] * len(devices)
    if len(values) != len(devices):
        raise Damaged(f"{name} has {len(values)} numbers for the devices {', '.join(map(str, devices)):.100}")
    return [_number(name, number, most) for number in values]


def _lists(content: Data, name: str, most: float) -> list[list[float]]:
    return number_lists(name, content[name], len(content["devices"]), most)


def number_lists(name: str, lists: object, devices: int, most: float) -> list[list[float]]:
    """A list of numbers of equal chance for each device; raises Damaged."""
    if not isinstance(lists, list) or len(lists) != devices:
        raise Damaged(f"{name} is {lists!r:.50}; it has a list for each device, {devices} in all")
    for draws in lists:
        if not isinstance(draws, list) or len(draws) > MOST_DRAWS:
            raise Damaged(f"{name} holds {draws!r:.50}; a list has at most {MOST_DRAWS} numbers")
    return [[_number(name, number, most) for number in draws] for draws in lists]


def _number(name: str, number: object, most: float) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0.0 <= number <= most:
        raise Damaged(f"{name} is {number!r:.50}; it lies in 0..{most:g}")
    return float(number)
