"""The model against the Eyeriss chip: AlexNet within the promised errors; VGG-16 reported as it is."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.silicon import alexnet, compare_alexnet, eyeriss_errors, vgg16, vgg16_table
from benchmarks.silicon_spread import moved
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.compression import run_length_factor
from eunomia.hardware.types import cost_of, load_type
from tests.shared_data import shared

TABLE = "silicon/eyeriss_jssc17_alexnet.csv"


def test_layers_are_those_of_the_published_table() -> None:
    published = [421_660_800, 895_795_200, 598_081_536, 448_561_152, 299_040_768]
    assert [row.layer.macs for row in alexnet(shared(TABLE))] == published


def chip(**changes: object) -> AcceleratorType:
    kind = load_type("eyeriss-chip")
    assert isinstance(kind, AcceleratorType)
    return kind.with_(**changes)


FRUGAL = {"mapper": "least_dram", "pass_row_words": 0}  # as the chip's authors chose: least traffic first


@pytest.mark.parametrize(
    "name", ["buffer_bytes", "buffer_bank_bytes", "psum_write_bus_bytes", "pass_row_words"]
)
def test_ten_percent_of_a_parameter_move_the_errors_little(name: str) -> None:
    """Asked: 12 % on AlexNet, 20 % on VGG-16. With least traffic first, one bank more made VGG's 17 % to 59 %."""
    shared(TABLE)
    found = [eyeriss_errors(moved(chip(), {name: share})) for share in (-0.1, 0.1)]
    assert (np.max(found, axis=0) <= [0.12, 0.20]).all()


def test_more_banks_do_not_throw_vgg16_off() -> None:
    shared(TABLE)
    errors = [eyeriss_errors(chip(buffer_bytes=8192 + banks * 4096))[1] for banks in (24, 25, 26)]
    assert max(errors) <= 0.10


def test_alexnet_with_least_traffic_first() -> None:
    found = compare_alexnet(chip(**FRUGAL), alexnet(shared(TABLE)))
    assert np.mean([abs(c.latency_error) for c in found]) <= 0.12
    assert np.mean([abs(c.dram_error) for c in found]) <= 0.25
    assert np.mean([abs(c.buffer_error) for c in found]) <= 0.10
    assert max(abs(c.latency_error) for c in found) <= 0.10


def test_alexnet_latency_and_traffic_on_the_chip() -> None:
    found = compare_alexnet(rows=alexnet(shared(TABLE)))
    assert np.mean([abs(c.latency_error) for c in found]) <= 0.10
    assert np.mean([abs(c.dram_error) for c in found]) <= 0.25
    assert np.mean([abs(c.buffer_error) for c in found]) <= 0.10


def test_alexnet_active_elements_are_the_published_ones() -> None:
    found = compare_alexnet(chip(**FRUGAL), alexnet(shared(TABLE)))
    assert [c.cost.traffic.active_pes for c in found] == [c.measured.active_pes for c in found]


def test_vgg16_is_reported_per_layer_and_never_below_ideal() -> None:
    for layer in vgg16():
        assert cost_of(layer, chip()).compute_s >= layer.macs / 168 / 200e6
    assert len(vgg16_table().rows) == 13 + 2


def test_run_length_coding_by_hand() -> None:
    """Density 1: one pair of 64/3 bits per 16-bit word. All zeros: one pair per 32 words."""
    assert run_length_factor(0.0) == pytest.approx(64 / 3 / 16)
    assert run_length_factor(1.0) == pytest.approx(64 / 3 / 16 / 32)
    assert run_length_factor(0.5) == pytest.approx(0.5 * 64 / 3 / 16, rel=1e-6)
    with pytest.raises(ValueError, match="zero_share"):
        run_length_factor(1.5)


def test_a_row_less_is_another_chip() -> None:
    """Twelve rows hold four strips of kernels of three, eleven hold three: the last three take a third longer."""
    kind = load_type("eyeriss-chip")
    assert isinstance(kind, AcceleratorType)
    built, fewer = (
        compare_alexnet(one, alexnet(shared("silicon/eyeriss_jssc17_alexnet.csv")))
        for one in (kind, kind.with_(array_rows=11))
    )
    longer = np.array(
        [(1 + b.latency_error) / (1 + a.latency_error) for a, b in zip(built, fewer, strict=True)]
    )
    assert longer == pytest.approx([1.0, 1.0, 1.30, 1.31, 1.37], abs=0.01)
    assert np.mean(longer - 1.0) == pytest.approx(0.195, abs=0.002)  # the error of a model without one
