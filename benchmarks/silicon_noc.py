"""The network between buffer and elements: what MobileNet takes on Eyeriss and Eyeriss v2, nothing tuned.

Published (Chen et al., JETCAS 2019, abstract): sparse MobileNet, 1470.6 inferences a second on v2, 12.6 times as many
as on the original; from recollection of its tables: dense, 1282.1; width 0.5 on 128 x 128 images, 200 MHz, 192 elements
in 16 clusters, 8 bit, 192 KB, two products a cycle and element on v2, and per cluster and cycle 3 words of inputs and
of weights, 4 of sums. The original moves one word of inputs and four of the others for the whole chip.
"""

from __future__ import annotations

from benchmarks.table import Cell, Table, table
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.types import cost_of, load_type
from eunomia.workload.model import Layer

POINTWISE = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
SPARSE, DENSE, SPEEDUP = 1470.6, 1282.1, 12.6


def mobilenet() -> list[Layer]:
    """Version 1, width 0.5, 128 x 128."""
    layers, channels, size = [_conv(3, 16, 128, 3, 2, 1)], 16, 64
    for filters, stride in POINTWISE:
        layers.append(_conv(channels, channels, size, 3, stride, channels))
        size = -(-size // stride)
        layers.append(_conv(channels, filters // 2, size, 1, 1, 1))
        channels = filters // 2
    last = Layer("fc", "matmul", in_channels=512, out_channels=1000, weight_elements=512_000)
    return [*layers, last]


def _conv(channels: int, filters: int, size: int, kernel: int, stride: int, groups: int) -> Layer:
    out = -(-size // stride)
    return Layer(
        "conv", "conv", groups=groups, in_channels=channels, out_channels=filters, in_h=size, in_w=size, out_h=out,
        out_w=out, kernel_h=kernel, kernel_w=kernel, stride_h=stride, stride_w=stride,
        weight_elements=filters * (channels // groups) * kernel**2,
    )  # fmt: skip


def noc_table() -> Table:
    """Milliseconds with each width of the buses, published ones beside."""
    chip = load_type("eyeriss-chip")
    assert isinstance(chip, AcceleratorType)
    one = chip.with_(
        array_columns=16, word_bytes=1, psum_bytes=2.5, buffer_bytes=192 * 1024, link_bytes_cycle=1e4,
        input_bus_bytes=1, weight_bus_bytes=4, psum_read_bus_bytes=10, psum_write_bus_bytes=10,
    )  # fmt: skip
    mesh = one.with_(
        input_bus_bytes=48, weight_bus_bytes=48, psum_read_bus_bytes=160, psum_write_bus_bytes=160
    )
    rows: list[list[Cell]] = []
    for what, kind, published_ms in (
        ("original, as fabricated", chip, SPEEDUP / SPARSE * 1e3),
        ("original, of v2's size", one, SPEEDUP / SPARSE * 1e3),
        ("mesh, one product", mesh, None),
        ("mesh, two products", mesh.with_(array_columns=32), 1e3 / DENSE),
    ):
        costs = [cost_of(layer, kind) for layer in mobilenet()]
        total_ms = 1e3 * sum(cost.latency_s for cost in costs)
        bound = sum(cost.buffer_s >= cost.latency_s for cost in costs)
        error = None if published_ms is None else total_ms / published_ms - 1
        rows.append([what, total_ms, published_ms, error, f"{bound} of {len(costs)}"])
    return table("noc", "buses; ms: model|.2f; published|.2f; error|+.1%; layers that a bus sets", rows)
