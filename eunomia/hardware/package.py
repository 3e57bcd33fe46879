"""Several chips that work on one layer together: a fourth roof, the links between them.

A layer is cut into parts of filters, channels, output rows and groups, one part per chip::

    in    = inputs of the part + its weights + (b - 1) / b of its partial sums    where b chips share the channels
    out   = outputs of the part / b + the same partial sums
    links = max(in, out) / link bandwidth
    hops  = 2 (ceil(sqrt(chips used)) - 1) x time of a hop x (2, or 3 with partial sums)

Data that several chips need is sent once (multicast), DRAM sees every byte once. ``hops``: from corner to corner of a
square mesh, before the first product, for the sums, and after the last. One chip uses no links. The cut is that of
least latency; a package with more chips, wider or faster links is never slower.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from eunomia.core.errors import PlatformError
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.declared import Package
from eunomia.hardware.layer_cost import LayerCost
from eunomia.workload.model import Layer

PARTS = (
    1,
    2,
    3,
    4,
    6,
    8,
    9,
    12,
    16,
    18,
    24,
    32,
    36,
    48,
    64,
    96,
    128,
    256,
)  # that a dimension may be cut into
CostOf = Callable[[Layer, AcceleratorType], LayerCost]


@dataclass(frozen=True)
class Cut:
    """Parts of a layer's filters, channels, rows, and of its groups and batch."""

    filters: int = 1
    channels: int = 1
    rows: int = 1
    groups: int = 1
    batch: int = 1

    @property
    def chips(self) -> int:
        """How many work."""
        return self.filters * self.channels * self.rows * self.groups * self.batch


def package_cost(layer: Layer, kind: AcceleratorType, cost_of: CostOf) -> LayerCost:
    """The layer on the best cut; ``cost_of``: of a part on one chip. Raises PlatformError where none fits."""
    assert kind.package is not None
    chip = kind.with_(package=None)
    every = list(cuts(layer, kind.package.chips))
    bounds = [(_least_s(layer, cut, chip, kind.package), cut.chips, n) for n, cut in enumerate(every)]
    best: tuple[float, float, int, LayerCost] | None = None
    failure: PlatformError | None = None
    for least_s, used, n in sorted(bounds):
        if best is not None and least_s >= best[0]:
            break
        try:
            found = _joined(layer, every[n], cost_of(part_of(layer, every[n]), chip), kind)
        except PlatformError as error:
            failure = error
            continue
        key = (found.latency_s, found.dram_bytes, used)
        if best is None or key < best[:3]:
            best = (*key, found)
    if best is None:
        raise failure or PlatformError(f"layer '{layer.name}' does not fit on any chip of '{kind.name}'")
    return best[3]


def cuts(layer: Layer, chips: int) -> Iterator[Cut]:
    """Every way to use at most so many chips without an empty part."""
    own_k, own_c = layer.out_channels // layer.groups, layer.in_channels // layer.groups
    spans = (own_k, own_c, layer.out_h, layer.groups, layer.batch)
    if not layer.has_macs:
        spans = (1, 1, layer.out_h * layer.out_w * layer.out_channels * layer.batch, 1, 1)
    options = [[p for p in PARTS if p <= min(span, chips)] for span in spans]
    for parts in itertools.product(*options):
        cut = Cut(*parts)
        if cut.chips <= chips:
            yield cut


def part_of(layer: Layer, cut: Cut) -> Layer:
    """The largest part: what one chip does."""
    if not layer.has_macs:
        share = cut.rows
        return replace(
            layer,
            out_channels=1,
            out_w=1,
            in_channels=1,
            in_w=1,
            batch=1,
            groups=1,
            in_h=-(-layer.input_elements // share),
            out_h=-(-layer.output_elements // share),
            weight_elements=-(-layer.weight_elements // share),
            operand_elements=-(-layer.operand_elements // share),
            ops=-(-layer.ops // share),
        )
    groups, batch, rows = (
        -(-whole // parts)
        for whole, parts in ((layer.groups, cut.groups), (layer.batch, cut.batch), (layer.out_h, cut.rows))
    )
    own_k = -(-(layer.out_channels // layer.groups) // cut.filters)
    own_c = -(-(layer.in_channels // layer.groups) // cut.channels)
    span = (layer.kernel_h - 1) * layer.dilation_h + 1
    high = layer.in_h if cut.rows == 1 else min(layer.in_h, (rows - 1) * layer.stride_h + span)
    stored = cut.filters * cut.channels * cut.groups
    across = cut.channels if layer.weight_elements == 0 else cut.rows  # a second factor, or more activations
    shared = cut.batch * cut.groups * cut.filters * across
    return replace(
        layer,
        groups=groups,
        batch=batch,
        in_channels=own_c * groups,
        out_channels=own_k * groups,
        in_h=max(1, high),
        out_h=rows,
        weight_elements=-(-layer.weight_elements // stored),
        operand_elements=-(-layer.operand_elements // shared),
    )


def _link_bytes(part: Layer, cut: Cut, chip: AcceleratorType) -> tuple[float, float]:
    """Bytes into and out of a chip."""
    if cut.chips == 1:
        return 0.0, 0.0
    sums = part.output_elements * chip.psum_bytes * (1.0 - 1.0 / cut.channels)
    read = part.input_elements + part.operand_elements + part.weight_elements
    return read * chip.word_bytes + sums, part.output_elements * chip.word_bytes / cut.channels + sums


def _wait_s(cut: Cut, package: Package) -> float:
    """Hops from corner to corner of the mesh, each time that chips wait for each other."""
    if cut.chips == 1:
        return 0.0
    side = next(n for n in itertools.count(1) if n * n >= cut.chips)
    return 2 * (side - 1) * package.hop_s * (3 if cut.channels > 1 else 2)


def _links_s(part: Layer, cut: Cut, chip: AcceleratorType, package: Package) -> float:
    return max(_link_bytes(part, cut, chip)) / (package.link_gb_s * 1e9)


def _least_s(layer: Layer, cut: Cut, chip: AcceleratorType, package: Package) -> float:
    """No mapping of this cut is faster."""
    part = part_of(layer, cut)
    busy_s = part.macs / chip.macs_cycle / chip.clock_hz
    least_s = max(busy_s, _links_s(part, cut, chip, package)) + _wait_s(cut, package)
    return max(least_s, _compulsory_bytes(layer, chip) / chip.link_bytes_s)


def _copies(layer: Layer, cut: Cut) -> tuple[int, int, int]:
    """Unlike parts of inputs, of weights and of outputs; chips with the same part get it by multicast."""
    if not layer.has_macs:
        return cut.rows, cut.rows, cut.rows
    over = cut.rows * cut.groups * cut.batch
    stored = cut.filters * cut.channels * cut.groups * (cut.batch if layer.weight_elements == 0 else 1)
    return over * cut.channels, stored, over * cut.filters


def _compulsory_bytes(layer: Layer, chip: AcceleratorType) -> float:
    """Inputs, weights and outputs once; further operands are left to the mapping."""
    words = layer.input_elements * chip.input_compression + layer.output_elements * chip.output_compression
    if layer.has_macs:
        words += layer.weight_elements * chip.weight_compression
    return words * chip.word_bytes


def _joined(layer: Layer, cut: Cut, one: LayerCost, kind: AcceleratorType) -> LayerCost:
    """All parts together, from the cost of the largest."""
    package, used, traffic = kind.package, cut.chips, one.traffic
    assert package is not None
    chip = kind.with_(package=None)
    part = part_of(layer, cut)
    wait_s = _wait_s(cut, package)
    inputs, weights, outputs = _copies(layer, cut)
    least = layer.input_elements * chip.word_bytes * chip.input_compression  # halos of rows come on top
    moved = replace(
        traffic,
        dram_input_bytes=max(least, traffic.dram_input_bytes * inputs),
        dram_weight_bytes=traffic.dram_weight_bytes * weights,
        dram_output_bytes=traffic.dram_output_bytes * outputs,
        active_pes=traffic.active_pes * used,
        macs=layer.macs,
        mapping={**traffic.mapping, "chips": used, "chips_over_k": cut.filters, "chips_over_c": cut.channels},
    )
    compute_s = one.compute_s + wait_s
    buffer_s = max(one.buffer_s, _links_s(part, cut, chip, package)) + wait_s
    latency_s = max(compute_s, buffer_s, moved.dram_bytes / kind.link_bytes_s)
    split = {level: joules * used for level, joules in one.energy_split_j.items()}
    split["dram"] = moved.dram_bytes * kind.energy.dram_pj_byte * 1e-12
    split["links"] = _link_bytes(part, cut, chip)[0] * used * package.link_pj_byte * 1e-12
    split["static"] = latency_s * kind.energy.static_w * package.chips
    return LayerCost(compute_s, buffer_s, moved.dram_bytes, kind.link_bytes_s, split, moved)
