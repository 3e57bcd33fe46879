"""How much the errors of the cost model move when each parameter of the chip moves by 10 %."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from benchmarks.table import Cell, Table, table
from eunomia.hardware.accelerator import AcceleratorType

SHARES = (-0.1, -0.05, 0.05, 0.1)
DRAWS = 40  # of the joint neighbourhood
FIXED = {
    "vector_ops_cycle",
    "search_blocks",
    "lanes_in",
    "lanes_out",
}  # without influence, or not of the chip

Errors = Callable[[AcceleratorType], tuple[float, float]]  # mean absolute errors on AlexNet and VGG-16


def parameters(kind: AcceleratorType) -> list[str]:
    """Every number of a type that its latencies may depend on."""
    names = [name for name, value in vars(kind).items() if isinstance(value, int | float) and value]
    return [name for name in names if not isinstance(getattr(kind, name), bool) and name not in FIXED]


def moved(kind: AcceleratorType, changes: dict[str, float]) -> AcceleratorType:
    """A type with some numbers off by a share; whole numbers move by one at least."""
    values: dict[str, float] = {}
    for name, share in changes.items():
        value = getattr(kind, name)
        values[name] = value * (1 + share)
        if isinstance(value, int):
            values[name] = max(1, value + int(np.sign(share) * max(1, round(abs(value * share)))))
    return replace(kind, **values)  # type: ignore[arg-type]


def spread_table(key: str, kind: AcceleratorType, errors: Errors) -> Table:
    """One parameter a row, errors at each share; then the means, and the mean when all move at once."""
    centre = errors(kind)
    rows: list[list[Cell]] = [
        ["none", *[centre[net] if i == 0 else None for net in (0, 1) for i in range(5)]]
    ]
    found = []
    for name in parameters(kind):
        at = [errors(moved(kind, {name: share})) for share in SHARES]
        found += at
        means = [float(np.mean([pair[net] for pair in at])) for net in (0, 1)]
        rows.append([name, *(cell for net in (0, 1) for cell in (means[net], *(pair[net] for pair in at)))])
    rows += [_summary("mean of all", [centre, *found], np.mean), _summary("worst of all", found, np.max)]
    for held, said in (("", ""), ("array_rows", ", array_rows as built")):
        drawn = ({name: share for name, share in one.items() if name != held} for one in _draws(kind))
        joint = [errors(moved(kind, changes)) for changes in drawn]
        rows.append(_summary(f"all at once{said}, mean of {DRAWS} draws", joint, np.mean))
    shares = "".join(f"; {share:+.0%}|.1%" for share in SHARES)
    return table(key, f"parameter; AlexNet: mean|.1%{shares}; VGG-16: mean|.1%{shares}", rows)


def _summary(name: str, pairs: list[tuple[float, float]], of: Callable[[list[float]], object]) -> list[Cell]:
    alexnet, vgg16 = (float(of([pair[net] for pair in pairs])) for net in (0, 1))  # type: ignore[arg-type]
    return [name, alexnet, *[None] * len(SHARES), vgg16, *[None] * len(SHARES)]


def _draws(kind: AcceleratorType) -> Iterator[dict[str, float]]:
    """Points of the joint neighbourhood, uniform within 10 % of every parameter."""
    rng, names = np.random.default_rng(0), parameters(kind)
    for _ in range(DRAWS):
        yield dict(zip(names, rng.uniform(-0.1, 0.1, len(names)).tolist(), strict=True))
