"""Every error that Eunomia raises on purpose.

::

    EunomiaError                 exit status 1
    ├── ConfigError              a scenario, an option or a combination of them is wrong (2)
    │   └── UnknownNameError     a name that no registry knows; lists choices, suggests the nearest (2)
    ├── ModelError               a network that cannot be used: malformed file, unsupported operator, cycle
    ├── PlatformError            hardware that cannot be used: zero throughput, no device able to run a layer
    ├── TraceError               a trace row that cannot be read; names file, line and column
    ├── PolicyError              a policy answered with an illegal decision
    ├── RecordError              a run directory that is missing, incomplete or of another version
    └── OutputError              nothing can be written there: disk full, no permission

Each message says what was wrong, the value, and what would be right. The command line prints the
message alone, without a traceback, and exits with ``exit_code``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class EunomiaError(Exception):
    """Base of all deliberate errors; ``exit_code`` is the status of the command line."""

    exit_code = 1


class ConfigError(EunomiaError):
    """A scenario, an option or a combination of them is wrong."""

    exit_code = 2


MANY, NEAREST = 12, 3  # names that a message lists; those that it suggests of more
LISTS = {
    "policy": "eunomia policies",
    "policy with settings": "eunomia policies",
    "cluster policy": "eunomia cluster policies",
    "model": "eunomia models",
}


class UnknownNameError(ConfigError):
    """A name that is not registered; the message suggests the nearest ones, and lists all or says what does."""

    def __init__(self, kind: str, name: str, choices: Iterable[str], where: str = "") -> None:
        known = sorted(choices)
        many = len(known) > MANY and kind in LISTS
        near = difflib.get_close_matches(name, known, n=NEAREST if many else 1, cutoff=0.5)
        hint = f"did you mean {one_of(near)}? " if near else ""
        listed = f"`{LISTS[kind]}` lists them all" if many else f"choose one of: {', '.join(known)}"
        super().__init__(f"unknown {kind} '{name}'{where}; {hint}{listed}")
        self.kind, self.name, self.choices, self.near = kind, name, known, near


def one_of(names: Sequence[str]) -> str:
    """'a', 'b' or 'c'."""
    *others, last = [f"'{name}'" for name in names]
    return f"{', '.join(others)} or {last}" if others else last


@contextmanager
def within(place: str) -> Iterator[None]:
    """Put the file and the key that are read before the message of an error; its class stays."""
    try:
        yield
    except EunomiaError as error:
        error.args = (f"{place}: {error}",)
        raise


class ModelError(EunomiaError):
    """A network that cannot be used."""


class PlatformError(EunomiaError):
    """Hardware, or a cost table, that cannot be used."""


class TraceError(EunomiaError):
    """A trace row that cannot be read; the message names file, line and column."""

    def __init__(
        self, message: str, path: str | Path, line: int | None = None, column: str | None = None
    ) -> None:
        place = str(path)
        if line is not None:
            place += f", line {line}"
        if column is not None:
            place += f", column '{column}'"
        super().__init__(f"{place}: {message}")
        self.path, self.line, self.column = Path(path), line, column


class PolicyError(EunomiaError):
    """A policy answered with an illegal decision."""


class RecordError(EunomiaError):
    """A run directory that is missing, incomplete or of another version."""


class OutputError(EunomiaError):
    """Results cannot be written."""
