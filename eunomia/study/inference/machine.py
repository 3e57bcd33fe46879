"""From a scenario's platform to accelerators and their costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from eunomia.config.hardware import PlatformConfig
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.hardware.build import build_table
from eunomia.hardware.platform import Platform, from_config, load_platform, platform_names
from eunomia.hardware.table import CostTable
from eunomia.hardware.table_csv import read_cost_csv
from eunomia.hardware.types import DeviceType, load_type, type_names
from eunomia.workload.model import DnnModel


@dataclass(frozen=True)
class Machine:
    """What the engine needs of a platform, and the cost of every layer on its types."""

    types: tuple[str, ...]
    type_of: npt.NDArray[np.int64]  # (S,) index into types
    dram_bytes_s: float
    contention: str
    table: CostTable


def build_machine(config: PlatformConfig, models: Sequence[DnnModel]) -> Machine:
    """The platform with its costs, from the model (kept on disk) or from ``cost_csv``.

    Raises UnknownNameError for an unknown type or preset, PlatformError for hardware that cannot run a layer,
    TraceError for a CSV cell that cannot be read.
    """
    if config.cost_csv is not None:
        return _measured(config, read_cost_csv(config.cost_csv, models))
    platform = from_config(config.model_dump(exclude_none=True, exclude={"cost_csv"}), "platform")
    table = build_table(models, platform)
    return Machine(platform.types, platform.type_of, platform.dram_bytes_s, platform.contention, table)


def _measured(config: PlatformConfig, table: CostTable) -> Machine:
    """Types by the names that the CSV file gives them; they need no data file."""
    if config.preset is not None or config.dram_bandwidth_gb_s is None:
        raise ConfigError(
            "platform.cost_csv needs accelerators by the types of the file, and dram_bandwidth_gb_s"
        )
    names: list[str] = []
    for entry in config.accelerators or []:
        if entry.type is None or entry.type not in table.types:
            raise UnknownNameError(f"accelerator type in {config.cost_csv}", str(entry.type), table.types)
        names += [entry.type] * entry.count
    types = tuple(dict.fromkeys(names))
    type_of = np.array([types.index(name) for name in names], np.int64)
    contention = config.contention or "proportional"
    return Machine(types, type_of, config.dram_bandwidth_gb_s * 1e9, contention, table)


def type_facts() -> dict[str, Data]:
    """Every accelerator type by name, as plain data."""
    return {name: _plain(load_type(name)) for name in type_names()}


def platform_facts() -> dict[str, Data]:
    """Every platform preset by name, as plain data."""
    return {name: _platform_facts(load_platform(name)) for name in platform_names()}


def _platform_facts(platform: Platform) -> Data:
    return {
        "accelerators": ", ".join(f"{count} x {kind.name}" for kind, count in platform.accelerators),
        "dram_bandwidth_gb_s": platform.dram_bytes_s / 1e9,
        "contention": platform.contention,
        "description": platform.description,
    }


def _plain(kind: DeviceType) -> Data:
    facts = asdict(kind)
    first = {key: facts.pop(key) for key in ("name", "description")}
    return {**first, **facts}
