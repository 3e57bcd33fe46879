"""How many runs are carried out: where they are kept, on how many processes, with which tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict, get_args

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.engines.processes import HERE, Outcome

OnDone = Callable[[Outcome], None]
Keep = Literal["first", "all", "requests"]


class BatchOptions(TypedDict, total=False):
    """Keywords of ``compare``, ``sweep`` and their like. Results depend on none of them.

    ``directory``: write the runs there, and go on where a stopped call left off; with results of another
    configuration in it the call is refused. ``overwrite``: replace those instead. ``workers``: processes,
    ``on``: ``processes`` of this machine, ``ray``, or a Ray cluster's address (engines/ray_cluster.py);
    with more than one worker, call from under ``if __name__ == "__main__":`` in a script. ``record``: seeds of each
    policy that keep all tables, ``first`` (the default of a comparison), ``all``, or none (``requests``, the
    default of a sweep). ``on_done``: called with each finished run.
    """

    directory: str | Path | None
    workers: int
    on: str
    record: Keep
    on_done: OnDone | None
    overwrite: bool


@dataclass(frozen=True)
class Batch:
    """``BatchOptions`` with their defaults."""

    directory: str | Path | None = None
    workers: int = 1
    on: str = HERE
    record: Keep = "first"
    on_done: OnDone | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.workers, int) and self.workers >= 1):
            raise ConfigError(f"workers is {self.workers!r}; give the number of processes, 1 or more")
        if not (isinstance(self.on, str) and self.on):
            raise ConfigError(f"on is {self.on!r}; give '{HERE}', 'ray', or the address of a Ray cluster")
        if self.record not in get_args(Keep):
            raise ConfigError(f"record is {self.record!r}; choose one of: {', '.join(get_args(Keep))}")
        if not (self.on_done is None or callable(self.on_done)):
            raise ConfigError(f"on_done is {self.on_done!r}; give a function of a finished run")

    @classmethod
    def of(cls, options: BatchOptions) -> Batch:
        """From keywords. Raises ConfigError for one that does not exist, or a value that cannot be."""
        known = list(BatchOptions.__annotations__)
        for name in options:
            if name not in known:
                raise UnknownNameError("option", name, known)
        return cls(**options)

    @property
    def root(self) -> Path | None:
        """The folder of results; None = nothing is written."""
        return None if self.directory is None else Path(self.directory)

    def full(self, seed: int, first: int) -> bool:
        """Whether the runs of a seed keep all of their tables."""
        return self.record == "all" or (self.record == "first" and seed == first)
