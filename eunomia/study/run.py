"""What runs of every wing share: seeds, provenance, and the blame for what a policy raises."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np

from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, EunomiaError, PolicyError
from eunomia.core.records import environment

MAX_SEEDS = 10_000


def seeds_from(first: int, count: int = 1) -> list[int]:
    """``count`` seeds, ascending from ``first``. Raises ConfigError unless they fit the range of seeds."""
    for number in (first, count):
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise ConfigError(f"{number!r} was given for seeds; write a whole number")
    if not 1 <= count <= MAX_SEEDS:
        raise ConfigError(f"{count} seeds per policy; give 1 to {MAX_SEEDS}")
    if not 0 <= first <= 2**63 - count:
        raise ConfigError(f"seed is {first}; seeds are whole numbers from 0 to 2^63 - 1")
    return list(range(first, first + count))


@lru_cache(maxsize=1)
def provenance() -> Data:
    """``environment()``, read once per process."""
    return environment()


@contextmanager
def blame(name: str) -> Iterator[None]:
    """Name the policy that raised an error of its own, and where."""
    try:
        yield
    except (EunomiaError, MemoryError):
        raise
    except SystemExit as leaving:
        raise PolicyError(
            f"policy '{name}' called sys.exit({leaving.code!r}); it must return a list of Assign"
        ) from leaving
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise PolicyError(
            f"policy '{name}' raised {type(error).__name__}: {error} "
            f"({Path(last.filename).name}, line {last.lineno})"
        ) from error
