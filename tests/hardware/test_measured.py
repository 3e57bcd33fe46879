"""Published times of GPUs: the points themselves, between them, networks without, and the error of leaving one out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.core.errors import PlatformError
from eunomia.hardware.build import build_table
from eunomia.hardware.facts import presets
from eunomia.hardware.fusion import fused
from eunomia.hardware.gpu import GpuType, MeasuredPoints
from eunomia.hardware.measured import left_out, points_of, scale
from eunomia.hardware.types import cost_of, load_type, read_type
from eunomia.workload import zoo
from eunomia.workload.model import DnnModel
from eunomia.workload.zoo.bert import bert_base

MEASURED = ("t4-trt", "v100-trt", "a100-trt")


def gpu(name: str) -> GpuType:
    kind = load_type(name)
    assert isinstance(kind, GpuType)
    return kind


def net_of(points: MeasuredPoints) -> DnnModel:
    if points.network == "bert-base":
        return bert_base(128 if points.gmac < 20 else 384)
    return zoo.load(points.network)


SETS = [(name, points) for name in MEASURED for points in gpu(name).measured]


def seconds(model: DnnModel, kind: GpuType) -> float:
    return float(build_table([model], [kind], use_cache=False).latency_s.sum())


@pytest.mark.parametrize(("name", "points"), SETS, ids=lambda x: getattr(x, "network", x))
def test_a_network_takes_what_was_measured(name: str, points: MeasuredPoints) -> None:
    """At the first, a middle and the last size; NVIDIA's figures, none of ours."""
    model = net_of(points)
    for n in (0, len(points.batch) // 2, -1):
        assert seconds(model.with_batch(points.batch[n]), gpu(name)) * 1e3 == pytest.approx(points.ms[n])


@pytest.mark.parametrize(("name", "points"), SETS, ids=lambda x: getattr(x, "network", x))
def test_points_that_were_left_out_are_nearer_than_the_roofline(name: str, points: MeasuredPoints) -> None:
    found = left_out(net_of(points).layers, gpu(name), points)
    roofline, left = (np.abs([row[n] for row in found]) for n in (1, 2))
    assert (
        left.mean() < 0.08 and left.max() < 0.21
    )  # worst: the V100 at 32 inputs, slower than its neighbours
    assert left.mean() < roofline.mean()


def test_layers_share_the_time_as_the_roofline_says_and_bytes_never_grow() -> None:
    model, kind = zoo.load("resnet50").with_batch(64), gpu("v100-trt")
    table, plain = (build_table([model], [k], use_cache=False) for k in (kind, load_type("v100")))
    ratio = table.latency_s / plain.latency_s
    np.testing.assert_allclose(ratio, ratio[0, 0])
    assert ratio[0, 0] < 1 and (table.dram_bytes < plain.dram_bytes).all()
    np.testing.assert_allclose(table.energy_j / plain.energy_j, ratio)
    one = [build_table([zoo.load("resnet50")], [k], use_cache=False) for k in (kind, load_type("v100"))]
    assert (one[0].latency_s > one[1].latency_s).all() and (one[0].dram_bytes == one[1].dram_bytes).all()


def test_a_network_without_points_keeps_the_roofline() -> None:
    nets = [zoo.load("mobilenet-v2"), replace(zoo.load("resnet18"), name="resnet50"), bert_base(256)]
    for net in nets:  # another network, one that only bears the name, another length
        measured, plain = (build_table([net], [load_type(n)], use_cache=False) for n in ("t4-trt", "t4"))
        assert (measured.latency_s == plain.latency_s).all()
        assert measured.origin[0].startswith("estimated (")
    table = build_table([*nets, zoo.load("resnet50").with_batch(3)], [load_type("t4-trt")], use_cache=False)
    assert re.fullmatch(r"measured \(.*, 1 of 4 networks measured\)", table.origin[0])


def test_lengths_are_not_taken_for_batches() -> None:
    """384 tokens in a batch of 6 have the work of 128 tokens in a batch of 19."""
    kind, long = gpu("t4-trt"), bert_base(384).with_batch(6)
    found = points_of(long, kind)
    assert found is not None and found[1] == 6 and found[0].gmac > 20
    assert points_of(replace(long, name="bert-base@x"), kind) is None


def test_chains_take_the_same_time() -> None:
    model, kind = zoo.load("resnet50").with_batch(8), gpu("v100-trt")
    assert seconds(fused(model, [kind], 4), kind) == pytest.approx(3.2938e-3)


@given(st.integers(1, 300), st.sampled_from(MEASURED))
@settings(max_examples=15, deadline=None)
def test_between_and_beyond_the_points_it_stays_near_them(batch: int, name: str) -> None:
    """The ratio to the roofline lies between those of the two neighbours, or is that of the last."""
    kind = gpu(name)
    points, model = kind.measured[0], net_of(kind.measured[0])
    ratios = []
    for size, ms in zip(points.batch, points.ms, strict=True):
        layers = model.with_batch(size).layers
        ratios.append(ms / 1e3 / sum(cost_of(layer, kind).latency_s for layer in layers))
    at = int(np.searchsorted(points.batch, batch))
    near = ratios[max(at - 1, 0) : at + 1] if at < len(ratios) else ratios[-1:]
    modelled = sum(cost_of(layer, kind).latency_s for layer in model.with_batch(batch).layers)
    found = scale(model.with_batch(batch), kind, modelled)
    assert found is not None and min(near) * (1 - 1e-9) <= found <= max(near) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("batch = [1, 2,", "batch = [2, 1,", "batch is [2, 1, 4"),
        ("ms = [1.76, 2.5,", "ms = [2.5,", "10 batch sizes but 9 times in ms"),
        ("ms = [1.76,", "ms = [-1.76,", "ms is -1.76, which is not a positive number"),
        ("gmac = 11.174", "gmac = nan", "gmac is nan, which is not a positive number"),
        ("gmac = 11.174", "gmacs = 11.174", "the key 'gmacs' is unknown"),
        ("gmac = 11.174\n", "", "the key 'gmac' is missing"),
        (
            'network = "bert-base"\ngmac = 11.174',
            "network = 7\ngmac = 11.174",
            "network and source must be texts",
        ),
        ("batch = [1, 2,", "batch = [1.5, 2,", "must be rising whole numbers"),
    ],
)
def test_wrong_points_are_one_sentence(old: str, new: str, says: str, tmp_path: Path) -> None:
    text = presets("types")["t4-trt"].read_text()
    assert old in text
    (tmp_path / "mine.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(PlatformError) as caught:
        read_type(tmp_path / "mine.toml")
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_types_without_points_have_the_costs_on_disk_that_they_had() -> None:
    assert gpu("t4").content_hash == "f54f180e95942e93"
