"""What a trace format is: a name, the headers that give it away, and a reader; and how formats are found."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from eunomia.core.errors import ConfigError
from eunomia.core.registry import Registry
from eunomia.workload.traces.trace import Trace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Format(Generic[T]):
    """A format of traces that are read as ``T``.

    ``read(path, max_rows=..., **options) -> T`` raises TraceError for what it cannot read.
    ``headers``: sets of column names; a CSV file that has all names of one set is of this format. ``begins(path)``:
    whether a file that is no such CSV file starts like this format. ``example``: a small whole file.
    """

    name: str
    what: str  # one line for listings
    headers: tuple[frozenset[str], ...]
    read: Callable[..., T]
    begins: Callable[[Path], bool] | None = None
    example: str = ""


@dataclass(frozen=True, slots=True)
class TraceFormat(Format[Trace]):
    """One entry of ``eunomia.traces``."""


@dataclass(frozen=True, slots=True)
class Formats(Generic[T]):
    """The formats of a registry; ``kind`` is the class of its entries."""

    registry: Registry
    kind: type[Format[T]]

    def find(self, name: str) -> Format[T]:
        """A format by its registered name or by ``FILE.py:NAME``; a function that reads a file is one without headers.

        Raises UnknownNameError, and ConfigError for something else.
        """
        found = self.registry.resolve(name)
        if isinstance(found, self.kind):
            return found
        if not inspect.isfunction(found):
            kind = f"a {self.kind.__name__}, or a function of a path"
            raise ConfigError(f"{self.registry.kind} '{name}' is {found!r}; it must be {kind}")
        return self.kind(name, (inspect.getdoc(found) or "").partition("\n")[0], (), found)

    def beginning(self, path: Path) -> str | None:
        """The first format that recognises the beginning of a file; None if there is none. Raises TraceError."""
        for name in self.registry:
            begins = self.find(name).begins
            if begins is not None and begins(path):
                return name
        return None

    def needs(self) -> list[tuple[frozenset[str], str]]:
        """Every set of column names that gives a format away, and that format's name."""
        return [(need, name) for name in self.registry for need in self.find(name).headers]

    def fitting(self, columns: Set[str]) -> str | None:
        """The format whose longest set of names is among these columns; None if there is none."""
        return max(((len(need), name) for need, name in self.needs() if need <= columns), default=(0, None))[
            1
        ]
