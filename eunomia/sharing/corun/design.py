"""What is measured: cases, blocks in the order alone, beside, beside, alone, and ratios of neighbouring blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from eunomia.core.errors import ConfigError, UnknownNameError

FEWEST = 4  # pairs of blocks before an interval counts
PLACES = ("own core", "same core")
ORDER = (False, True, True, False)  # beside others? drift of the machine cancels within four blocks


@dataclass(frozen=True, slots=True)
class Case:
    """``target`` beside ``neighbours``, each on a core of its own, or all on one."""

    target: str
    neighbours: tuple[str, ...]
    place: str

    @property
    def key(self) -> str:
        """A name for files."""
        return f"{self.target} | {' + '.join(self.neighbours)} | {self.place}"


@dataclass(frozen=True, slots=True)
class Block:
    """The target in one block: iterations, wall and processor seconds.

    ``lost``: the part of the cores' time that other programs took.
    """

    beside: bool
    iterations: int
    wall_s: float
    cpu_s: float
    lost: float


@dataclass(frozen=True)
class Design:
    """``width``: a case is done when its 95 % interval is at most this wide, relative to the slowdown.

    ``lost``: a pair of blocks of which others took more than this is set aside, if enough are left.
    """

    clients: tuple[str, ...]
    places: tuple[str, ...] = PLACES
    degrees: tuple[int, ...] = (1,)
    block_s: float = 0.25
    width: float = 0.05
    lost: float = 0.1
    budget_s: float = 300.0

    def __post_init__(self) -> None:
        if not self.clients:
            raise ConfigError(
                "no client to measure; give stressors (compute, cache, bandwidth) or ONNX files"
            )
        for place in self.places:
            if place not in PLACES:
                raise UnknownNameError("place", place, PLACES)
        if not self.degrees or min(self.degrees) < 1:
            raise ConfigError(f"degrees {list(self.degrees)}: numbers of neighbours, each at least 1")
        for name in ("block_s", "width", "lost", "budget_s"):
            if not (math.isfinite(value := getattr(self, name)) and value > 0.0):
                raise ConfigError(f"{name} is {value}; more than 0")

    def check_cores(self, cores: int) -> None:
        """Raise ConfigError where clients on cores of their own outnumber the cores."""
        most = 1 + max(self.degrees)
        if "own core" in self.places and most > cores:
            raise ConfigError(
                f"{most} clients on cores of their own, but this process has {cores}; measure them on one core "
                "(--place 'same core') or fewer at once (--degree)"
            )


def cases_of(design: Design) -> list[Case]:
    """Every target beside every set of neighbours, itself included."""
    return [
        Case(target, beside, place)
        for place in design.places
        for degree in design.degrees
        for target in design.clients
        for beside in combinations_with_replacement(design.clients, degree)
    ]


def log_ratios(blocks: Sequence[Block], lost: float, by_cpu: bool = False) -> tuple[list[float], int]:
    """ln(time per iteration beside / alone) of each pair of neighbouring blocks, and how many were disturbed.

    Those are set aside where at least ``FEWEST`` are left.
    """
    pairs = [_pair(a, b) for a, b in zip(blocks[::2], blocks[1::2], strict=False)]
    usable = [(alone, beside) for alone, beside in pairs if alone.iterations and beside.iterations]
    calm = [(a, b) for a, b in usable if max(a.lost, b.lost) <= lost]
    chosen = calm if len(calm) >= FEWEST else usable
    return [math.log(_each_s(b, by_cpu) / _each_s(a, by_cpu)) for a, b in chosen], len(pairs) - len(calm)


def wanting(known: Iterable[tuple[Case, float, int]], width: float) -> Case | None:
    """Of (case, width of its interval, blocks so far): the wide one with the fewest blocks, None if all are narrow.

    The widest one first would spend the budget on a case that a busy machine never lets become narrow.
    """
    wide = [one for one in known if one[1] > width]
    return min(wide, key=lambda one: (one[2], -one[1]))[0] if wide else None


def _pair(a: Block, b: Block) -> tuple[Block, Block]:
    return (b, a) if a.beside else (a, b)


def _each_s(block: Block, by_cpu: bool) -> float:
    return (block.cpu_s if by_cpu else block.wall_s) / block.iterations
