"""How far the cost model is from silicon. Parts: alexnet, vgg16, spread, dram-first, energy, chips, gpus,
mappers, networks.

The model's rules were chosen on AlexNet (``silicon/eyeriss_jssc17_alexnet.csv`` of the shared data; Chen et al., IEEE
JSSC 52(1), 2017), ``pass_row_words`` on VGG-16: the same paper's second table as transcribed by cucapra/fodlam
(``data/eyeriss-vgg16.csv``, commit 2a034503). That transcription has reading errors; latencies were checked against
the printed total of 3,755.2 ms, which shows CONV2-2 to be 810.8 ms (1,110.3 there).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.page import shared
from benchmarks.silicon_chips import chips_table
from benchmarks.silicon_energy import VGG16_ZEROS, energy_table
from benchmarks.silicon_gpus import gpus_table
from benchmarks.silicon_noc import noc_table
from benchmarks.silicon_spread import spread_table
from benchmarks.table import Cell, Options, Table, table
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.build import build_table
from eunomia.hardware.compression import run_length_factor
from eunomia.hardware.layer_cost import LayerCost
from eunomia.hardware.types import cost_of, load_type, type_names
from eunomia.workload import zoo
from eunomia.workload.model import Layer

ALEXNET_INPUT = {"CONV1": 227, "CONV2": 27, "CONV3": 13, "CONV4": 13, "CONV5": 13}
VGG16_BATCH = 3
_MS = "38.0 810.6 405.3 810.8 204.0 408.1 408.1 105.1 210.0 210.0 48.3 48.5 48.5"  # processing latency
_MB = "112.5 2402.8 1201.4 2402.3 607.4 1214.8 1214.8 321.3 643.7 643.7 90.0 90.0 90.0"  # through the global buffer
VGG16_MS, VGG16_BUFFER_MB = (tuple(map(float, text.split())) for text in (_MS, _MB))


@dataclass(frozen=True)
class Measured:
    """One layer of the AlexNet table, for the whole batch."""

    layer: Layer
    processing_s: float
    active_pes: int
    buffer_bytes: float
    dram_bytes: float  # after run-length compression of feature maps
    zero_share: float  # of its input


def alexnet(path: Path | None = None) -> list[Measured]:
    """The five convolutions of AlexNet, batch 4."""
    source = path or shared() / "silicon" / "eyeriss_jssc17_alexnet.csv"
    with source.open(encoding="utf-8") as file:
        return [_measured(row) for row in csv.DictReader(file)]


def _measured(row: dict[str, str]) -> Measured:
    groups, per_group, filters = (int(row[n]) for n in ("groups", "C_per_group", "K_out_channels"))
    side, stride = ALEXNET_INPUT[row["layer"]], int(row["stride"])
    shape = {name: int(row[name]) for name in ("batch", "out_h", "out_w", "kernel_h", "kernel_w")}
    shape |= {"in_channels": groups * per_group, "out_channels": filters, "in_h": side, "in_w": side}
    shape |= {"stride_h": stride, "stride_w": stride, "groups": groups}
    shape["weight_elements"] = filters * per_group * shape["kernel_h"] * shape["kernel_w"]
    layer = Layer(row["layer"], "conv", **shape)  # type: ignore[arg-type]
    moved = float(row["global_buffer_MB"]) * 1e6, float(row["dram_MB_compressed"]) * 1e6
    seconds, zeros = float(row["processing_latency_ms_batch"]) / 1e3, float(row["ifmap_zeros_pct"]) / 100
    return Measured(layer, seconds, int(row["active_pes"]), *moved, zeros)


def vgg16() -> list[Layer]:
    """The thirteen convolutions of VGG-16, batch 3."""
    return [replace(layer, batch=VGG16_BATCH) for layer in zoo.load("vgg16").layers if layer.kind == "conv"]


@dataclass(frozen=True)
class Comparison:
    """Model against silicon, one layer."""

    measured: Measured
    cost: LayerCost
    dram_bytes: float  # after estimated compression

    @property
    def seconds(self) -> float:
        """The array-and-buffer time."""
        return max(self.cost.compute_s, self.cost.buffer_s)

    @property
    def latency_error(self) -> float:
        """Relative error of the array-and-buffer time against the processing latency."""
        return self.seconds / self.measured.processing_s - 1

    @property
    def dram_error(self) -> float:
        """Relative error of compressed DRAM bytes."""
        return self.dram_bytes / self.measured.dram_bytes - 1

    @property
    def buffer_error(self) -> float:
        """Relative error of global-buffer bytes."""
        return self.cost.traffic.buffer_bytes / self.measured.buffer_bytes - 1

    def cells(self) -> list[Cell]:
        """A row."""
        m, t = self.measured, self.cost.traffic
        ms = [self.seconds * 1e3, m.processing_s * 1e3, self.latency_error, t.active_pes, m.active_pes]
        buffer = [t.buffer_bytes / 1e6, m.buffer_bytes / 1e6, self.buffer_error]
        coded = [self.dram_bytes / 1e6, m.dram_bytes / 1e6, self.dram_error]
        raw = self.cost.dram_bytes
        return [m.layer.name, *ms, *buffer, *coded, raw / 1e6, raw / m.dram_bytes - 1]


def compare_alexnet(
    kind: AcceleratorType | None = None, rows: list[Measured] | None = None
) -> list[Comparison]:
    """All five layers on the Eyeriss chip.

    Feature maps are run-length coded, weights and the first layer's input are not. The share of zeros
    of an output is taken from the next layer's input (the last layer's from its own).
    """
    chip, rows = kind or load_type("eyeriss-chip"), rows or alexnet()
    found = []
    for i, row in enumerate(rows):
        cost = cost_of(row.layer, chip)
        traffic, after = cost.traffic, rows[min(i + 1, len(rows) - 1)].zero_share
        coded = traffic.dram_input_bytes * (1.0 if i == 0 else run_length_factor(_with_padding(row)))
        coded += traffic.dram_weight_bytes + traffic.dram_output_bytes * run_length_factor(after)
        found.append(Comparison(row, cost, coded))
    return found


def _with_padding(row: Measured) -> float:
    """Share of zeros of the input, padding included."""
    layer = row.layer
    padded_h = (layer.out_h - 1) * layer.stride_h + layer.kernel_h
    padded_w = (layer.out_w - 1) * layer.stride_w + layer.kernel_w
    inside = layer.in_h * layer.in_w
    return 1 - (1 - row.zero_share) * inside / max(padded_h * padded_w, inside)


def alexnet_table() -> Table:
    """Per-layer errors on AlexNet."""
    found = compare_alexnet()
    rows = [c.cells() for c in found]
    last: list[Cell] = ["mean abs.", *[None] * (len(rows[0]) - 1)]
    for n in (3, 8, 11, 13):  # the columns of errors
        last[n] = float(np.mean([abs(row[n]) for row in rows]))  # type: ignore[arg-type]
    rows.append(last)
    columns = (
        "layer; ms: model|.1f; chip|.1f; error|+.1%; PEs: model; chip; buffer MB: model|.1f; chip|.1f; error|+.1%; "
        "DRAM MB: model, coded|.2f; chip, coded|.1f; error|+.1%; model, raw|.2f; error|+.1%"
    )
    return table("alexnet", columns, rows)


def eyeriss_errors(kind: AcceleratorType) -> tuple[float, float]:
    """Mean absolute latency errors on AlexNet and VGG-16."""
    alexnet_s = [c.latency_error for c in compare_alexnet(kind, _rows())]
    costs = [cost_of(layer, kind) for layer in vgg16()]
    vgg16_s = [max(c.compute_s, c.buffer_s) * 1e3 / ms - 1 for c, ms in zip(costs, VGG16_MS, strict=True)]
    return float(np.mean(np.abs(alexnet_s))), float(np.mean(np.abs(vgg16_s)))


@cache
def _rows() -> list[Measured]:
    return alexnet()


def _chip(**changes: object) -> AcceleratorType:
    kind = load_type("eyeriss-chip")
    assert isinstance(kind, AcceleratorType)
    return kind.with_(**changes)


def vgg16_table() -> Table:
    """Per-layer errors on VGG-16."""
    rows: list[list[Cell]] = []
    errors, total = [], 0.0
    for layer, chip_ms, chip_mb in zip(vgg16(), VGG16_MS, VGG16_BUFFER_MB, strict=True):
        cost = cost_of(layer, load_type("eyeriss-chip"))
        ms, traffic = max(cost.compute_s, cost.buffer_s) * 1e3, cost.traffic
        errors.append(abs(ms / chip_ms - 1))
        total += ms
        moved = [traffic.active_pes, traffic.buffer_bytes / 1e6, chip_mb, cost.dram_bytes / 1e6]
        rows.append([layer.name, ms, chip_ms, ms / chip_ms - 1, *moved])
    rows.append(["all", round(total), round(sum(VGG16_MS)), total / sum(VGG16_MS) - 1, *[None] * 4])
    rows.append(["mean abs.", None, None, float(np.mean(errors)), *[None] * 4])
    columns = "layer; ms: model|.1f; chip|.1f; error|+.1%; PEs; buffer MB: model|.0f; chip|.0f; DRAM MB: model, raw|.1f"
    return table("vgg16", columns, rows)


def networks_table(types: tuple[str, ...] = ("simba", "eyeriss")) -> Table:
    """Isolated latency, demand and energy of every network of the zoo."""
    models = [zoo.load(name) for name in zoo.names()]
    costs = build_table(models, [load_type(name) for name in types], use_cache=False)
    rows: list[list[Cell]] = []
    for i, model in enumerate(models):
        mine = slice(costs.offsets[i], costs.offsets[i + 1])
        parts = (costs.latency_s, costs.dram_bytes, costs.energy_j)
        rows.append([model.name, model.macs / 1e9])
        for s, b, e in zip(*(part[mine].sum(axis=0).tolist() for part in parts), strict=True):
            rows[-1] += [s * 1e3, b / s / 1e9, e * 1e3]
    columns = "".join(f"; {t}: ms|.2f; GB/s|.1f; mJ|.1f" for t in types)
    return table("networks", f"network; GMAC|.2f{columns}", rows)


def mappers_table() -> Table:
    """What the mapper of least latency changes, per type."""
    models = [zoo.load(name) for name in zoo.names()]
    rows: list[list[Cell]] = []
    for name in type_names():
        kind = load_type(name)
        if not isinstance(kind, AcceleratorType):
            continue
        both = [kind.with_(mapper=mapper) for mapper in ("least_dram", "least_latency")]
        tables = [build_table(models, [one], use_cache=False) for one in both]
        sums = [[np.add.reduceat(part, costs.offsets[:-1]) for part in (costs.latency_s[:, 0], costs.dram_bytes[:, 0])]
                for costs in tables]  # fmt: skip
        latency, dram = (after / before - 1 for before, after in zip(*sums, strict=True))
        least, most = int(np.argmin(latency)), int(np.argmax(dram))
        rows.append([name, float(latency.mean()), float(latency[least]), models[least].name,
                     float(dram.mean()), float(dram[most]), models[most].name])  # fmt: skip
    columns = "type; latency: mean|+.1%; least|+.1%; on; DRAM bytes: mean|+.1%; most|+.1%; on"
    return table("mappers", columns, rows)


def eyeriss_energy() -> Table:
    """Joules per layer of both networks."""
    alexnet_rows = [(c.measured.layer.name, c.cost, c.measured.zero_share) for c in compare_alexnet()]
    found = [(layer.name, cost_of(layer, _chip())) for layer in vgg16()]
    vgg16_rows = [(*pair, zeros) for pair, zeros in zip(found, VGG16_ZEROS, strict=True)]
    return energy_table({"AlexNet": alexnet_rows, "VGG-16": vgg16_rows})


PARTS = {
    "alexnet": alexnet_table,
    "vgg16": vgg16_table,
    "spread": lambda: spread_table("spread", _chip(), eyeriss_errors),
    "dram-first": lambda: spread_table(
        "dram-first", _chip(mapper="least_dram", pass_row_words=0), eyeriss_errors
    ),
    "energy": eyeriss_energy,
    "chips": chips_table,
    "noc": noc_table,
    "gpus": gpus_table,
    "mappers": mappers_table,
    "networks": networks_table,
}
SLOW = ("spread", "dram-first", "mappers", "networks")


def measure(options: Options) -> Iterator[Table]:
    """All tables; the quick run leaves the slow ones out."""
    for key in options.chosen(PARTS):
        if not (options.quick and key in SLOW):
            yield PARTS[key]()
