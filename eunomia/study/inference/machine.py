"""From a scenario's platform to accelerators and their costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt

from eunomia.config.hardware import PlatformConfig
from eunomia.contract.contention import CONTENTION
from eunomia.contract.contention.slowdowns import Slowdowns
from eunomia.core.arrays import Floats
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.hardware.build import build_table, columns_of, modelled_s, origin_of
from eunomia.hardware.cache import COLUMNS
from eunomia.hardware.entries import Entries
from eunomia.hardware.estimate import Filled, all_layers, fill
from eunomia.hardware.fusion import fused
from eunomia.hardware.gpu import GpuType
from eunomia.hardware.measured import measured_of
from eunomia.hardware.memory import check_shared, needed_gb
from eunomia.hardware.platform import Platform, from_config, load_platform, platform_names
from eunomia.hardware.table import CostTable
from eunomia.hardware.table_csv import read_entries
from eunomia.hardware.types import DeviceType, is_type, load_type, type_names
from eunomia.study.inference.slowdowns import build_slowdowns
from eunomia.workload.model import DnnModel


@dataclass(frozen=True)
class Machine:
    """What the engine needs of a platform, and the cost of every layer on its types."""

    types: tuple[str, ...]
    type_of: npt.NDArray[np.int64]  # (S,) index into types
    dram_bytes_s: float
    contention: str
    table: CostTable
    filled: tuple[Filled, ...] = ()  # of types with measured costs: what was given, how gaps were filled
    slowdowns: Slowdowns | None = None  # by network, where contention is measured
    told: tuple[str, ...] = ()  # of these slowdowns: what is estimated, or noisy
    word_bytes: float = 1.0  # the least of all types: what a weight takes in their memory
    assumed: tuple[str, ...] = ()  # where a type's costs or a word's size are not given
    unsized: tuple[str, ...] = ()  # types of which costs alone are given: nobody knows what a word takes


def build_machine(config: PlatformConfig, models: Sequence[DnnModel]) -> Machine:
    """The platform with its costs: from ``cost_csv`` for types that it names, from the model (kept on disk) for others.

    With ``fusion``, networks have chains of layers as one: those of the table. Raises UnknownNameError for an unknown
    type or preset, PlatformError for hardware that cannot run a layer or hold the networks. Raises TraceError for a CSV
    cell that cannot be read, ConfigError for slowdowns that are missing.
    """
    machine = _costed(config, models)
    if config.slowdowns is None or CONTENTION[machine.contention].beside is None:
        return machine
    found = build_slowdowns(config.slowdowns, [model.name for model in models])
    return replace(machine, slowdowns=found.slowdowns, told=found.told)


def _costed(config: PlatformConfig, models: Sequence[DnnModel]) -> Machine:
    if config.cost_csv is not None:
        return _mixed(config, read_entries(config.cost_csv, models))
    own = {"cost_csv", "slowdowns", "memory_gb", "fusion"}
    platform = from_config(config.model_dump(exclude_none=True, exclude=own), "platform")
    word_bytes = min(kind.word_bytes for kind in platform.kinds)
    check_shared(models, word_bytes, config.memory_gb, "platform.memory_gb")
    if config.fusion is not None:
        models = [fused(model, platform.kinds, config.fusion) for model in models]
    table = build_table(models, platform)
    return Machine(
        platform.types,
        platform.type_of,
        platform.dram_bytes_s,
        platform.contention,
        table,
        word_bytes=word_bytes,
        assumed=unmeasured(models, platform.kinds),
    )


def _mixed(config: PlatformConfig, entries: Entries) -> Machine:
    """Types that the file names take its costs, with gaps estimated; all others are modelled."""
    names, modelled = _accelerators(config, entries)
    types = tuple(dict.fromkeys(names))
    unsized = [name for name in types if name not in modelled]
    word_bytes = 1.0 if unsized else min(kind.word_bytes for kind in modelled.values())
    check_shared(entries.models, word_bytes, config.memory_gb, "platform.memory_gb")
    costs, filled = [], []
    for name in types:
        at = entries.types.index(name) if name in entries.types else -1
        kind = modelled.get(name)
        if kind is not None and (at < 0 or np.isnan(entries.compute_s[:, at]).all()):
            costs.append(
                (columns_of(entries.models, [kind]), kind.link_bytes_s, origin_of(kind, entries.models))
            )
            continue
        column, how = fill(entries, at, all_layers(entries.models), _modelled_s(entries, at, kind))
        note = f" ({how.estimated} of {len(entries.compute_s)} estimated)" if how.estimated else ""
        columns = {key: values[:, None] for key, values in column.items()}
        costs.append((columns, float(entries.link_bytes_s[at]), entries.origin[at] + note))
        filled.append(how)
    table = CostTable(
        models=entries.models,
        types=types,
        **{key: np.hstack([column[key] for column, _, _ in costs]) for key in COLUMNS},
        link_bytes_s=np.array([link for _, link, _ in costs]),
        origin=tuple(origin for _, _, origin in costs),
        size_of=(),
    )
    preset = load_platform(config.preset) if config.preset is not None else None
    shared = preset.dram_bytes_s if preset is not None else math.nan
    bandwidth = shared if config.dram_bandwidth_gb_s is None else config.dram_bandwidth_gb_s * 1e9
    contention = config.contention or (preset.contention if preset is not None else "proportional")
    type_of = np.array([types.index(name) for name in names], np.int64)
    assumed = unmeasured(entries.models, [modelled[name] for name in types if name in modelled])
    if unsized and config.memory_gb is not None:
        assumed += (one_byte(unsized, entries.models, f"platform.memory_gb is {config.memory_gb:g}"),)
    return Machine(
        types,
        type_of,
        bandwidth,
        contention,
        table,
        tuple(filled),
        word_bytes=word_bytes,
        assumed=assumed,
        unsized=tuple(unsized),
    )


def one_byte(unsized: Sequence[str], models: Sequence[DnnModel], memory: str) -> str:
    """That the size of a word is not known where costs alone are given; ``memory``: what is said of its size."""
    need, wide = (needed_gb(models, word_bytes) for word_bytes in (1.0, 2.0))
    return (
        f"{memory}: {', '.join(unsized)} of cost_csv ha{'ve' if len(unsized) > 1 else 's'} "
        f"no word size, so a weight counts as one byte; the networks need {need:.3g} GB, at 2 bytes {wide:.3g}"
    )


def unmeasured(models: Sequence[DnnModel], kinds: Sequence[DeviceType]) -> tuple[str, ...]:
    """Of types with published times: the networks for which there are none."""
    found = [
        (kind.name, measured_of(models, kind)[1])
        for kind in kinds
        if isinstance(kind, GpuType) and kind.measured
    ]
    return tuple(
        f"type '{name}': no times of {', '.join(others)} are published; its costs are the plain roofline's"
        for name, others in found
        if others
    )


def _accelerators(config: PlatformConfig, entries: Entries) -> tuple[list[str], dict[str, DeviceType]]:
    """Type of every accelerator, and those types that can be modelled."""
    if config.preset is not None:
        kinds = from_config({"preset": config.preset, "mapper": config.mapper}).accelerators
        return [kind.name for kind, count in kinds for _ in range(count)], {
            kind.name: kind for kind, _ in kinds
        }
    names: list[str] = []
    modelled: dict[str, DeviceType] = {}
    for entry in config.accelerators or []:
        if entry.type is not None and not is_type(entry.type):
            if entry.type not in entries.types:
                known = [*entries.types, *type_names()]
                where = f", neither a known type nor in {config.cost_csv}"
                raise UnknownNameError("accelerator type", entry.type, known, where)
            names += [entry.type] * entry.count
            continue
        asked = {"accelerators": [entry.model_dump(exclude_none=True)], "dram_bandwidth_gb_s": 1.0}
        kind = from_config({**asked, "mapper": config.mapper}, "platform").kinds[0]
        if modelled.setdefault(kind.name, kind) != kind:
            raise ConfigError(f"platform.accelerators: two different types are both called '{kind.name}'")
        names += [kind.name] * entry.count
    return names, modelled


def _modelled_s(entries: Entries, column: int, kind: DeviceType | None) -> Floats | None:
    """What the model says of a type whose costs have gaps; None where there is no model, or no gap."""
    if kind is None or not np.isnan(entries.compute_s[:, column]).any():
        return None
    return modelled_s(entries.models, kind)


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
