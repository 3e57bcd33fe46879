"""What runs of every wing share: configurations, seeds, metrics, provenance, and the blame for what a policy raises."""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Generic

import numpy as np

from eunomia.core import interrupts
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, EunomiaError, PolicyError
from eunomia.core.provenance import environment
from eunomia.study.result import ConfigT, Configuration

MAX_SEEDS = 10_000
OURS = re.escape(str(Path(__file__).resolve().parents[1]))
LIBRARY = re.compile(rf"^{OURS}|site-packages|^<")


@dataclass(frozen=True)
class Reader(Generic[ConfigT]):
    """How configurations of one kind are read and written."""

    kind: type[ConfigT]
    table: Callable[[ConfigT], Data]  # with all defaults
    parse: Callable[[Data, Iterable[str]], ConfigT]
    load: Callable[[str | Path, Iterable[str]], ConfigT]

    def checked(self, given: ConfigT | str | Path | Data, overrides: Iterable[str] = ()) -> ConfigT:
        """A configuration from itself, a file or a dictionary. Raises ConfigError."""
        if isinstance(given, self.kind):
            return self.parse(self.table(given), overrides)
        if isinstance(given, str | Path):
            return self.load(given, overrides)
        if not isinstance(given, dict):
            raise ConfigError(
                f"{given!r} is no configuration; give a {self.kind.__name__}, a path or a dictionary"
            )
        return self.parse(given, overrides)


def policy_of(config: Configuration) -> str:
    """The policy of a single run unless another one is given."""
    return config.policy or config.compare.policies[0]


def seed_of(config: Configuration, seed: int | None) -> int:
    """The seed of a single run; the configuration's where it is None. Raises ConfigError where it is out of range."""
    return seeds_from(config.seed if seed is None else seed)[0]


def finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Metrics for a manifest: None where there is no number."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


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
    except PolicyError as error:
        raise (
            error if str(error).startswith("policy '") else PolicyError(f"policy '{name}': {error}")
        ) from error
    except (EunomiaError, MemoryError):
        raise
    except SystemExit as leaving:
        raise PolicyError(
            f"policy '{name}' called sys.exit({leaving.code!r}); it must return a list of Assign"
        ) from leaving
    except Exception as error:
        interrupts.check()
        last = _blamed(traceback.extract_tb(error.__traceback__))
        raise PolicyError(
            f"policy '{name}' raised {type(error).__name__}: {error} "
            f"({Path(last.filename).name}, line {last.lineno})"
        ) from error


def _blamed(frames: Sequence[traceback.FrameSummary]) -> traceback.FrameSummary:
    """The last line that is neither ours nor a library's; where there is none, the last line."""
    own = [frame for frame in frames if not LIBRARY.search(frame.filename)]
    return (own or frames)[-1]
