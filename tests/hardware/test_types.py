"""Types from data files: every preset loads, every wrong key is named, the hash covers every field."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from eunomia.core.errors import PlatformError, UnknownNameError
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.declared import OperatingPoint, Package
from eunomia.hardware.facts import presets
from eunomia.hardware.gpu import GpuType
from eunomia.hardware.types import cost_of, load_type, read_type, type_names
from eunomia.workload.model import Layer


@pytest.mark.parametrize("name", type_names())
def test_presets_load_under_their_own_name(name: str) -> None:
    kind = load_type(name)
    assert kind.name == name
    assert kind.source
    assert kind.description
    assert kind.link_bytes_s > 0


def test_published_sizes() -> None:
    chip, simba, eyeriss = (load_type(n) for n in ("eyeriss-chip", "simba", "eyeriss"))
    assert isinstance(chip, AcceleratorType)
    assert (chip.pes, chip.clock_hz, chip.buffer_bytes, chip.word_bytes) == (168, 200e6, 108 * 1024, 2.0)
    for kind in (simba, eyeriss):
        assert isinstance(kind, AcceleratorType)
        assert (kind.macs_cycle, kind.clock_hz) == (1024, 1e9)


def test_the_hash_covers_every_field() -> None:
    kind = load_type("simba")
    assert isinstance(kind, AcceleratorType)
    changed = {"dataflow": "systolic_weight", "name": "other", "description": "other", "source": "other",
               "mapper": "least_latency", "energy": replace(kind.energy, dram_pj_byte=1.0),
               "package": Package(2, 1.0), "point": (OperatingPoint(1e9, 1.0),)}  # fmt: skip
    for field in fields(kind):
        value = getattr(kind, field.name)
        other = changed.get(field.name, (not value) if isinstance(value, bool) else None)
        if other is None:
            other = value + 1
        assert kind.with_(**{field.name: other}).content_hash != kind.content_hash, field.name


def edited(tmp_path: Path, old: str, new: str, name: str = "simba") -> Path:
    text = presets("types")[name].read_text()
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "buffer_bytes = 1048576",
            "bufer_bytes = 1048576",
            "unknown key 'bufer_bytes'; did you mean 'buffer_bytes'",
        ),
        ("array_rows = 4", "", "the key 'array_rows' is missing"),
        ("array_rows = 4", "array_rows = 'four'", "array_rows is 'four'; it must be a whole number"),
        ("clock_hz = 1e9", "clock_hz = 0.0", "clock_hz is 0.0; it must be finite and positive"),
        ("clock_hz = 1e9", "clock_hz = nan", "clock_hz is nan"),
        ('dataflow = "weight_stationary"', 'dataflow = "magic"', "unknown dataflow 'magic'; choose one of"),
        ("[energy]", "[energie]", "the table [energy] is missing".replace("[", r"\[").replace("]", r"\]")),
        ("dram_pj_byte = 64.0", "dram_pj_byte = -1.0", "dram_pj_byte is -1.0"),
        ("array_rows = 4", "array_rows = = 4", "is not a TOML file"),
        ('name = "simba"', 'name = "simba"\nkind = "tpu"', "kind is 'tpu'"),
    ],
)
def test_wrong_files_are_refused_in_one_sentence(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(PlatformError, match=message) as caught:
        read_type(edited(tmp_path, old, new))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match="none.toml"):
        read_type(tmp_path / "none.toml")


def test_unknown_types_are_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'simba'"):
        load_type("simbaa")


# GPU types


def test_gpu_roofline_by_hand() -> None:
    gpu = GpuType(
        "g", 100e12, 10e12, 1e12, 200.0, matmul_efficiency=0.5, memory_efficiency=0.5, overhead_s=1e-6
    )
    big = Layer(
        "fc", "matmul", in_channels=4096, out_channels=4096, in_h=4096, out_h=4096, weight_elements=4096**2
    )
    cost = cost_of(big, gpu)
    assert cost.compute_s == pytest.approx(2 * 4096**3 / 50e12 + 1e-6)
    assert cost.dram_bytes == 3 * 4096**2 * 2
    thin = Layer("fc", "matmul", in_channels=4096, out_channels=4096, weight_elements=4096**2)
    cost = cost_of(thin, gpu)
    assert cost.latency_s == pytest.approx((4096**2 + 8192) * 2 / 0.5e12)  # bound by memory
    assert cost.energy_j == pytest.approx(200.0 * cost.latency_s)


def test_depthwise_layers_are_slow_on_gpus() -> None:
    dense = Layer("c", "conv", in_channels=64, out_channels=64, in_h=56, in_w=56, out_h=56, out_w=56)
    depthwise = replace(dense, groups=64, kernel_h=8, kernel_w=8)
    assert dense.macs == depthwise.macs
    gpu = load_type("t4")
    assert cost_of(depthwise, gpu).compute_s > cost_of(dense, gpu).compute_s


@pytest.mark.parametrize(
    ("key", "value"), [("peak_flop_s", 0.0), ("conv_efficiency", 1.2), ("power_w", -1.0)]
)
def test_impossible_gpus_are_refused(key: str, value: float) -> None:
    gpu = load_type("a100")
    assert isinstance(gpu, GpuType)
    with pytest.raises(PlatformError, match=key):
        replace(gpu, **{key: value})
