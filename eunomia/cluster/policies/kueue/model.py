"""ClusterQueues as Kueue describes them: quotas per flavor, cohorts, limits and policies of preemption."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from eunomia.core.errors import ConfigError

Strategy = Literal["StrictFIFO", "BestEffortFIFO"]
Within = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"]
Reclaim = Literal["Never", "LowerPriority", "Any"]
BorrowWithin = Literal["Never", "LowerPriority"]
WhenBorrow = Literal["Borrow", "TryNextFlavor"]
WhenPreempt = Literal["Preempt", "TryNextFlavor"]
FairStrategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]


@dataclass(frozen=True, slots=True)
class Quota:
    """Devices of one flavor; a limit of None is none."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None

    def __post_init__(self) -> None:
        for name in ("nominal", "borrowing_limit", "lending_limit"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and value >= 0):
                raise ConfigError(f"{name} is {value!r}; it must be a whole number of devices, at least 0")

    @property
    def lendable(self) -> int:
        """What others in the cohort may use of it."""
        return self.nominal if self.lending_limit is None else min(self.nominal, self.lending_limit)

    @property
    def guaranteed(self) -> int:
        """What only the queue itself may use."""
        return self.nominal - self.lendable


@dataclass(frozen=True)
class ClusterQueue:
    """One queue; flavors are tried in the order of ``quotas``. ``cohort`` "": shares with nobody."""

    name: str
    quotas: Mapping[str, Quota]
    cohort: str = ""
    strategy: Strategy = "BestEffortFIFO"
    within: Within = "Never"
    reclaim: Reclaim = "Never"
    borrow_within: BorrowWithin = "Never"
    max_priority_threshold: float | None = None
    weight: float = 1.0  # of fair sharing; 0 = an infinite share as soon as it borrows
    when_can_borrow: WhenBorrow = "Borrow"
    when_can_preempt: WhenPreempt = "TryNextFlavor"

    def __post_init__(self) -> None:
        for name, known in (
            ("strategy", Strategy),
            ("within", Within),
            ("reclaim", Reclaim),
            ("borrow_within", BorrowWithin),
            ("when_can_borrow", WhenBorrow),
            ("when_can_preempt", WhenPreempt),
        ):
            if getattr(self, name) not in get_args(known):
                choices = ", ".join(get_args(known))
                raise ConfigError(
                    f"ClusterQueue '{self.name}': {name} is '{getattr(self, name)}'; choose one of: {choices}"
                )
        if not 0.0 <= self.weight < float("inf"):
            raise ConfigError(
                f"ClusterQueue '{self.name}': weight is {self.weight}; it must be a finite number, at least 0"
            )


@dataclass(frozen=True)
class QueueSetup:
    """All queues, quotas of the cohorts themselves (by cohort and flavor), and how borrowed devices are shared."""

    queues: tuple[ClusterQueue, ...]
    cohort_quotas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    fair_sharing: bool = False
    strategies: tuple[FairStrategy, ...] = get_args(FairStrategy)

    def __post_init__(self) -> None:
        names = [queue.name for queue in self.queues]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"ClusterQueue '{name}' is defined twice; names must be unique")
        for strategy in self.strategies:
            if strategy not in get_args(FairStrategy):
                choices = ", ".join(get_args(FairStrategy))
                raise ConfigError(f"preemption strategy '{strategy}' is unknown; choose among: {choices}")
