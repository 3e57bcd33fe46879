"""Experiments of the two cluster policies with worlds of their own: an elastic pool (HTAS), deferrable jobs (OSDEC)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from eunomia.config.complaints import config_error
from eunomia.config.load import read_table
from eunomia.config.overrides import Table, apply_overrides, parse_overrides
from eunomia.config.section import Name, NotNegative, Positive, Section, Share, wrong

Count = Annotated[int, Field(ge=0, le=1_000_000)]
Whole = Annotated[int, Field(ge=1, le=1_000_000)]
Seeds = Annotated[int, Field(ge=1, le=10_000)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class FlavourConfig(Section):
    """A kind of machine one can rent."""

    name: Name
    cpu: Positive
    memory_gib: Positive
    price_per_hour: Positive
    device: Name | None = None  # kind of accelerator
    devices: Count = 0


class PoolJobConfig(Section):
    """A container; without ``run_s`` a service that stays."""

    name: Name
    arrival_s: NotNegative = 0.0
    run_s: Positive | None = None
    cpu: NotNegative = 1.0
    memory_gib: NotNegative = 1.0
    estimate_s: Positive | None = None  # what the scheduler believes; absent = it knows
    device: Name | None = None
    devices: Count = 0


class ArrivalsConfig(Section):
    """Containers of 1 to 12 minutes over two hours, in one of four patterns."""

    pattern: Literal["stable", "growing", "cycle", "on_off"] = "stable"
    jobs: Whole = 300
    services: Share = 0.1  # part of them that stays
    error: Share = 0.0  # run times are believed to be run * (1 + error * U(-1, 1))


class PoolRulesConfig(Section):
    """Settings of :class:`~eunomia.cluster.environments.elastic_pool_run.PoolOptions`, the same for every scheduler."""

    cycle_s: Positive = 20.0
    scale_s: Positive = 300.0
    boot_s: NotNegative = 120.0
    migrate_s: NotNegative = 15.0
    migrate_fails: Share = 0.0
    retries: Whole = 3
    keep: Count = 2
    migrate: bool = True
    bins: bool = True
    flavours: Literal["best", "one"] = "best"


class PoolCompareConfig(Section):
    """Which schedulers, on how many seeds each; what a row is compared with is the first."""

    schedulers: list[Literal["least_requested", "htas"]] = Field(
        default=["least_requested", "htas"], min_length=1
    )
    seeds: Seeds = 5


class PoolConfig(Section):
    """One elastic pool of priced machines."""

    name: Name
    description: str = ""
    seed: Seed = 0
    horizon_s: Positive | None = None  # absent = until all batch jobs ended
    flavour: list[FlavourConfig] = Field(min_length=1)
    generate: ArrivalsConfig | None = None
    job: list[PoolJobConfig] = Field(default_factory=list)
    pool: PoolRulesConfig = Field(default_factory=PoolRulesConfig)
    compare: PoolCompareConfig = Field(default_factory=PoolCompareConfig)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.generate is None) == (not self.job):
            raise wrong("give exactly one of: [generate], [[job]]")
        _unlike("flavour", [flavour.name for flavour in self.flavour])
        _unlike("job", [job.name for job in self.job])
        _unlike("scheduler", self.compare.schedulers)
        return self


class DeferrableJobConfig(Section):
    """``devices`` for ``slots`` slots, to start within [earliest, latest]; heard of in slot ``known``."""

    name: Name
    devices: Whole = 1
    slots: Whole = 1
    earliest: Count = 0
    latest: Count
    known: Count = 0


class DayConfig(Section):
    """A generated day: what on-demand work leaves over of ``devices``, and jobs asking for ``load`` of that."""

    slots: Annotated[int, Field(ge=6, le=10_000)] = 32
    devices: Annotated[int, Field(ge=2, le=100_000)] = 8
    load: Positive = 1.2
    noise: NotNegative = 0.1  # of the forecast, standard deviation over devices


class SlotsConfig(Section):
    """Devices left over in every slot, and what was forecast of it (absent = the truth)."""

    left_over: list[Count] = Field(min_length=1)
    forecast: list[Count] | None = None

    @model_validator(mode="after")
    def _as_long(self) -> Self:
        if self.forecast is not None and len(self.forecast) != len(self.left_over):
            raise wrong(
                f"left_over has {len(self.left_over)} slots, forecast {len(self.forecast)}; give both for all slots"
            )
        return self


DeferrableName = Literal[
    "first_fit", "latest_start_first", "largest_first", "rolling", "informed_first_fit", "offline_optimum"
]


class DeferrableCompareConfig(Section):
    """Which policies, on how many seeds each; what a row is compared with is the first."""

    policies: list[DeferrableName] = Field(default=["first_fit", "rolling", "offline_optimum"], min_length=1)
    seeds: Seeds = 5


class DeferrableConfig(Section):
    """Deferrable jobs in what is left over."""

    name: Name
    description: str = ""
    seed: Seed = 0
    generate: DayConfig | None = None
    slots: SlotsConfig | None = None
    job: list[DeferrableJobConfig] = Field(default_factory=list)
    compare: DeferrableCompareConfig = Field(default_factory=DeferrableCompareConfig)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.generate is None) == (self.slots is None) or (self.slots is None) != (not self.job):
            raise wrong("give either [generate], or [slots] and [[job]]")
        _unlike("job", [job.name for job in self.job])
        _unlike("policy", self.compare.policies)
        return self


def load_pool(path: str | Path, overrides: Iterable[str] = ()) -> PoolConfig:
    """Read an experiment with an elastic pool (TOML). Raises ConfigError."""
    return _loaded(PoolConfig, path, "pool file", overrides)


def load_deferrable(path: str | Path, overrides: Iterable[str] = ()) -> DeferrableConfig:
    """Read an experiment with deferrable jobs (TOML). Raises ConfigError."""
    return _loaded(DeferrableConfig, path, "deferrable file", overrides)


Kind = TypeVar("Kind", PoolConfig, DeferrableConfig)


def _loaded(kind: type[Kind], path: str | Path, what: str, overrides: Iterable[str]) -> Kind:
    path = Path(path)
    data: Table = read_table(path, what)
    changed: Any = apply_overrides(data, parse_overrides(overrides))
    try:
        return kind.model_validate(changed)
    except ValidationError as error:
        raise config_error(error, changed, str(path)) from None


def _unlike(what: str, names: Sequence[object]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise wrong(f"{what} '{name}' is named twice")
