"""A study file as typed values: what is run, on how many requests, who is chosen how, and over which grids."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from eunomia.config.complaints import config_error
from eunomia.config.engine import EngineConfig
from eunomia.config.hardware import PlatformConfig
from eunomia.config.load import read_table
from eunomia.config.overrides import apply_overrides, flatten, parse_overrides
from eunomia.config.section import MAX_COUNT, Name, NotNegative, PolicyText, Positive, Section, Share, wrong
from eunomia.core.data import Data

Qos = Literal["h", "m", "l"]
Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Names = Annotated[list[Name], Field(min_length=1)]
Policies = Annotated[list[PolicyText], Field(min_length=1)]
Loads = Annotated[list[Positive], Field(min_length=1)]
Values = Annotated[list[Any], Field(min_length=1)]
MAX_REPLICATIONS = 1000


class StudyEngine(EngineConfig):
    """The engine's settings, and T_s in layers instead of seconds, which suits every workload alike."""

    period_layers: Positive | None = None  # T_s / mean isolated layer time of the mix; None = period_s

    @model_validator(mode="after")
    def _one_period(self) -> Self:
        if self.period_s is not None and self.period_layers is not None:
            raise wrong("period_s and period_layers both give T_s; give one of them")
        return self


class WorkloadConfig(Section):
    """One tenant per network of a published set, each with its share of the arrivals."""

    process: Literal["poisson", "bursty"] = "poisson"
    burstiness: Annotated[float, Field(ge=1.0)] = 4.0  # of bursty
    mean_burst_s: Positive = 0.1  # of bursty
    target: Share = 0.9  # hit rate that every tenant is promised; read by tenant-aware rules


class CostsConfig(Section):
    """Wrong costs on purpose: another table for every replication."""

    perturbation: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0  # latencies times U(1 - x, 1 + x)


class DeadlinesConfig(Section):
    """Deadlines are q alpha iso. ``alpha`` is given, or such that ``policy`` reaches ``hit_rate`` at QoS-M."""

    alpha: Positive | None = None
    policy: PolicyText = "edf+eft"
    load: Positive = 1.0
    hit_rate: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.7
    requests: Count = 3000


class ValidationConfig(Section):
    """Traces on which candidates are chosen; no test sees their seeds."""

    traces: Annotated[int, Field(ge=1, le=MAX_REPLICATIONS)] = 2
    requests: Count = 4000
    objective: Name = "hit_rate"


class BracketConfig(Section):
    """Short windows, from an empty platform, for the best schedule found and the bound that none can beat."""

    windows: Annotated[int, Field(ge=1, le=MAX_REPLICATIONS)] = 3
    requests: Count = 400
    evaluations: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 300
    intervals: Count = 100  # of the bound
    segments: Annotated[int, Field(ge=1, le=64)] = 1  # of the bound: 8 tighten it where deadlines are tight


class RivalConfig(Section):
    """A rule chosen on validation traces among ``candidates``, each without a gate and with each of ``gates``."""

    name: Name
    candidates: Policies
    gates: list[Positive] = Field(default_factory=list)
    objective: Name | None = None  # None = that of [validation]

    @property
    def members(self) -> list[str]:
        """All names to choose from, each once."""
        gated = [f"{name}+g{gate:g}" for name in self.candidates for gate in self.gates]
        return list(dict.fromkeys([*self.candidates, *gated]))


class ClaimConfig(Section):
    """A ratio of hit rates: ``champion`` over each of ``rivals``, over all places of each of ``grids``."""

    champion: PolicyText
    rivals: Policies
    grids: Names | None = None  # None = the first one


class GridConfig(Section):
    """Places to run at: sets x QoS x loads x bandwidths x variations. ``policies`` default to all of the study."""

    name: Name
    sets: Names
    qos: Annotated[list[Qos], Field(min_length=1)]
    loads: Loads
    bandwidth_gb_s: Loads | None = None  # None = the platform's
    vary: dict[str, Values] = Field(default_factory=dict)  # key path -> values; several keys: their product
    policies: Policies | None = None
    bracket: bool = False
    requests: Count | None = None  # None = the study's

    @model_validator(mode="before")
    @classmethod
    def _flat_vary(cls, data: object) -> object:
        if isinstance(data, dict) and isinstance(data.get("vary"), dict):
            return {**data, "vary": flatten(data["vary"])}
        return data


class Study(Section):
    """The whole protocol. Every key is described in docs/study.md."""

    name: Name
    description: str = ""
    reading: str = ""  # what the results say, in Markdown; shown with them, decides nothing
    seed: Annotated[int, Field(ge=0, le=1_000_000_000)] = 1
    replications: Annotated[int, Field(ge=2, le=MAX_REPLICATIONS)] = 5
    requests: Count = 10_000
    warmup_requests: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 1000
    platform: PlatformConfig
    engine: StudyEngine = Field(default_factory=StudyEngine)
    workload: WorkloadConfig = Field(default_factory=WorkloadConfig)
    costs: CostsConfig = Field(default_factory=CostsConfig)
    deadlines: DeadlinesConfig = Field(default_factory=DeadlinesConfig)
    validation: ValidationConfig = Field(default_factory=ValidationConfig)
    bracket: BracketConfig = Field(default_factory=BracketConfig)
    policies: Policies
    rival: list[RivalConfig] = Field(default_factory=list)
    claim: ClaimConfig | None = None
    grid: list[GridConfig] = Field(min_length=1)
    decision_repeats: Annotated[int, Field(ge=0, le=100)] = 3  # of the timing of decisions; 0 = none
    margin: NotNegative = 4.0  # further requests, in standard deviations, so that no run falls short

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for what, names in (
            ("grids", [grid.name for grid in self.grid]),
            ("policies", [*self.policies, *(rival.name for rival in self.rival)]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise wrong(f"two {what} are called '{twice[0]}'; names must differ")
        return self

    @property
    def rows(self) -> list[str]:
        """Every policy and rival, as tables show them."""
        return [*self.policies, *(rival.name for rival in self.rival)]


def read_study(path: str | Path, overrides: Iterable[str] = ()) -> Study:
    """Read a study file (TOML). ``overrides`` are ``a.b=c`` texts. Raises ConfigError.

    Names of policies and sets are checked where they are used (``experiment.study.load_study``).
    """
    path = Path(path)
    return study_from(read_table(path, "study"), overrides, str(path), path.parent)


def study_from(
    data: Data, overrides: Iterable[str] = (), source: str = "study", folder: Path | None = None
) -> Study:
    """Validate a dictionary. Raises ConfigError."""
    return changed_study(data, parse_overrides(overrides), source, folder)


def changed_study(
    data: Data, changes: Iterable[tuple[str, object]], source: str, folder: Path | None = None
) -> Study:
    """A study with some values put in place, by key path. Raises ConfigError."""
    changed = apply_overrides(data, changes)
    try:
        return Study.model_validate(changed, context={"folder": folder})
    except ValidationError as error:
        raise config_error(error, changed, source) from None
