"""A mapping that a dataflow proposes, and what it moves between buffer and array.

A layer's loops are ``g`` groups, ``b`` batch, ``k`` filters and ``c`` channels. Output rows and columns are ``p`` and
``q``, those of the kernel ``r`` and ``s``. They are cut into three parts::

    order   loops outside, outermost first; one turn of all is a pass
    inside  values that one multiplier takes in turn during a pass
    across  values that multipliers take side by side

Rules, per layer::

    cycles   product over loops of ceil(length / across), and the idle ones
    fetches  an operand's part of a pass comes again with every turn of a loop of `order` that it depends on, and of
             all loops outside of such a loop; of the innermost loops, too, where the elements have no room to keep it.
             Equal values go to several multipliers at once
    inputs   kernel windows of a pass overlap: each input comes once per pass
    sums     stay in the array while loops of c, r, s are innermost; else each turn writes them and reads them back
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from eunomia.core.errors import ConfigError
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.nest import Nest

LOOPS = "gbkcpqrs"
WEIGHTS, INPUTS, OUTPUTS = (
    frozenset("gkcrs"),
    frozenset("gbcpqrs"),
    frozenset("gbkpq"),
)  # loops they depend on


@dataclass(frozen=True)
class ArrayMapping:
    """One way to run a layer on an array; counts above a loop's length count as its length.

    ``order``: loops that it leaves out come before it. ``idle_cycles``: cycles of the whole layer without products,
    such as filling and draining.
    """

    across: Mapping[str, int]
    inside: Mapping[str, int] = field(default_factory=dict)
    order: str = LOOPS
    idle_cycles: float = 0.0


@dataclass(frozen=True, slots=True)
class Moved:
    """What a mapping takes: cycles, words between buffer and array."""

    cycles: float
    input_words: float
    weight_words: float
    sums_read: float
    sums_written: float
    active: int  # multipliers
    first_words: int  # operands of the first pass


@dataclass(frozen=True, slots=True)
class Room:
    """Words that one multiplier can store."""

    weights: float
    inputs: float
    sums: float


def check_mapping(mapping: object, kind: AcceleratorType, place: str) -> ArrayMapping:
    """Raises ConfigError for what no array of the type can do."""
    if not isinstance(mapping, ArrayMapping):
        raise ConfigError(f"{place} gave a {type(mapping).__name__}; it must give ArrayMapping")
    for part in ("across", "inside"):
        for loop, count in getattr(mapping, part).items():
            if len(loop) != 1 or loop not in LOOPS:
                raise ConfigError(f"{place}: {part} has the loop '{loop}'; loops are {', '.join(LOOPS)}")
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ConfigError(f"{place}: {part} {loop} is {count!r}; it must be a whole number above 0")
    if len(set(mapping.order)) < len(mapping.order) or not set(mapping.order) <= set(LOOPS):
        raise ConfigError(f"{place}: order is '{mapping.order}'; name each of {LOOPS} at most once")
    side_by_side = math.prod(mapping.across.values())
    if side_by_side > kind.macs_cycle:
        raise ConfigError(
            f"{place}: across asks for {side_by_side} multipliers; '{kind.name}' has {kind.macs_cycle}"
        )
    if not (math.isfinite(mapping.idle_cycles) and mapping.idle_cycles >= 0.0):
        raise ConfigError(
            f"{place}: idle_cycles is {mapping.idle_cycles}; it must be finite and not negative"
        )
    return mapping


def moved_by(mapping: ArrayMapping, nest: Nest, room: Room) -> Moved | None:
    """The rules above; None where a part that is used again does not fit. The mapping must have been checked."""
    length = lengths(nest)
    across = {loop: min(mapping.across.get(loop, 1), length[loop]) for loop in LOOPS}
    inside = {loop: min(mapping.inside.get(loop, 1), -(-length[loop] // across[loop])) for loop in LOOPS}
    turns = {loop: -(-length[loop] // (across[loop] * inside[loop])) for loop in LOOPS}
    tile = {loop: min(across[loop] * inside[loop], length[loop]) for loop in LOOPS}
    first = [loop for loop in LOOPS if loop not in mapping.order]
    order = [loop for loop in (*first, *mapping.order) if turns[loop] > 1]
    weights, inputs = math.prod(inside[loop] for loop in WEIGHTS), _input_tile(nest, inside)
    if not _fit(inside, weights, inputs, room):
        return None

    def again(operand: frozenset[str], kept: bool) -> int:
        """How often all of an operand comes."""
        loops = _outside(order, operand) if kept else order
        return math.prod(turns[loop] for loop in loops if loop not in operand)

    height = _windows(nest.p, nest.r, (turns["p"], turns["r"]), _step(nest.stride_h, nest.span_h, nest.r))
    width = _windows(nest.q, nest.s, (turns["q"], turns["s"]), _step(nest.stride_w, nest.span_w, nest.s))
    rounds = again(OUTPUTS, True)
    return Moved(
        cycles=math.prod(-(-length[loop] // across[loop]) for loop in LOOPS) + mapping.idle_cycles,
        input_words=nest.input_elements * height * width * again(INPUTS, inputs <= room.inputs),
        weight_words=float(nest.operand_elements * again(WEIGHTS, weights <= room.weights)),
        sums_read=float(nest.output_elements * (rounds - 1)),
        sums_written=float(nest.output_elements * rounds),
        active=math.prod(across.values()),
        first_words=math.prod(tile[loop] for loop in WEIGHTS) + _input_tile(nest, tile),
    )


def lengths(nest: Nest) -> dict[str, int]:
    """Loop -> how many values it has."""
    sizes = (nest.groups, nest.batch, nest.k, nest.c, nest.p, nest.q, nest.r, nest.s)
    return dict(zip(LOOPS, sizes, strict=True))


def _outside(order: list[str], operand: frozenset[str]) -> list[str]:
    """Loops down to the innermost that the operand depends on."""
    last = max((n for n, loop in enumerate(order) if loop in operand), default=-1)
    return order[: last + 1]


def _step(stride: int, span: int, kernel: int) -> tuple[int, int]:
    """Stride and dilation."""
    return stride, (span - 1) // (kernel - 1) if kernel > 1 else 1


def _windows(outputs: int, kernel: int, cuts: tuple[int, int], step: tuple[int, int]) -> float:
    """Input rows that the passes fetch, over the rows that the layer has."""
    return _rows(outputs, kernel, cuts, step) / _rows(outputs, kernel, (1, 1), step)


def _rows(outputs: int, kernel: int, cuts: tuple[int, int], step: tuple[int, int]) -> int:
    """Rows under ``outputs`` and a kernel, each in ``cuts`` parts; apart from each other where the stride is wide."""
    (stride, dilation), (outer, inner) = step, cuts
    contiguous = inner * (outputs - outer) * stride + outer * ((kernel - inner) * dilation + inner)
    return min(contiguous, outputs * kernel)


def _input_tile(nest: Nest, size: Mapping[str, int]) -> int:
    """Inputs under so many outputs and kernel elements."""
    rows = _rows(size["p"], size["r"], (1, 1), _step(nest.stride_h, nest.span_h, nest.r))
    columns = _rows(size["q"], size["s"], (1, 1), _step(nest.stride_w, nest.span_w, nest.s))
    return rows * columns * size["g"] * size["b"] * size["c"]


def _fit(inside: Mapping[str, int], weights: int, inputs: int, room: Room) -> bool:
    """Whether a multiplier can store what it uses again within a pass; the rest passes through, one at a time."""
    sums = math.prod(inside[loop] for loop in OUTPUTS)
    weights = weights if any(inside[loop] > 1 for loop in "bpq") else 1
    inputs = inputs if any(inside[loop] > 1 for loop in "krs") else 1
    return weights <= room.weights and inputs <= room.inputs and sums <= room.sums
