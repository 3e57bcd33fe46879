"""A plan file as typed values: traffic and promises as in a scenario, a catalogue to choose from, bounds, a target."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from eunomia.config.complaints import config_error
from eunomia.config.demand import TenantConfig
from eunomia.config.engine import EngineConfig
from eunomia.config.load import as_table, load_scenario, read_table
from eunomia.config.network import NetworkConfig
from eunomia.config.overrides import Table, apply_overrides, parse_overrides
from eunomia.config.scenario import Scenario
from eunomia.config.section import (
    FilePath,
    Name,
    NameOrFile,
    NotNegative,
    PolicyText,
    Positive,
    Section,
    unknown_name,
    wrong,
)
from eunomia.contract.contention import CONTENTION, Contention
from eunomia.core.data import Data
from eunomia.core.own_file import as_path
from eunomia.hardware.accelerator import Mapper
from eunomia.hardware.platform import from_config
from eunomia.hardware.points import power_factor
from eunomia.hardware.types import is_type, type_names

Target = Literal["cost", "energy", "area", "power", "headroom"]
Most = Annotated[int, Field(ge=0, le=4096)]
TRAFFIC = ("name", "description", "duration_s", "warmup_s", "seed", "tenant", "network", "engine")
UNSHARED_GB_S = 1e9  # of devices with memories of their own


class PricedConfig(Section):
    """What one of it costs and takes."""

    price: NotNegative = 0.0
    rent_per_h: NotNegative = 0.0
    power_w: NotNegative = 0.0  # at full load: what bounds.power_w adds up
    standby_w: NotNegative = 0.0  # drawn always: what the target energy adds to the energy of layers
    area_mm2: NotNegative = 0.0


class DeviceConfig(PricedConfig):
    """A type of the catalogue, and how many of it a platform may have."""

    type: NameOrFile | None = None
    file: FilePath | None = None
    table: Data | None = None  # the content of such a file
    clock_mhz: Positive | list[Positive] | None = None  # an operating point, or several to choose from
    least: Most = 0
    most: Annotated[int, Field(ge=1, le=4096)] = 4

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(source is not None for source in (self.type, self.file, self.table)) != 1:
            raise wrong("give one of type = a type by name, file = a TOML file that describes one, or table")
        if self.least > self.most:
            raise wrong(f"least is {self.least} and most is {self.most}; least must be at most {self.most}")
        if isinstance(self.clock_mhz, list) and self.least:
            raise wrong("least does not say at which clock; list each point in a [[device]] of its own")
        return self

    @property
    def source(self) -> Data:
        """What a platform's list of accelerators says of it."""
        return self.model_dump(include={"type", "file", "table", "clock_mhz"}, exclude_none=True)

    def points(self) -> list[DeviceConfig]:
        """One entry per operating point; ``power_w`` is that of the type's own clock, and scales with f V squared.

        Raises PlatformError for a clock that the type does not have.
        """
        if self.clock_mhz is None:
            return [self]
        kind = self.model_copy(update={"clock_mhz": None}).source
        found = from_config({"accelerators": [kind], "dram_bandwidth_gb_s": 1.0}, "device").kinds[0]
        listed = self.clock_mhz if isinstance(self.clock_mhz, list) else [self.clock_mhz]
        return [
            self.model_copy(update={"clock_mhz": mhz, "power_w": self.power_w * power_factor(found, mhz)})
            for mhz in listed
        ]


class MemoryConfig(PricedConfig):
    """A memory that all devices share: a platform has one of those listed."""

    gb_s: Positive
    gb: Positive | None = None  # what it holds; one too small for the networks is left out. None = enough


class BoundsConfig(Section):
    """What a platform may cost and take, at most."""

    cost: Positive | None = None
    power_w: Positive | None = None
    area_mm2: Positive | None = None
    devices: Annotated[int, Field(ge=1, le=100_000)] | None = None


class SearchConfig(Section):
    """How platforms are tried, and what a promise must survive."""

    policies: list[PolicyText] = Field(
        default=["edf+f+eft", "triage_edf+f+eft", "llf+f+eft_ca"], min_length=1
    )
    seeds: Annotated[int, Field(ge=1, le=100)] = 3  # of the search
    fresh: Annotated[int, Field(ge=2, le=1000)] = 10  # seeds that the answer is replayed on
    confidence: Annotated[float, Field(ge=0.5, lt=1.0)] = 0.95
    cost_error: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.2  # relative error of each layer's cost
    headroom: NotNegative = 0.0  # promises hold at so much more traffic
    front: list[Positive] = Field(default=[1.25, 1.5])  # times the traffic: what would carry that


class PlanConfig(Section):
    """A question: which platform keeps these promises at the least of the target?"""

    name: Name
    description: str = ""
    scenario: FilePath | None = (
        None  # traffic and promises of a scenario file; keys given here replace its own
    )
    duration_s: Positive | None = None
    warmup_s: NotNegative | None = None
    seed: Annotated[int, Field(ge=0, lt=2**62)] | None = None
    tenant: list[TenantConfig] | None = Field(default=None, min_length=1)
    network: list[NetworkConfig] | None = Field(default=None, min_length=1)
    engine: EngineConfig | None = None
    target: Target = "cost"
    currency: Name = "USD"
    hours: Positive = 730.0  # that rent is paid for: a month
    device: list[DeviceConfig] = Field(min_length=1, max_length=16)
    memory: list[MemoryConfig] | None = Field(default=None, min_length=1)  # None = each device has its own
    contention: Contention | None = None  # None = proportional; none where each device has its own memory
    cost_csv: FilePath | None = None
    mapper: Mapper | None = None  # as in [platform]
    fusion: Annotated[int, Field(ge=2, le=64)] | None = None  # as in [platform]
    bounds: BoundsConfig = Field(default_factory=BoundsConfig)
    search: SearchConfig = Field(default_factory=SearchConfig)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for number, device in enumerate(self.device):
            own = (
                self.cost_csv is not None or self.scenario is not None
            )  # which may bring costs of other types
            if device.type is not None and not own and not is_type(device.type):
                raise unknown_name(f"device.{number}.type", "accelerator type", device.type, type_names())
        if self.scenario is None:
            for key in ("duration_s", "tenant"):
                if getattr(self, key) is None:
                    raise wrong(f"{key} is missing; give it, or scenario = a scenario file that has it")
        if self.contention is not None and CONTENTION[self.contention].beside:
            raise wrong(
                f"contention '{self.contention}' needs slowdowns, which a plan does not take; take another"
            )
        if self.memory is None and self.contention not in (None, "none"):
            raise wrong(f"contention is '{self.contention}' but there is no [[memory]] to share; list one")
        return self

    @property
    def memories(self) -> list[MemoryConfig]:
        """The memories to choose from; one without price or limit where each device has its own."""
        return self.memory or [MemoryConfig(gb_s=UNSHARED_GB_S)]

    @cached_property
    def devices(self) -> list[DeviceConfig]:
        """The catalogue, an entry per operating point."""
        return [point for device in self.device for point in device.points()]

    @cached_property
    def whole(self) -> Scenario:
        """The traffic on one device of every type: what networks, costs and deadlines are taken from.

        Raises ConfigError where a tenant promises something other than a hit rate, or nobody promises anything.
        """
        table, cost_csv = self._traffic()
        accelerators = [device.source for device in self.devices]
        bandwidth = max(memory.gb_s for memory in self.memories)
        contention = self.contention or ("proportional" if self.memory else "none")
        platform = {
            "accelerators": accelerators,
            "dram_bandwidth_gb_s": bandwidth,
            "contention": contention,
            "cost_csv": cost_csv,
            "mapper": self.mapper,
            "fusion": self.fusion,
        }
        table["platform"] = {key: value for key, value in platform.items() if value is not None}
        try:
            return Scenario.model_validate(table)
        except ValidationError as error:
            raise config_error(error, table, f"plan '{self.name}'") from None

    def _traffic(self) -> tuple[Table, str | None]:
        """The keys of a scenario as plain data, and measured costs: one's own, or those of the scenario."""
        table: Table = as_table(load_scenario(self.scenario)) if self.scenario is not None else {}
        cost_csv = self.cost_csv or table.get("platform", {}).get("cost_csv")
        table = {key: value for key, value in table.items() if key in TRAFFIC}
        own = self.model_dump(mode="json", exclude_none=True, include=set(TRAFFIC))
        return {**table, **own}, cost_csv


def load_plan(path: str | Path, overrides: Iterable[str] = ()) -> PlanConfig:
    """Read a plan file (TOML). Raises ConfigError naming file, key path, value and what is allowed."""
    path = as_path(path, "a plan")
    return plan_from(read_table(path, "plan"), overrides, str(path), path.parent)


def plan_from(
    data: Table, overrides: Iterable[str] = (), source: str = "plan", folder: Path | None = None
) -> PlanConfig:
    """Validate a dictionary. Raises ConfigError."""
    changed = apply_overrides(data, parse_overrides(overrides))
    try:
        return PlanConfig.model_validate(changed, context={"folder": folder})
    except ValidationError as error:
        raise config_error(error, changed, source) from None
