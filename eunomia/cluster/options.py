"""How a cluster is simulated: one frozen value per concern, defaults for conclusions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from eunomia.core.errors import ConfigError

Mode = Literal["realistic", "gavel", "ideal"]
Recording = Literal["all", "leases", "jobs"]

GAVEL_ROUND_S = 360.0
GAVEL_MIN_GAP_S = 1920.0


@dataclass(frozen=True, slots=True)
class Restart:
    """What it costs a job to move, to be resized or to come back after a preemption, in seconds.

    ``save_s`` and ``load_s`` once per such change, ``warmup_s`` at every start, the first included. Nothing
    when a lease is
    extended in place. ``checkpoint_interval_s``: running time between checkpoints written while the job runs
    (each costs ``save_s``); None = only when it is stopped. A failure loses what came after the last one.
    """

    save_s: float = 0.0
    load_s: float = 0.0
    warmup_s: float = 0.0
    checkpoint_interval_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("save_s", "load_s", "warmup_s"):
            not_negative(f"restart.{name}", getattr(self, name))
        if self.checkpoint_interval_s is not None:
            positive("restart.checkpoint_interval_s", self.checkpoint_interval_s)

    @property
    def resume_s(self) -> float:
        """Overhead of a job that comes back or moves."""
        return self.save_s + self.load_s + self.warmup_s

    @property
    def running_share(self) -> float:
        """Share of running time left for training beside periodic checkpoints."""
        every = self.checkpoint_interval_s
        return 1.0 if every is None else every / (every + self.save_s)


@dataclass(frozen=True, slots=True)
class Slowdown:
    """What it costs to be spread over servers.

    ``table``: the table's spread column as soon as more servers are used than necessary. ``levels``: divide by
    ``rack`` within one rack, by ``cross_rack`` beyond it. ``none``: free, as in Gavel's simulator.
    """

    source: Literal["table", "levels", "none"] = "table"
    rack: float = 1.15
    cross_rack: float = 1.4

    def __post_init__(self) -> None:
        if not 1.0 <= self.rack <= self.cross_rack < math.inf:
            raise ConfigError(
                f"slowdown: rack is {self.rack}, cross_rack {self.cross_rack}; they must satisfy "
                "1 <= rack <= cross_rack"
            )


@dataclass(frozen=True, slots=True)
class Failures:
    """Poisson failures: of servers (repaired after an exponential time) and of running jobs; None = never."""

    server_mtbf_h: float | None = None
    repair_h: float = 1.0
    job_mtbf_h: float | None = None  # hours of running between crashes of one job

    def __post_init__(self) -> None:
        for name in ("server_mtbf_h", "repair_h", "job_mtbf_h"):
            value = getattr(self, name)
            if value is not None:
                positive(f"failures.{name}", value)


@dataclass(frozen=True, slots=True)
class Estimates:
    """What policies believe of throughputs; the simulator applies the true ones.

    ``noisy``: true * bias * exp(sigma * N(0, 1)), drawn once per table row and device type. ``online``: the
    same at first, then pulled by ``learning_rate`` towards what is observed at each round's end. ``pairs_known``:
    share of co-location measurements that policies have; the others are completed (Quasar's idea).
    """

    kind: Literal["exact", "noisy", "online"] = "exact"
    sigma: float = 0.2
    bias: float = 1.0
    learning_rate: float = 0.5
    pairs_known: float = 1.0

    def __post_init__(self) -> None:
        not_negative("estimates.sigma", self.sigma)
        positive("estimates.bias", self.bias)
        for name in ("learning_rate", "pairs_known"):
            value = getattr(self, name)
            if not 0.0 < value <= 1.0:
                raise ConfigError(f"estimates.{name} is {value}; it must be above 0 and at most 1")


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """Everything that decides a run beside jobs, cluster, throughputs and policy.

    ``mode``: ``realistic`` (for conclusions), ``gavel`` (its simulator's rules, for parity), ``ideal`` (shares applied
    exactly between events: the bound of the round mechanism). ``min_gap_s``: least time between two
    allocations. ``stickiness``: fewer moves for a tracking error of as many rounds.
    ``events``: whether arrivals and finishes act at once (free devices are handed out) or at round ends.
    ``cross_type``: gangs over several types for jobs that fit on none alone, at the pace of the slowest worker
    or with uneven shards. ``horizon_s``: stop then; what is unfinished is reported.
    """

    mode: Mode = "realistic"
    round_s: float = GAVEL_ROUND_S
    min_gap_s: float = 0.0
    priority: Literal["credit", "ratio"] = "credit"
    stickiness: float = 1.0  # rounds of credit that a unit has for standing where it is (credit only)
    queue: Literal["global", "per_type"] = "global"
    placement: Literal["pack", "strided", "spread"] = "pack"
    events: Literal["round_end", "at_once"] = "round_end"
    drop_rule: bool = (
        False  # Gavel's trap: jobs with a last micro-task smaller than their workers are dropped
    )
    restart: Restart = field(default_factory=Restart)
    slowdown: Slowdown = field(default_factory=Slowdown)
    failures: Failures = field(default_factory=Failures)
    estimates: Estimates = field(default_factory=Estimates)
    cross_type: Literal["off", "slowest", "uneven"] = "off"
    horizon_s: float | None = None
    seed: int = 0
    record: Recording = "all"

    def __post_init__(self) -> None:
        positive("round_s", self.round_s)
        not_negative("min_gap_s", self.min_gap_s)
        not_negative("stickiness", self.stickiness)
        if self.horizon_s is not None:
            positive("horizon_s", self.horizon_s)
        if self.drop_rule and self.mode != "gavel":
            raise ConfigError("drop_rule belongs to Gavel's simulator; set mode = 'gavel' or leave it out")

    @classmethod
    def gavel(cls, seed: int = 0, drop_rule: bool = False, record: Recording = "all") -> SimulationOptions:
        """Gavel's simulator: 360 s rounds, ratio priorities, type by type, strided placement, nothing costs."""
        return cls(
            mode="gavel",
            min_gap_s=GAVEL_MIN_GAP_S,
            priority="ratio",
            queue="per_type",
            placement="strided",
            slowdown=Slowdown("none"),
            drop_rule=drop_rule,
            seed=seed,
            record=record,
        )

    def with_seed(self, seed: int) -> SimulationOptions:
        """The same with another seed."""
        return replace(self, seed=seed)


def positive(name: str, value: float) -> None:
    """Raise ConfigError unless value is finite and above 0."""
    if not (math.isfinite(value) and value > 0.0):
        raise ConfigError(f"{name} is {value}; it must be greater than 0")


def not_negative(name: str, value: float) -> None:
    """Raise ConfigError unless value is finite and at least 0."""
    if not (math.isfinite(value) and value >= 0.0):
        raise ConfigError(f"{name} is {value}; it must be at least 0")
