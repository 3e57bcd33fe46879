"""Where a study runs: the product of a grid's lists, each place with its resolved settings."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from eunomia.config.study import GridConfig, Study, changed_study
from eunomia.core.data import Data
from eunomia.core.errors import UnknownNameError

VARIED = ("platform", "engine", "workload", "costs")  # sections that a grid may vary


@dataclass(frozen=True)
class Place:
    """One point of a grid. ``settings`` are the sections of VARIED, resolved, as plain data."""

    grid: str
    workload: str
    qos: str
    load: float
    bandwidth_gb_s: float | None  # None = the platform's own
    variation: str  # "late=run"; empty = the study's settings
    settings: Data
    requests: int

    @property
    def perturbed(self) -> bool:
        """Whether every replication has a cost table of its own."""
        return float(self.settings["costs"]["perturbation"]) > 0.0


def places_of(study: Study, grid: GridConfig) -> list[Place]:
    """The places of one grid, variations outermost, loads innermost. Raises ConfigError for an unusable variation."""
    values = [dict(zip(grid.vary, chosen, strict=True)) for chosen in itertools.product(*grid.vary.values())]
    bandwidths: list[float | None] = [*grid.bandwidth_gb_s] if grid.bandwidth_gb_s else [None]
    return [
        Place(
            grid.name,
            workload,
            qos,
            load,
            bandwidth,
            ", ".join(f"{key.rpartition('.')[2]}={_short(value)}" for key, value in change.items()),
            _settings(study, grid, change, bandwidth),
            grid.requests or study.requests,
        )
        for change in values
        for bandwidth in bandwidths
        for workload in grid.sets
        for qos in grid.qos
        for load in grid.loads
    ]


def base_settings(study: Study, bandwidth_gb_s: float | None = None) -> Data:
    """The study's own sections of VARIED, at a bandwidth: what rivals are chosen and deadlines calibrated under."""
    table = study.model_dump(mode="json", exclude_none=True)
    settings = {name: dict(table[name]) for name in VARIED}
    if bandwidth_gb_s is not None:
        settings["platform"]["dram_bandwidth_gb_s"] = bandwidth_gb_s
    return settings


def _settings(study: Study, grid: GridConfig, change: Data, bandwidth_gb_s: float | None) -> Data:
    """The base with a variation put in, checked by validating a whole study that has it."""
    for key in change:
        if key.partition(".")[0] not in VARIED:
            raise UnknownNameError(
                "section", key.partition(".")[0], VARIED, f" in vary of grid '{grid.name}'"
            )
    whole = {**study.model_dump(mode="json", exclude_none=True), **base_settings(study, bandwidth_gb_s)}
    return base_settings(changed_study(whole, change.items(), f"grid '{grid.name}', vary"))


def _short(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(
            _short(part) if key == "mode" else f"{key}={_short(part)}" for key, part in value.items()
        )
    return f"{value:g}" if isinstance(value, float) else str(value)
