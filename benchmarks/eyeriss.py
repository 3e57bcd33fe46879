"""Published measurements of the Eyeriss chip, as layers and figures.

AlexNet: ``silicon/eyeriss_jssc17_alexnet.csv`` of the shared data (Chen et al., IEEE JSSC 52(1), 2017).
VGG-16: the same paper's second table as transcribed by cucapra/fodlam (``data/eyeriss-vgg16.csv``, commit
2a034503). That transcription has reading errors; latencies were checked against the printed total of
3,755.2 ms, which shows CONV2-2 to be 810.8 ms (1,110.3 there).
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass, replace
from pathlib import Path

from eunomia.workload import zoo
from eunomia.workload.model import Layer

ALEXNET_INPUT = {"CONV1": 227, "CONV2": 27, "CONV3": 13, "CONV4": 13, "CONV5": 13}

VGG16_BATCH = 3
VGG16_MS = (
    38.0,
    810.6,
    405.3,
    810.8,
    204.0,
    408.1,
    408.1,
    105.1,
    210.0,
    210.0,
    48.3,
    48.5,
    48.5,
)  # processing latency
VGG16_BUFFER_MB = (
    112.5,
    2402.8,
    1201.4,
    2402.3,
    607.4,
    1214.8,
    1214.8,
    321.3,
    643.7,
    643.7,
    90.0,
    90.0,
    90.0,
)


@dataclass(frozen=True)
class Measured:
    """One layer of the AlexNet table, for the whole batch."""

    layer: Layer
    processing_s: float
    active_pes: int
    buffer_bytes: float
    dram_bytes: float  # after run-length compression of feature maps
    zero_share: float  # of its input


def shared_root() -> Path:
    """The folder ``shared`` beside the checkout, or $EUNOMIA_SHARED."""
    named = os.environ.get("EUNOMIA_SHARED")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared"


def alexnet(path: Path | None = None) -> list[Measured]:
    """The five convolutions of AlexNet, batch 4."""
    source = path or shared_root() / "data" / "silicon" / "eyeriss_jssc17_alexnet.csv"
    with source.open(encoding="utf-8") as file:
        return [_measured(row) for row in csv.DictReader(file)]


def _measured(row: dict[str, str]) -> Measured:
    groups, per_group, filters = int(row["groups"]), int(row["C_per_group"]), int(row["K_out_channels"])
    side, kernel_h, kernel_w = ALEXNET_INPUT[row["layer"]], int(row["kernel_h"]), int(row["kernel_w"])
    layer = Layer(
        row["layer"], "conv", batch=int(row["batch"]), groups=groups, in_channels=groups * per_group,
        out_channels=filters, in_h=side, in_w=side, out_h=int(row["out_h"]), out_w=int(row["out_w"]),
        kernel_h=kernel_h, kernel_w=kernel_w, stride_h=int(row["stride"]), stride_w=int(row["stride"]),
        weight_elements=filters * per_group * kernel_h * kernel_w,
    )  # fmt: skip
    return Measured(
        layer=layer,
        processing_s=float(row["processing_latency_ms_batch"]) / 1e3,
        active_pes=int(row["active_pes"]),
        buffer_bytes=float(row["global_buffer_MB"]) * 1e6,
        dram_bytes=float(row["dram_MB_compressed"]) * 1e6,
        zero_share=float(row["ifmap_zeros_pct"]) / 100,
    )


def vgg16() -> list[Layer]:
    """The thirteen convolutions of VGG-16, batch 3."""
    return [replace(layer, batch=VGG16_BATCH) for layer in zoo.load("vgg16").layers if layer.kind == "conv"]
