"""Chips that the cost model was not fixed on: published totals against the model, nothing tuned.

* NVDLA: seven configurations, ResNet-50, its designers' estimates (nvdla.org, primer, example area and performance;
  shapes of the array: nvdla/hw, spec/defs; 16 x 8 and 8 x 4 assumed for the two smallest but one).
* Jetson AGX Orin, both DLAs, measured (NVIDIA/Deep-Learning-Accelerator-SW, README: dense, JetPack 5.1.1). Clock from
  the published peak of each power mode at 8,192 products; 1 MiB (its FAQ); array and half of the DRAM each assumed.
* TPU, measured (Jouppi et al., ISCA 2017, tables 1 to 3): networks of fully connected layers, taken as equal squares.
* Simba, 36 chiplets, measured with all weights in the elements (MICRO and VLSI 2019, abstracts): the type ``simba-36``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import Cell, Table, table
from eunomia.hardware.accelerator import AcceleratorType, Sizes, sized_energy
from eunomia.hardware.types import cost_of, load_type
from eunomia.workload import zoo
from eunomia.workload.build import NetworkBuilder, Tensor
from eunomia.workload.model import Layer
from eunomia.workload.zoo.resnet import basic_block, stage, stem

PUBLISHED: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
TPU_BUSY_W = 40.0


@dataclass(frozen=True)
class Case:
    """A chip, what runs on it, and the published time; ``watts`` where they are published, DRAM not included."""

    chip: str
    what: str
    kind: AcceleratorType
    layers: tuple[Layer, ...]
    seconds: float  # for one run of the layers
    watts: float | None = None

    def modelled(self) -> tuple[float, float]:
        """Seconds and joules, DRAM not included."""
        costs = [cost_of(layer, self.kind) for layer in self.layers]
        chip_j = sum(cost.energy_j - cost.energy_split_j["dram"] for cost in costs)
        return sum(cost.latency_s for cost in costs), chip_j


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _nvdla()
    yield from _orin()
    yield from _tpu()
    yield from _simba()


def _base(name: str) -> AcceleratorType:
    kind = load_type(name)
    assert isinstance(kind, AcceleratorType)
    return kind.with_(mapper="least_latency")


def _nvdla() -> Iterator[Case]:
    layers = zoo.load("resnet50").layers
    for macs, (channels, filters, kilobytes, gb_s, area, frames, milliwatts) in PUBLISHED["NVDLA"].items():
        kind = _base("nvdla-like").with_(
            lanes_in=channels, lanes_out=filters, buffer_bytes=kilobytes * 1024, link_bytes_cycle=gb_s,
            folds_images=True,
        )  # fmt: skip
        kind = kind.with_(energy=sized_energy(kind, Sizes(16, area, "ddr4")))
        yield Case("NVDLA", f"{macs} MACs, ResNet-50", kind, layers, 1 / frames, milliwatts / 1e3)


def _orin() -> Iterator[Case]:
    nets = [
        tuple(layer.with_batch(2) for layer in zoo.load("resnet50").layers),
        zoo.load("ssd-resnet34").layers,
        _backbone(),
    ]
    for mode, (tops, *rates) in PUBLISHED["ORIN"].items():
        clock_hz = tops / 2 / 2 * 1e12 / 2 / 8192
        shared = 102.4e9 if mode != "15 W" else 68.2e9
        kind = _base("orin-dla").with_(clock_hz=clock_hz, link_bytes_cycle=shared / clock_hz)
        for name, layers, rate in zip(("ResNet-50", "SSD-ResNet-34", "ResNet-34"), nets, rates, strict=True):
            yield Case("Orin DLA", f"{mode}, {name}", kind, layers, layers[0].batch * 2 / rate)


def _backbone() -> tuple[Layer, ...]:
    net = NetworkBuilder("resnet34", "backbone of 1280 x 768")
    x = stem(net, Tensor(3, 768, 1280))
    for number, repeats in enumerate((3, 4, 6, 3), 1):
        x = stage(net, number, x, basic_block, repeats, 1 if number == 1 else 2)
    return net.build().layers


def _tpu() -> Iterator[Case]:
    for name, (count, millions, batch, tops) in PUBLISHED["TPU"].items():
        width = round((millions * 1e6 / count) ** 0.5)
        one = Layer("fc", "matmul", in_channels=width, out_channels=width, weight_elements=width**2)
        layers = (one.with_batch(batch),) * count
        seconds = 2 * sum(x.macs for x in layers) / tops / 1e12
        yield Case("TPU", name, _base("tpu-v1"), layers, seconds, TPU_BUSY_W)


def _simba() -> Iterator[Case]:
    kind = _base("simba-36").with_(weight_compression=1e-12)
    for where, rate in PUBLISHED["SIMBA"].items():
        yield Case("Simba", f"36 chiplets, ResNet-50, {where}", kind, zoo.load("resnet50").layers, 1 / rate)


def chips_table() -> Table:
    """Each case, then the means of each chip."""
    rows: list[list[Cell]] = []
    errors: dict[str, list[tuple[float, float]]] = {}
    for case in cases():
        seconds, joules = case.modelled()
        time = seconds / case.seconds
        energy = joules / (case.watts * case.seconds) if case.watts else None
        errors.setdefault(case.chip, []).append((time, energy or float("nan")))
        watts = [joules / seconds, case.watts] if case.watts else [None, None]
        rows.append([case.chip, case.what, seconds * 1e3, case.seconds * 1e3, time - 1, *watts, energy])
    for chip, pairs in errors.items():
        times, energies = (np.array(column) for column in zip(*pairs, strict=True))
        spread = None if np.isnan(energies).any() else float(np.exp(np.mean(np.abs(np.log(energies)))))
        rows.append(
            [chip, "mean abs.; factor", None, None, float(np.mean(np.abs(times - 1))), None, None, spread]
        )
    return table(
        "chips", "chip; what; ms: model|.2f; published|.2f; error|+.1%; W: model|.3f; published|.3f; "
        "energy, model / published|.2f", rows,
    )  # fmt: skip
