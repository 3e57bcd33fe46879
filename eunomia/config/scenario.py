"""A scenario: everything that decides a run, as one validated value."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from eunomia.config.demand import TenantConfig
from eunomia.config.engine import EngineConfig
from eunomia.config.hardware import PlatformConfig
from eunomia.config.network import NetworkConfig
from eunomia.config.overrides import flatten
from eunomia.config.section import Name, NotNegative, PolicyText, Positive, Section, unknown_name, wrong
from eunomia.workload import zoo

MAX_LOAD = 20.0  # times the capacity
MAX_PERIODS = 1e8  # of one run: minutes of computing

Values = Annotated[list[Any], Field(min_length=1)]


class CompareConfig(Section):
    """Which policies to compare, on how many seeds each (common random numbers)."""

    policies: list[PolicyText] = Field(default=["fcfs", "edf", "edf-feasible-eft"], min_length=1)
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 5
    baseline: Name | None = None  # None = the first policy


class Scenario(Section):
    """What runs, on what, for how long, and what is compared. One file, one scenario."""

    name: Name
    description: str = ""
    duration_s: Positive
    warmup_s: NotNegative = 0.0
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    load: Positive | None = None  # None = rates as written; 1.0 = the platform's measured capacity
    policy: PolicyText | None = None  # what `eunomia run` uses; None = eunomia
    platform: PlatformConfig
    tenant: list[TenantConfig] = Field(min_length=1)
    network: list[NetworkConfig] | None = Field(default=None, min_length=1)  # of one's own, beside the zoo
    engine: EngineConfig = Field(default_factory=EngineConfig)
    compare: CompareConfig = Field(default_factory=CompareConfig)
    sweep: dict[str, Values] = Field(default_factory=dict)  # key path -> values; several keys: their product

    @model_validator(mode="before")
    @classmethod
    def _flat_sweep(cls, data: object) -> object:
        if isinstance(data, dict) and isinstance(data.get("sweep"), dict):
            return {**data, "sweep": flatten(data["sweep"])}
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [tenant.name for tenant in self.tenant]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise wrong(f"two tenants are called '{twice[0]}'; names must differ")
        own = [network.name for network in self.network or []]
        if len(set(own)) < len(own):
            raise wrong(f"two networks are called '{max(own, key=own.count)}'; names must differ")
        for tenant in self.tenant:
            for number, model in enumerate(tenant.models or []):
                name = model.model
                if name is not None and name not in own and not zoo.is_model(name):
                    where = f"tenant.{tenant.name}.models.{number}.model"
                    raise unknown_name(where, "model", name, [*zoo.names(), *own])
        if self.load is not None and self.load > MAX_LOAD:
            raise wrong(
                f"load is {self.load:g} times the capacity of the platform, at most {MAX_LOAD:g} is allowed; "
                "write 0.8 for 80 %"
            )
        if self.warmup_s >= self.duration_s:
            raise wrong(f"warmup_s is {self.warmup_s:g} of {self.duration_s:g} s; nothing would be measured")
        period_s = self.engine.period_s
        if period_s is not None and self.duration_s / period_s > MAX_PERIODS:
            raise wrong(
                f"engine.period_s is {period_s:g}: {self.duration_s:g} s hold {self.duration_s / period_s:.3g} "
                f"periods, more than the {MAX_PERIODS:g} that a run may have; raise period_s or shorten duration_s"
            )
        return self
