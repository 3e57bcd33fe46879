"""What a benchmark returns: tables of cells, which one writer turns into pages (:mod:`benchmarks.page`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from eunomia.metrics.statistics import Estimate, interval

Cell = str | int | float | bool | Estimate | None
Json = dict[str, object]


@dataclass(frozen=True)
class Options:
    """What the command line asks of a benchmark. ``seeds``: None = the benchmark's own number."""

    quick: bool = False
    seeds: int | None = None
    workers: int = 2
    only: tuple[str, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)  # of --set
    parts: set[str] = field(default_factory=set, compare=False)  # that the benchmark has asked about so far

    def wants(self, part: str) -> bool:
        """Whether this part shall be measured."""
        self.parts.add(part)
        return not self.only or part in self.only

    def chosen(self, parts: Iterable[str]) -> list[str]:
        """The parts to measure, in order."""
        return [part for part in parts if self.wants(part)]

    def says_yes(self, name: str, usual: str = "no") -> bool:
        """To ``--set NAME``; ends with a sentence where that is neither yes nor no."""
        if (said := self.given.get(name, usual)) not in ("yes", "no"):
            raise SystemExit(f"--set {name}={said}: say {name}=yes or {name}=no")
        return said == "yes"

    def seeds_or(self, full: int, quick: int = 1) -> range:
        """Seeds from 0 on."""
        return range(self.seeds or (quick if self.quick else full))


@dataclass(frozen=True)
class Measured:
    """Where figures come from."""

    command: str
    commit: str
    date: str
    machine: str


@dataclass(frozen=True)
class Table:
    """Cells under columns. ``notes``: sentences computed with it. ``files``: path below the repository -> content.

    ``columns``: (name with its unit, format of its cells). A format is one of Python's, or ends with ``p``: points, a
    share times 100 without a sign.
    """

    key: str
    columns: tuple[tuple[str, str], ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    notes: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    measured: Measured | None = None

    def __str__(self) -> str:
        """As Markdown; the last line says over how many runs the intervals are."""
        blocks = []
        if self.columns:
            texts = [[text(c, f) for c, (_, f) in zip(row, self.columns, strict=True)] for row in self.rows]
            numbers = [any(_number(line[n]) for line in texts) for n in range(len(self.columns))]
            rule = ["---:" if n and right else "---" for n, right in enumerate(numbers)]
            lines = ["| " + " | ".join(line) + " |" for line in ([n for n, _ in self.columns], rule, *texts)]
            runs = sorted({c.n for row in self.rows for c in row if isinstance(c, Estimate) and c.n > 1})
            if runs:
                lines += ["", f"± or [ ]: 95 % interval, n = {', '.join(map(str, runs))}."]
            blocks.append("\n".join(lines))
        return "\n\n".join([*blocks, *self.notes])

    def dump(self) -> Json:
        """As JSON can hold it; without files."""
        rows = [[_dump(cell) for cell in row] for row in self.rows]
        return {"measured": vars(self.measured) if self.measured else None, "notes": list(self.notes),
                "columns": [list(column) for column in self.columns], "rows": rows}  # fmt: skip


def table(key: str, columns: str, rows: Iterable[Sequence[Cell]], notes: Iterable[str] = ()) -> Table:
    """A table; ``columns``: ``name|format`` separated by semicolons, the format perhaps left out."""
    parts = [part.strip().partition("|") for part in columns.split(";")]
    made = tuple((name, spec) for name, _, spec in parts)
    return Table(key, made, tuple(tuple(row) for row in rows), tuple(notes))


def load(key: str, content: Mapping[str, object]) -> Table:
    """What ``dump`` made."""
    data: dict[str, list[list[object]]] = {name: list(content[name]) for name in ("columns", "rows")}  # type: ignore[call-overload]
    rows = tuple(tuple(_load(cell) for cell in row) for row in data["rows"])
    columns = tuple((str(name), str(spec)) for name, spec in data["columns"])
    measured = content["measured"]
    notes = tuple(map(str, content["notes"]))  # type: ignore[call-overload]
    return Table(key, columns, rows, notes, {}, Measured(**measured) if isinstance(measured, dict) else None)


def text(cell: Cell, spec: str = "") -> str:
    """A cell as it is printed."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, bool | np.bool_):
        return "yes" if cell else "**no**"
    if spec.endswith("p"):
        return text(scaled(cell, 100.0), f"{spec[:-1]}f")
    if isinstance(cell, Estimate):
        return format(cell, spec).partition(" (n=")[0].replace("+-", "±")
    if isinstance(cell, float) and math.isnan(cell):
        return "-"
    return f"{cell:{spec[:-1]}%}".replace("%", " %") if spec.endswith("%") else f"{cell:{spec}}"


def scaled(cell: float | Estimate, factor: float) -> float | Estimate:
    """In another unit."""
    if not isinstance(cell, Estimate):
        return cell * factor
    return replace(cell, mean=cell.mean * factor, low=cell.low * factor, high=cell.high * factor)


def means(values: Mapping[str, Sequence[float]], *names: str) -> list[Estimate]:
    """Mean and interval over the seeds, of some measures by name."""
    return [interval(values[name]) for name in names]


def by_name(runs: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """Measures of several runs, by name."""
    return {name: [run[name] for run in runs] for name in runs[0]}


def _number(cell: str) -> bool:
    return cell[:1].isdigit() or cell[:1] in ("+", "-") and cell[1:2].isdigit()


def _dump(cell: Cell) -> object:
    if isinstance(cell, Estimate):
        bounds = [None if math.isnan(v) else float(v) for v in (cell.mean, cell.low, cell.high)]
        return dict(zip(("mean", "low", "high", "n"), (*bounds, cell.n), strict=True))
    if isinstance(cell, np.generic):
        cell = cell.item()
    return {"mean": None, "n": -1} if isinstance(cell, float) and math.isnan(cell) else cell


def _load(cell: object) -> Cell:
    if not isinstance(cell, dict):
        return cell  # type: ignore[return-value]
    mean, low, high = (math.nan if (v := cell.get(name)) is None else v for name in ("mean", "low", "high"))
    return math.nan if cell["n"] < 0 else Estimate(mean, low, high, cell["n"])
