"""What a contention model is: its formula, compiled and plain, and the facts that follow from it.

A model is given in one of three compiled forms. ``alike``: all running layers progress at one rate that depends on the
total demand alone; a change then costs one multiplication per accelerator. ``split``: each layer gets its own part of
the bandwidth, its *grant*. ``beside``: each layer is slowed by which networks run beside it. The event loop compiles
these functions with numba: use numbers, arrays and loops only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from eunomia.contract.contention.slowdowns import Slowdowns
from eunomia.core.arrays import Floats


class Demand(NamedTuple):
    """What one running layer needs of the memory, and whose it is, for the plain form of a model."""

    bytes_s: float  # b
    weight: float  # w, urgency
    latency_s: float  # c
    floor_s: float  # k
    dram_bytes: float  # V
    network: int = -1
    slowdowns: Slowdowns | None = None  # of all networks, for models with ``beside`` only


class Lane(Protocol):
    """One accelerator, for the compiled form: what ``split`` may read, and ``grant``, which it writes."""

    @property
    def node(self) -> int:
        """-1 where the accelerator is idle."""

    @property
    def model(self) -> int:
        """Network of the running layer."""

    @property
    def demand(self) -> float:
        """b of the running layer, bytes/s; 0 where idle."""

    @property
    def weight(self) -> float:
        """w of the running layer; of models with ``weighs`` only."""

    grant: float  # bytes/s, of busy accelerators


Lanes = Sequence[Lane]
Plain = Callable[
    [Sequence[Demand], float, int], list[float]
]  # (running, B, accelerators) -> their rates in (0, 1]
Alike = Callable[[float, float], tuple[float, float]]  # (D, B) -> rate of all, and 1 / rate
Split = Callable[[Lanes, float, float], None]  # (lanes, D, B): write the grants
Beside = Callable[[Lanes, int, int, Floats], float]  # (lanes, s, networks, factors) -> slowdown of lane s


@dataclass(frozen=True, slots=True)
class ContentionModel:
    """One model.

    ``plain``: the rates, for the reference engine; its docstring is the formula in docs/engine.md. ``alike`` or
    ``split`` or ``beside``: the same, compiled (above). ``roofline``: a layer of array time k and V bytes takes
    max(k, V / g) under its grant g; otherwise its rate is g / b. ``free_below``: every rate is 1 while D <= B.
    ``described_as``: the model by which learned policies see it; None where the bandwidth slows no layer.
    ``weighs``: urgencies change rates.
    ``exceeds``: the grants may add up to more than B. ``replaceable``: a policy that splits the bandwidth itself
    replaces this model by its own.

    Raises ValueError unless exactly one of ``alike``, ``split`` and ``beside`` is given.
    """

    plain: Plain
    alike: Alike | None = None
    split: Split | None = None
    beside: Beside | None = None
    roofline: bool = False
    free_below: bool = True
    described_as: Literal["proportional", "max_min", "weighted"] | None = None
    weighs: bool = False
    exceeds: bool = False
    replaceable: bool = False

    def __post_init__(self) -> None:
        if sum(form is not None for form in (self.alike, self.split, self.beside)) != 1:
            raise ValueError(
                f"a contention model needs either alike or split or beside; this one has alike={self.alike!r}, "
                f"split={self.split!r} and beside={self.beside!r}"
            )


def by_share(running: Sequence[Demand], grants: Sequence[float]) -> list[float]:
    """Rates min(1, g / b); 1 for layers without traffic."""
    return [
        min(1.0, grant / layer.bytes_s) if layer.bytes_s > 0.0 else 1.0
        for layer, grant in zip(running, grants, strict=True)
    ]
