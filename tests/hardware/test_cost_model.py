"""The analytical model: hand-worked layers, invariants, and figures of other tools as bands."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.core.errors import PlatformError
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.dataflow import layer_cost
from eunomia.hardware.types import load_type
from eunomia.hardware.vector import simple_elements
from eunomia.workload import zoo
from eunomia.workload.model import Layer
from tests.effort import lines_of

NPUS = (
    "simba",
    "eyeriss",
    "simba-chiplet",
    "eyeriss-chip",
    "nvdla-like",
    "systolic",
    "moham-simba",
    "moham-eyeriss",
)


def npu(name: str) -> AcceleratorType:
    kind = load_type(name)
    assert isinstance(kind, AcceleratorType)
    return kind


def conv(
    c: int, k: int, side: int, kernel: int = 3, *, stride: int = 1, groups: int = 1, batch: int = 1
) -> Layer:
    """A square convolution with padding kernel // 2; ``side`` is that of the output."""
    return Layer(
        "conv", "conv", batch=batch, groups=groups, in_channels=c, out_channels=k,
        in_h=side * stride, in_w=side * stride, out_h=side, out_w=side, kernel_h=kernel, kernel_w=kernel,
        stride_h=stride, stride_w=stride, weight_elements=k * (c // groups) * kernel * kernel,
    )  # fmt: skip


@st.composite
def layers(draw: st.DrawFn) -> Layer:
    """Any layer with MACs: non-square, strided, dilated, grouped, batched; or a product of two activations."""
    size = st.integers(1, 40)
    groups = draw(st.sampled_from([1, 1, 2, 3, 16]))
    c, k = (groups * draw(st.integers(1, 70)) for _ in range(2))
    batch, out_h, out_w = draw(st.integers(1, 5)), draw(size), draw(size)
    if draw(st.booleans()):
        return Layer(
            "product", "matmul", batch=batch, in_channels=c, out_channels=k, in_h=out_h, out_h=out_h,
            operand_elements=batch * c * k,
        )  # fmt: skip
    r, s, u, v, d = (draw(st.integers(1, 7)) for _ in range(5))
    dilation = 1 + d % 2
    in_h, in_w = (max(1, (n - 1) * t + (m - 1) * dilation - 1) for n, m, t in ((out_h, r, u), (out_w, s, v)))
    return Layer(
        "conv", "conv", batch=batch, groups=groups, in_channels=c, out_channels=k, in_h=in_h, in_w=in_w, out_h=out_h,
        out_w=out_w, kernel_h=r, kernel_w=s, stride_h=u, stride_w=v, dilation_h=dilation, dilation_w=dilation,
        weight_elements=k * (c // groups) * r * s,
    )  # fmt: skip


def compulsory_bytes(layer: Layer, kind: AcceleratorType) -> float:
    """Each tensor once."""
    elements = layer.input_elements + layer.weight_elements + layer.operand_elements + layer.output_elements
    return elements * kind.word_bytes


# Hand-worked cases


def test_full_array_runs_at_its_peak() -> None:
    cost = layer_cost(conv(128, 128, 28), npu("simba"))
    assert cost.traffic.compute_cycles == 112_896  # 115,605,504 MACs / 1,024, nothing lost
    assert cost.dram_bytes == 28 * 28 * 128 * 2 + 128 * 128 * 9  # every tensor once


def test_ceil_losses_of_the_spatial_mapping() -> None:
    """129 filters need one more row of lanes: 65 x 16 lanes' worth of filters, if channels take 8 lanes of 16."""
    full = layer_cost(conv(128, 128, 28), npu("nvdla-like")).traffic.compute_cycles
    over = layer_cost(conv(128, 129, 28), npu("nvdla-like")).traffic.compute_cycles
    assert full == 2 * 8 * 784 * 9  # 128 / 64 channels, 128 / 16 filters
    assert over == 2 * 9 * 784 * 9


def test_three_channels_leave_lanes_idle() -> None:
    """3 of 8 input lanes work; 64 filters fill 8 of 16 elements: 1 x 1 x 112 x 112 x 49 cycles."""
    cost = layer_cost(conv(3, 64, 112, 7, stride=2), npu("simba"))
    assert cost.traffic.compute_cycles == 112 * 112 * 49


def test_an_image_folds_its_kernel_beside_its_channels() -> None:
    """3 channels x 7 columns x 3 rows are 63 of 64 lanes: 3 cycles for 7 x 7 positions, 4 blocks of 16 filters."""
    kind = npu("nvdla-like").with_(folds_images=True)
    cost = layer_cost(conv(3, 64, 112, 7, stride=2), kind)
    assert cost.traffic.compute_cycles == 112 * 112 * 3 * 4
    inner = conv(64, 64, 56, 3)
    assert layer_cost(inner, kind).latency_s == layer_cost(inner, npu("nvdla-like")).latency_s


def test_depthwise_groups_spread_over_elements() -> None:
    """32 groups, 8 to an element as a block diagonal: 4 elements in one round."""
    cost = layer_cost(conv(32, 32, 112, groups=32), npu("simba"))
    assert cost.traffic.compute_cycles == 112 * 112 * 9
    assert cost.traffic.active_pes == 4


def test_systolic_array_agrees_with_scale_sim() -> None:
    """SCALE-Sim 3.0.0 reports 126,431 compute cycles on 32 x 32: 144 folds x 878 less one."""
    kind = npu("systolic").with_(pe_double_buffered=False)
    assert layer_cost(conv(128, 128, 28), kind).traffic.compute_cycles == 126_432


def test_output_stationary_array() -> None:
    """784 pixels and 128 filters in folds of 32 x 32, 1,152 products each."""
    kind = npu("systolic").with_(dataflow="systolic_output", pe_double_buffered=False)
    assert layer_cost(conv(128, 128, 28), kind).traffic.compute_cycles == 25 * 4 * (2 * 32 + 32 + 1152 - 2)


def test_row_stationary_mapping_of_alexnet_conv2() -> None:
    """JSSC 2017: one 5 x 27 set folded into the 12 x 14 array, 2 channels per element, 24 passes deep."""
    layer = Layer(
        "conv2", "conv", batch=4, groups=2, in_channels=96, out_channels=256, in_h=27, in_w=27, out_h=27, out_w=27,
        kernel_h=5, kernel_w=5, weight_elements=256 * 48 * 25,
    )  # fmt: skip
    traffic = layer_cost(layer, npu("eyeriss-chip").with_(mapper="least_dram")).traffic
    assert traffic.active_pes == 135
    expected = {"n": 1, "m": 64, "e": 27, "p": 16, "q": 2, "r": 1, "t": 1, "depth": 24}
    assert {name: traffic.mapping[name] for name in expected} == expected
    passes = 4 * 2 * 24 * 8
    multiply, weights, window = 27 * 16 * 2 * 5, 16 * 2 * 25 * 2 / 8, 31 * 2 * 5
    assert traffic.compute_cycles == passes * (multiply + weights + window)


def test_accumulation_depth_is_a_parameter() -> None:
    kind = npu("eyeriss")
    free = layer_cost(conv(256, 256, 14), kind).traffic
    shallow = layer_cost(conv(256, 256, 14), kind.with_(max_accumulation=4)).traffic
    assert shallow.mapping["q"] * shallow.mapping["r"] <= 4
    assert shallow.mapping["depth"] == 64
    assert shallow.buffer_bytes > free.buffer_bytes


def test_layers_without_macs_cost_their_bytes_and_operations() -> None:
    kind = npu("simba")
    addition = Layer("add", "elementwise", in_channels=64, out_channels=64, in_h=28, in_w=28, out_h=28, out_w=28,
                     operand_elements=64 * 784, ops=64 * 784)  # fmt: skip
    cost = layer_cost(addition, kind)
    assert cost.dram_bytes == 3 * 64 * 784
    assert cost.compute_s == pytest.approx(784e-9)  # 64 operations per cycle at 1 GHz
    assert cost.latency_s == pytest.approx(3 * 64 * 784 / 16e9)
    gather = Layer(
        "embed", "gather", in_channels=1, out_channels=512, in_h=10, out_h=10, weight_elements=30_000 * 512
    )
    assert layer_cost(gather, kind).dram_bytes == 10 + 2 * 10 * 512  # never the whole table


def test_energy_is_split_by_level() -> None:
    kind = npu("simba").with_(
        energy=npu("simba").energy.__class__(0.1, 0.2, 0.3, 0.4, 50.0, 1.0, static_w=2.0)
    )
    cost = layer_cost(conv(64, 64, 14), kind)
    split = cost.energy_split_j
    assert split["mac"] == pytest.approx(64 * 64 * 9 * 196 * 0.1e-12)
    assert split["dram"] == pytest.approx(cost.dram_bytes * 50e-12)
    assert split["static"] == pytest.approx(2.0 * cost.latency_s)
    assert cost.energy_j == pytest.approx(sum(split.values()))


def test_a_layer_that_cannot_fit_is_refused_by_name() -> None:
    with pytest.raises(PlatformError, match="'conv' does not fit on accelerator type 'simba'"):
        layer_cost(conv(64, 64, 56), npu("simba").with_(buffer_bytes=100))


# Invariants (specification, section 8.1)


@settings(max_examples=120, deadline=None)
@given(layer=layers(), name=st.sampled_from(NPUS))
def test_lower_bounds_and_repeatability(layer: Layer, name: str) -> None:
    kind = npu(name)
    cost = layer_cost(layer, kind)
    assert cost.traffic.compute_cycles >= layer.macs / kind.macs_cycle
    assert cost.dram_bytes >= compulsory_bytes(layer, kind) * (1 - 1e-12)
    assert 1 <= cost.traffic.active_pes <= kind.pes
    assert all(value >= 0.0 for value in cost.energy_split_j.values())
    again = layer_cost(layer, kind)
    assert (again.compute_s, again.buffer_s, again.dram_bytes, again.energy_j) == (
        cost.compute_s, cost.buffer_s, cost.dram_bytes, cost.energy_j)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(
    layer=layers(), name=st.sampled_from(NPUS), sizes=st.tuples(st.integers(14, 22), st.integers(0, 70_000))
)
def test_a_larger_buffer_never_moves_more(layer: Layer, name: str, sizes: tuple[int, int]) -> None:
    small, more = 2 ** sizes[0], sizes[1]
    traffic = []
    for buffer_bytes in (small, small + more, 2 * small + more):
        try:
            kind = npu(name).with_(buffer_bytes=buffer_bytes + npu(name).weight_prefetch_bytes)
            traffic.append(layer_cost(layer, kind).dram_bytes)
        except PlatformError:
            traffic.append(float("inf"))
    assert traffic[0] >= traffic[1] * (1 - 1e-12)
    assert traffic[1] >= traffic[2] * (1 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(
    layer=layers(), name=st.sampled_from(NPUS), shares=st.lists(st.floats(1e6, 1e12), min_size=2, max_size=6)
)
def test_a_smaller_share_never_helps(layer: Layer, name: str, shares: list[float]) -> None:
    cost = layer_cost(layer, npu(name))
    times = [cost.latency_at(share) for share in sorted(shares)]
    assert times == sorted(times, reverse=True)
    assert times[-1] >= cost.latency_s


@settings(max_examples=30, deadline=None)
@given(layer=layers())
def test_gather_aside_simple_layers_read_every_tensor(layer: Layer) -> None:
    pooled = Layer("pool", "pool", in_channels=layer.in_channels, out_channels=layer.in_channels, in_h=8, in_w=8,
                   out_h=4, out_w=4, ops=layer.in_channels * 64)  # fmt: skip
    assert sum(simple_elements(pooled)) == layer.in_channels * (64 + 16)


# Other tools' figures, as bands and not as truth (specification, sections 3 and 4)


def weighted(name: str, kind: AcceleratorType) -> list[tuple[float, float]]:
    """Latency in cycles and DRAM bytes of the layers with MACs."""
    costs = [layer_cost(layer, kind) for layer in zoo.load(name).layers if layer.has_macs]
    return [(c.latency_s * kind.clock_hz, c.dram_bytes) for c in costs]


def test_resnet50_on_simba_against_zigzag() -> None:
    """ZigZag 3.9.1, limit 5: 5.86 Mcycles, 53.6 MB; another 1,024-MAC model came out 15 % below."""
    cycles, moved = map(sum, zip(*weighted("resnet50", npu("simba-chiplet")), strict=True))
    assert 0.7 * 5.86e6 < cycles < 1.2 * 5.86e6
    assert 0.8 * 53.6e6 < moved < 1.2 * 53.6e6


def test_mobilenet_v2_on_simba_against_zigzag() -> None:
    """ZigZag, limit 5: 1.41 Mcycles, 17.2 MB, of which 7 depthwise layers are missing."""
    cycles, moved = map(sum, zip(*weighted("mobilenet-v2", npu("simba-chiplet")), strict=True))
    assert 0.5 * 1.41e6 < cycles < 1.3 * 1.41e6
    assert 0.7 * 17.2e6 < moved < 1.3 * 17.2e6


@pytest.mark.parametrize(("name", "words"), [("eyeriss-chip", 572_528), ("simba-chiplet", 554_147)])
def test_mobilenet_first_layer_against_timeloop(name: str, words: int) -> None:
    """Timeloop's published output for 10.84 M MACs; its buffers differ, so the order of magnitude counts."""
    kind = npu(name)
    layer = conv(3, 32, 112, 3, stride=2)
    assert layer.macs == 10_838_016
    assert layer_cost(layer, kind).dram_bytes / kind.word_bytes == pytest.approx(words, rel=0.15)


def test_mobilenet_first_layer_cycles_against_timeloop() -> None:
    """Timeloop: 86,016 cycles at 75 % of 168 elements; 64,512 at 100 %."""
    cycles = layer_cost(conv(3, 32, 112, 3, stride=2), npu("eyeriss-chip")).traffic.compute_cycles
    assert 64_512 <= cycles < 1.3 * 86_016


# Effort (section 8.5: ResNet-50 in less than half a second)


@pytest.mark.parametrize("name", ["simba", "eyeriss", "eyeriss-chip", "nvdla-like", "systolic"])
def test_a_layer_of_resnet50_costs_a_few_thousand_lines_of_python(name: str) -> None:
    shapes = {layer.shape_key(): layer for layer in zoo.load("resnet50").layers}
    kind = npu(name)
    count, _ = lines_of(lambda: [layer_cost(layer, kind) for layer in shapes.values()])
    assert count < 10_000 * len(shapes)  # a line takes about 0.1 us: 1 ms a layer
