"""Measured costs of a scenario: the CSV to fill in, and what a filled one covers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from eunomia.config import Scenario
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError
from eunomia.hardware.build import modelled_s
from eunomia.hardware.estimate import Filled, all_layers, fill
from eunomia.hardware.platform import load_platform
from eunomia.hardware.table_csv import read_entries
from eunomia.hardware.types import DeviceType, is_type, load_type, read_type, type_from_table
from eunomia.study.inference.demand import networks
from eunomia.workload.model import DnnModel, Layer

COLUMNS = ("model", "layer", "type", "latency_s", "dram_bytes", "energy_j", "what", "modelled_s")


def template_csv(scenario: Scenario, kinds: Sequence[str]) -> tuple[str, int]:
    """The text of the CSV, and its rows. ``kinds``: types to measure, any names; default: those of the platform.

    Layers of equal shape have one row, at the first of them. ``what`` describes it, ``modelled_s`` is the analytical
    model's time, where there is one; both are ignored when the file is read.
    """
    known = _kinds(scenario)
    wanted = {
        name: known.get(name) or (load_type(name) if is_type(name) else None) for name in kinds
    } or known
    models = networks(scenario)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    rows = 0
    for name, kind in wanted.items():
        model_s = modelled_s(models, kind) if kind is not None else None
        for row, model, at, layer in _distinct(models):
            told = repr(float(model_s[row])) if model_s is not None else ""
            writer.writerow([model.name, at, name, "", "", "", describe(layer), told])
            rows += 1
    return text.getvalue(), rows


def coverage(scenario: Scenario, costs: Path) -> list[Filled]:
    """What the file gives of each of its types. Raises ConfigError for no time at all."""
    models, known = networks(scenario), _kinds(scenario)
    entries = read_entries(costs, models)
    used = [n for n in range(len(entries.types)) if not np.isnan(entries.compute_s[:, n]).all()]
    if not used:
        raise ConfigError(f"{costs} holds no time for {', '.join(m.name for m in models)}; fill in latency_s")
    found = []
    for column in used:
        name = entries.types[column]
        kind = known.get(name) or (load_type(name) if is_type(name) else None)
        model_s = modelled_s(models, kind) if kind is not None else None
        found.append(fill(entries, column, all_layers(models), model_s)[1])
    return found


def coverage_data(found: Sequence[Filled]) -> Data:
    """The same as plain data."""
    return {how.type: {**asdict(how), "sentence": how.sentence()} for how in found}


def describe(layer: Layer) -> str:
    """``conv 64x56x56 -> 128x28x28, 3x3``."""
    size = (
        f"{layer.in_channels}x{layer.in_h}x{layer.in_w} -> {layer.out_channels}x{layer.out_h}x{layer.out_w}"
    )
    window = f" {layer.kernel_h}x{layer.kernel_w}" if layer.kernel_h * layer.kernel_w > 1 else ""
    batch = f" batch {layer.batch}" if layer.batch > 1 else ""
    return f"{layer.kind} {size}{window}{batch}"


def _kinds(scenario: Scenario) -> dict[str, DeviceType | None]:
    """Types of the platform by name; None = of a table of costs alone."""
    platform = scenario.platform
    if platform.preset is not None:
        return {kind.name: kind for kind in load_platform(platform.preset).kinds}
    found: dict[str, DeviceType | None] = {}
    for entry in platform.accelerators or []:
        if entry.type is not None:
            found[entry.type] = load_type(entry.type) if is_type(entry.type) else None
            continue
        own = (
            type_from_table(entry.table, "platform")
            if entry.table is not None
            else read_type(str(entry.file))
        )
        found[own.name] = own
    return found


def _distinct(models: Sequence[DnnModel]) -> list[tuple[int, DnnModel, int, Layer]]:
    """Row, model, index and layer of the first layer of each shape."""
    found: dict[tuple[object, ...], tuple[int, DnnModel, int, Layer]] = {}
    row = 0
    for model in models:
        for at, layer in enumerate(model.layers):
            found.setdefault(layer.shape_key(), (row, model, at, layer))
            row += 1
    return list(found.values())
