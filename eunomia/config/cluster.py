"""A cluster experiment: devices, throughputs, jobs, simulation and what is compared, as one validated value."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from eunomia.config.complaints import config_error
from eunomia.config.load import read_table
from eunomia.config.overrides import Table, apply_overrides, flatten, parse_overrides
from eunomia.config.section import (
    FilePath,
    Name,
    NameOrFile,
    NotNegative,
    PolicyText,
    Positive,
    Section,
    Share,
    wrong,
)
from eunomia.core.data import Data
from eunomia.core.own_file import as_path

Whole = Annotated[int, Field(ge=1, le=10_000_000)]
Values = Annotated[list[Any], Field(min_length=1)]


class PeakConfig(Section):
    """What a device can do at most per second; links within a server, and between servers."""

    tflop: Positive
    dram_gb: Positive
    link_gb: Positive
    network_gb: Positive


class DeviceConfig(Section):
    """Devices of one type; the name is free."""

    type: Name
    count: Whole
    per_server: Whole | None = None  # None = all in one server
    cost_per_hour: NotNegative = 0.0
    memory_gib: Positive | None = None
    servers_per_rack: Whole | None = None
    peak: PeakConfig | None = None  # for models that nobody has measured


class WorkConfig(Section):
    """What one worker does in one step."""

    gflop: Positive
    dram_gb: NotNegative = 0.0
    gradient_gb: NotNegative = 0.0
    utilisation: Share = 0.4  # of the peak


class ModelConfig(Section):
    """A model without measurements at every size: speed with one worker, and what each doubling of workers keeps; or,
    without any measurement, its work per step, of which speeds are estimated by the devices' peaks."""

    name: Name
    speed: dict[Name, NotNegative] | None = None  # device type -> steps/s with one worker
    work: WorkConfig | None = None
    scales: list[Whole] = Field(default=[1], min_length=1)
    efficiency: Share = 0.9  # of the ideal factor 2, per doubling
    spread: Annotated[float, Field(ge=1.0)] = 1.0  # slowdown with workers on many servers

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.speed is None) == (self.work is None):
            raise wrong(f"model '{self.name}': give exactly one of: speed, work")
        return self


class ThroughputConfig(Section):
    """Where steps/s come from: Gavel's JSON, a CSV table, models written out, or speeds beside a log's run times."""

    gavel: FilePath | None = None
    csv: FilePath | None = None
    model: list[ModelConfig] = Field(default_factory=list)
    relative: dict[Name, Positive] = Field(
        default_factory=dict
    )  # type -> speed beside the others, for a log's run times
    scale_beyond: bool = False  # estimate more workers than were measured
    efficiency: Share = 0.9  # per doubling, for scale_beyond

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum([self.gavel is not None, self.csv is not None, bool(self.model), bool(self.relative)]) != 1:
            raise wrong("give exactly one of: gavel, csv, model, relative")
        return self


class TraceConfig(Section):
    """Jobs from a file; ``reference`` is the type that its run times are meant on."""

    path: FilePath
    format: NameOrFile = "auto"
    columns: dict[Name, Name] = Field(
        default_factory=dict
    )  # what is wanted -> the file's column, for any CSV
    reference: Name | None = None  # None = the first device type
    draw_models: bool = False  # rows that name no model get a random one of the throughput table
    max_jobs: Whole | None = None
    max_gpus: Whole | None = None  # jobs that ask for more are left out, and counted
    speedup: Positive = 1.0  # arrivals come this much faster


class GenerateConfig(Section):
    """Jobs by the generators of Gavel's evaluation; ``continuous`` arrivals are Poisson, ``static`` ones all at 0."""

    kind: Literal["continuous", "hours", "static"] = "continuous"
    jobs: Whole
    mean_gap_s: Positive = 1800.0
    reference: Name | None = None
    multi_gpu: bool = True
    priorities: bool = False  # weight 5 for 20 % of the jobs
    slos: bool = False  # allowed completion time 1.2, 2 or 10 times the time alone
    tenants: Whole = 1


class JobConfig(Section):
    """One job."""

    id: Name
    type: Name
    steps: Positive
    gpus: Whole = 1
    arrival_s: NotNegative = 0.0
    weight: Positive = 1.0
    tenant: str = ""
    deadline_s: Positive | None = None
    app: Name | None = None
    memory_gib: Positive | None = None
    min_gpus: Whole | None = None
    max_gpus: Whole | None = None
    traits: dict[Name, float] = Field(default_factory=dict)


class RestartConfig(Section):
    """Seconds that a move, a resize or a return after preemption costs a job."""

    save_s: NotNegative = 10.0
    load_s: NotNegative = 10.0
    warmup_s: NotNegative = 10.0
    checkpoint_interval_s: Positive | None = None


class SlowdownConfig(Section):
    """What being spread over servers costs."""

    source: Literal["table", "levels", "none"] = "table"
    rack: Annotated[float, Field(ge=1.0)] = 1.15
    cross_rack: Annotated[float, Field(ge=1.0)] = 1.4


class FailureConfig(Section):
    """Mean hours between failures; absent = never."""

    server_mtbf_h: Positive | None = None
    repair_h: Positive = 1.0
    job_mtbf_h: Positive | None = None


class EstimateConfig(Section):
    """What policies believe of throughputs."""

    kind: Literal["exact", "noisy", "online"] = "exact"
    sigma: NotNegative = 0.2
    bias: Positive = 1.0
    learning_rate: Share = 0.5
    pairs_known: Share = 1.0


class ForecastConfig(Section):
    """Expected arrivals that allocations make room for; absent = none."""

    jobs: Positive  # expected to be present beside those that are
    job_type: Name
    gpus: Whole = 1
    weight: Positive = 1.0


class SimulationConfig(Section):
    """How it is simulated; ``gavel`` sets its simulator's own rules and ignores what that one has not."""

    mode: Literal["realistic", "gavel", "ideal"] = "realistic"
    round_s: Positive = 360.0
    min_gap_s: NotNegative | None = None  # None = 0; 1920 in gavel mode
    priority: Literal["credit", "ratio"] | None = None  # None = credit; ratio in gavel mode
    stickiness: NotNegative = 1.0  # rounds of credit for staying
    queue: Literal["global", "per_type"] | None = None
    placement: Literal["pack", "strided", "spread"] | None = None
    events: Literal["round_end", "at_once"] = "round_end"
    drop_rule: bool = False
    cross_type: Literal["off", "slowest", "uneven"] = "off"
    horizon_s: Positive | None = None
    restart: RestartConfig = Field(default_factory=RestartConfig)
    slowdown: SlowdownConfig = Field(default_factory=SlowdownConfig)
    failures: FailureConfig = Field(default_factory=FailureConfig)
    estimates: EstimateConfig = Field(default_factory=EstimateConfig)
    forecast: ForecastConfig | None = None


class TunerConfig(Section):
    """Apps of several jobs are hyperparameter searches, which stop hopeless trials while they run; absent = none."""

    eta: Annotated[int, Field(ge=2, le=64)] = 2  # successive halving keeps 1/eta of the trials at each rung
    noise: NotNegative = 0.02  # standard error of a loss at the first rung, halved at each later one
    trials: Whole | None = None  # traced and generated jobs become searches of so many trials


class ClusterCompareConfig(Section):
    """Which policies, on how many seeds each (the same jobs for all)."""

    policies: list[PolicyText] = Field(default=["isolated"], min_length=1)
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 1


class ClusterConfig(Section):
    """One file, one experiment."""

    name: Name
    description: str = ""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    policy: PolicyText | None = None  # None = the first of [compare]
    measure: tuple[Annotated[int, Field(ge=0)], Whole] | None = (
        None  # first and last job by arrival; None = all
    )
    device: list[DeviceConfig] = Field(min_length=1)
    throughputs: ThroughputConfig
    trace: TraceConfig | None = None
    generate: GenerateConfig | None = None
    job: list[JobConfig] = Field(default_factory=list)
    tenant_weights: dict[str, Positive] = Field(default_factory=dict)  # for hierarchical policies
    weight_factors: dict[str, Positive] = Field(
        default_factory=dict
    )  # job id or tenant -> times its jobs' weights
    simulation: SimulationConfig = Field(default_factory=SimulationConfig)
    tuner: TunerConfig | None = None
    compare: ClusterCompareConfig = Field(default_factory=ClusterCompareConfig)
    study: dict[str, Values] = Field(default_factory=dict)  # key path -> values

    @model_validator(mode="before")
    @classmethod
    def _flat_study(cls, data: object) -> object:
        if isinstance(data, dict) and isinstance(data.get("study"), dict):
            return {**data, "study": flatten(data["study"])}
        return data

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum([self.trace is not None, self.generate is not None, bool(self.job)]) != 1:
            raise wrong("give exactly one of: [trace], [generate], [[job]]")
        if self.throughputs.relative and self.trace is None:
            raise wrong(
                "throughputs.relative belongs to the run times of a log; give [trace], or another source"
            )
        if self.measure is not None and self.measure[0] >= self.measure[1]:
            raise wrong(f"measure is {list(self.measure)}; the first job must come before the last")
        if self.tuner is not None and self.tuner.trials is not None and self.job:
            raise wrong(
                "tuner.trials makes searches of traced or generated jobs; of [[job]] entries app makes them"
            )
        if self.tuner is not None and self.simulation.mode != "realistic":
            raise wrong(
                f"[tuner] stops trials in realistic mode only; simulation.mode is '{self.simulation.mode}'"
            )
        return self


def load_cluster(path: str | Path, overrides: Iterable[str] = ()) -> ClusterConfig:
    """Read a cluster experiment (TOML); relative paths mean: beside the file. Raises ConfigError."""
    path = as_path(path, "a cluster file")
    return cluster_from(read_table(path, "cluster file"), overrides, str(path), path.parent)


def demo_cluster(overrides: Iterable[str] = ()) -> ClusterConfig:
    """The experiment of ``eunomia cluster demo``."""
    text = resources.files("eunomia").joinpath("data/cluster_demo.toml").read_text(encoding="utf-8")
    return cluster_from(tomllib.loads(text), overrides, "cluster_demo.toml")


def cluster_from(
    data: Table, overrides: Iterable[str] = (), source: str = "cluster", folder: Path | None = None
) -> ClusterConfig:
    """Validate a dictionary. ``device.v100.count=16`` finds a type by name. Raises ConfigError."""
    changed = apply_overrides(_named(data), parse_overrides(overrides))
    return _validated(changed, source, folder)


def with_cluster_values(config: ClusterConfig, values: Table) -> ClusterConfig:
    """A copy with some values changed, by key path. Raises ConfigError."""
    changed = apply_overrides(_named(cluster_table(config)), values.items())
    return _validated(changed, f"cluster '{config.name}'", None)


def cluster_table(config: ClusterConfig) -> Table:
    """The resolved experiment as plain data; keys without a value are left out."""
    table: Table = config.model_dump(mode="json", exclude_none=True)
    return table


def cluster_schema() -> Data:
    """JSON schema, for editors."""
    return json.loads(json.dumps(ClusterConfig.model_json_schema()))  # type: ignore[no-any-return]


def _validated(named: Table, source: str, folder: Path | None) -> ClusterConfig:
    try:
        return ClusterConfig.model_validate(_tuples(_unnamed(named)), context={"folder": folder})
    except ValidationError as error:
        raise config_error(error, named, source) from None


def _tuples(data: Table) -> Table:
    measure = data.get("measure")
    return {**data, "measure": tuple(measure)} if isinstance(measure, list) else data


def _named(data: Table) -> Table:
    """Entries of lists get the ``name`` by which key paths find them."""
    return {
        **data,
        **{
            key: [{"name": e.get(by), **e} if isinstance(e, dict) else e for e in data[key]]
            for key, by in (("device", "type"), ("job", "id"))
            if isinstance(data.get(key), list)
        },
    }


def _unnamed(data: Table) -> Table:
    """The opposite of ``_named``."""
    return {
        **data,
        **{
            key: [
                {k: v for k, v in e.items() if k != "name"} if isinstance(e, dict) else e for e in data[key]
            ]
            for key in ("device", "job")
            if isinstance(data.get(key), list)
        },
    }
