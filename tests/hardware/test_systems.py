"""Real systems: memories that are full, chips in packages, operating points, weights and activations kept on chip."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.config.load import scenario_from
from eunomia.core.errors import ConfigError, PlatformError
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.build import build_table
from eunomia.hardware.dataflow import layer_cost
from eunomia.hardware.declared import OperatingPoint, Package
from eunomia.hardware.fusion import best_way, chain_cost, fused
from eunomia.hardware.memory import activation_bytes, needed_gb
from eunomia.hardware.package import cuts, part_of
from eunomia.hardware.platform import from_config
from eunomia.hardware.points import at_clock, power_factor
from eunomia.hardware.types import cost_of, load_type, read_type
from eunomia.study.inference.bench import costed
from eunomia.study.inference.notes import cost_notes
from eunomia.workload import zoo
from eunomia.workload.chain import Chain, chain_of, links
from eunomia.workload.model import DnnModel, Layer
from tests.hardware.test_cost_model import conv, layers, npu
from tests.hardware.test_types import edited


def scenario(platform: dict[str, Any], *models: str | dict[str, Any]) -> Any:
    wanted = [{"model": one, "deadline_ms": 50.0} if isinstance(one, str) else one for one in models]
    arrivals = {"process": "poisson", "rate_per_s": 100.0}
    tenant = {"name": "a", "models": wanted, "arrivals": arrivals}
    return scenario_from({"name": "one", "duration_s": 0.1, "platform": platform, "tenant": [tenant]})


def edge(**more: Any) -> dict[str, Any]:
    kinds = [{"type": "simba", "count": 1}, {"type": "eyeriss", "count": 1}]
    return {"accelerators": kinds, "dram_bandwidth_gb_s": 8.0, **more}


# --- memory


def test_activations_by_hand() -> None:
    """Two branches from one input: 8, then 8 + 4, then 8 + 4 + 2 (the first still waits), then 4 + 2 + 6."""
    sizes = [8, 4, 2, 6]
    rows = [Layer(f"l{n}", "matmul", out_channels=size, weight_elements=1) for n, size in enumerate(sizes)]
    model = DnnModel("y", tuple(rows), ((0, 1), (0, 2), (1, 3), (2, 3)))
    assert activation_bytes(model, 2.0) == 2.0 * 14
    relu = Layer("relu", "elementwise", in_channels=8, out_channels=8)
    assert (
        activation_bytes(DnnModel.chain("r", [rows[0], relu]), 1.0) == 9
    )  # written in place; its input is 1


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(["squeezenet", "resnet18", "bert-small", "mobilenet-v2"]), batch=st.integers(1, 4)
)
def test_activations_lie_between_a_layer_and_everything(name: str, batch: int) -> None:
    model = zoo.load(name).with_batch(batch)
    every = [layer.output_elements for layer in model.layers]
    assert max(every) <= activation_bytes(model, 1.0) <= sum(every) + model.layers[0].input_elements


def test_words_of_unknown_size_are_said(tmp_path: Path) -> None:
    """Costs alone say no size of a word; a known type that the file names has its own, here two bytes."""
    layers = len(zoo.load("squeezenet").layers)
    costs = tmp_path / "costs.csv"
    costs.write_text(
        "model,layer,type,latency_s\n"
        + "".join(f"squeezenet,{n},{k},1e-4\n" for k in ("npu", "eyeriss-chip") for n in range(layers))
    )
    need = needed_gb([zoo.load("squeezenet")], 1.0)
    own = {"accelerators": [{"type": "npu", "count": 1}], "dram_bandwidth_gb_s": 8.0, "cost_csv": str(costs)}
    (said,) = cost_notes(scenario({**own, "memory_gb": 1.5 * need}, "squeezenet"))
    assert (
        f"npu of cost_csv has no word size, so a weight counts as one byte; the networks need {need:.3g} GB"
        in said
    )
    assert f"at 2 bytes {2 * need:.3g}" in said
    assert not cost_notes(scenario(own, "squeezenet"))  # nothing that a size decides
    known = {**own, "accelerators": [{"type": "eyeriss-chip", "count": 1}]}
    assert not cost_notes(scenario({**known, "memory_gb": 2.1 * need}, "squeezenet"))
    with pytest.raises(PlatformError, match="memory_gb is"):  # one byte would fit
        costed(scenario({**known, "memory_gb": 1.5 * need}, "squeezenet"))


def test_networks_whose_times_nobody_published_are_said() -> None:
    gpus = {"accelerators": [{"type": "t4-trt", "count": 1}], "dram_bandwidth_gb_s": 320.0}
    (said,) = cost_notes(scenario(gpus, "resnet50", "squeezenet"))
    assert said == "type 't4-trt': no times of squeezenet are published; its costs are the plain roofline's"


def test_networks_that_do_not_fit_are_refused_with_what_they_need() -> None:
    need = needed_gb([zoo.load("vgg16"), zoo.load("squeezenet")], 1.0)
    costed(scenario(edge(memory_gb=need * 1.001), "vgg16", "squeezenet"))
    with pytest.raises(
        PlatformError, match=r"memory_gb is 0\.1, but vgg16 \(0\.14 GB\), squeezenet .* need 0\.1\d+ GB"
    ):
        costed(scenario(edge(memory_gb=0.1), "vgg16", "squeezenet"))


def test_a_type_with_too_little_memory_runs_nothing_of_a_network() -> None:
    small, large = replace(load_type("t4"), name="small", memory_gb=0.2), load_type("t4")  # type: ignore[type-var]
    models = [zoo.load("vgg16"), zoo.load("squeezenet")]
    table = build_table(models, [small, large], use_cache=False)
    own, other = slice(table.offsets[0], table.offsets[1]), slice(table.offsets[1], None)
    assert np.isinf(table.compute_s[own, 0]).all() and np.isfinite(table.compute_s[other, 0]).all()
    with pytest.raises(
        PlatformError, match="'vgg16' needs 0.2. GB on 'small' .* memory_gb is 0.2; give a type"
    ):
        build_table(models, [small])


def test_resident_weights_are_not_fetched() -> None:
    kind, models = npu("simba"), [zoo.load("resnet18"), zoo.load("squeezenet")]
    stored = sum(model.params for model in models)
    moved = [
        build_table(
            models, [kind.with_(resident_weight_bytes=share * stored)], use_cache=False
        ).dram_bytes.sum()
        for share in (0.0, 0.5, 1.0, 2.0)
    ]
    assert moved[0] > moved[1] > moved[2] == pytest.approx(moved[3])
    assert moved[0] - moved[2] >= 0.99 * stored  # each weight is fetched once at least


# --- batches


@settings(max_examples=40, deadline=None)
@given(layer=layers(), name=st.sampled_from(["simba", "eyeriss", "systolic"]), times=st.integers(2, 5))
def test_a_batch_takes_at_most_as_long_as_its_inputs_one_by_one(layer: Layer, name: str, times: int) -> None:
    one, many = layer_cost(layer, npu(name)), layer_cost(layer.with_batch(times), npu(name))
    assert many.compute_s <= times * one.compute_s * (1 + 1e-9)
    assert many.dram_bytes <= times * one.dram_bytes * (1 + 1e-9)


def test_a_request_may_be_a_batch() -> None:
    models, machine = costed(scenario(edge(), {"model": "resnet18", "batch": 4, "deadline_factor": 3.0}))
    assert [model.name for model in models] == ["resnet18@4"]
    assert models[0].macs == 4 * zoo.load("resnet18").macs
    single = build_table([zoo.load("resnet18")], [load_type("simba")])
    assert machine.table.dram_bytes[:, 0].sum() < 4 * single.dram_bytes.sum()


# --- operating points


POINTS = (OperatingPoint(1e9, 0.8), OperatingPoint(0.5e9, 0.6), OperatingPoint(2e9, 1.2))


def test_energy_follows_the_square_of_the_voltage() -> None:
    kind = npu("simba").with_(point=POINTS, energy=replace(npu("simba").energy, static_w=0.1))
    slow, layer = at_clock(kind, 500.0), conv(64, 64, 28)
    assert (slow.name, slow.clock_hz) == ("simba@500MHz", 0.5e9)
    assert slow.link_bytes_s == pytest.approx(kind.link_bytes_s)  # DRAM keeps its pace
    before, after = layer_cost(layer, kind), layer_cost(layer, slow)
    swing = (0.6 / 0.8) ** 2
    for level in ("mac", "pe", "noc", "buffer"):
        assert after.energy_split_j[level] == pytest.approx(before.energy_split_j[level] * swing)
    assert after.energy_split_j["dram"] == pytest.approx(before.energy_split_j["dram"])
    assert slow.energy.static_w == pytest.approx(0.1 * swing / 2)
    assert power_factor(kind, 500.0) == pytest.approx(swing / 2)
    assert at_clock(kind, 1000.0) is kind


@settings(max_examples=40, deadline=None)
@given(layer=layers())
def test_a_faster_point_is_never_slower(layer: Layer) -> None:
    kind = npu("simba").with_(point=POINTS, mapper="least_latency")
    times = [layer_cost(layer, at_clock(kind, mhz)).latency_s for mhz in (500.0, 1000.0, 2000.0)]
    assert times[2] <= times[1] * 1.011 and times[1] <= times[0] * 1.011


def test_points_are_chosen_per_accelerator(tmp_path: Path) -> None:
    more = "\n[[point]]\nclock_hz = 1e9\nsupply_v = 0.8\n[[point]]\nclock_hz = 4e8\nsupply_v = 0.6\n"
    path = edited(tmp_path, "[energy]", "[energy]")
    path.write_text(path.read_text() + more)
    entries = [{"file": str(path), "count": 2}, {"file": str(path), "count": 1, "clock_mhz": 400}]
    assert from_config({"accelerators": entries, "dram_bandwidth_gb_s": 8.0}).types == (
        "simba",
        "simba@400MHz",
    )
    with pytest.raises(PlatformError, match="'simba' has no point at 300 MHz; choose one of: 1000, 400"):
        from_config({"accelerators": [{"file": str(path), "clock_mhz": 300}], "dram_bandwidth_gb_s": 8.0})
    with pytest.raises(
        PlatformError, match=r"'t4' has no operating points, so clock_mhz = 300 .* \[\[point\]\]"
    ):
        from_config({"accelerators": [{"type": "t4", "clock_mhz": 300}], "dram_bandwidth_gb_s": 8.0})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[[point]]\nclock_hz = 5e8\nsupply_v = 0.6",
            r"no \[\[point\]\] has the type's own clock_hz, 1000000000.0",
        ),
        (
            "[[point]]\nclock_hz = 1e9\nsupply_v = 0.0",
            "point.supply_v is 0.0; it must be finite and positive",
        ),
        ("[[point]]\nclock_hz = 1e9", "the key 'supply_v' is missing"),
        ("[point]\nclock_hz = 1e9", r"point must be a list of tables; write \[\[point\]\]"),
        ("[package]\nchips = 0\nlink_gb_s = 1.0", "package.chips is 0; it must be at least 1"),
        ("[package]\nchips = 4\nlink_gb_s = 0.0", "package.link_gb_s is 0.0"),
        ("[package]\nchips = 4\nlink_gb = 1.0", "unknown key 'link_gb'; did you mean 'link_gb_s'"),
    ],
)
def test_wrong_declarations_are_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = edited(tmp_path, "[energy]", "[energy]")
    path.write_text(path.read_text() + f"\n{text}\n")
    with pytest.raises(PlatformError, match=said) as caught:
        read_type(path)
    assert "\n" not in str(caught.value)


# --- packages


def packed(chips: int = 4, link_gb_s: float = 50.0, hop_s: float = 2e-8) -> AcceleratorType:
    kind = npu("simba-chiplet").with_(mapper="least_latency")
    return kind.with_(package=Package(chips, link_gb_s, hop_s))


@settings(max_examples=20, deadline=None)
@given(layer=layers(), chips=st.integers(1, 9))
def test_more_chips_wider_links_and_shorter_hops_are_never_slower(layer: Layer, chips: int) -> None:
    base = layer_cost(layer, packed(chips)).latency_s
    for better in (packed(chips + 3), packed(chips, 75.0), packed(chips, hop_s=1e-8)):
        assert layer_cost(layer, better).latency_s <= base * (1 + 1e-12)
    assert base <= layer_cost(layer, packed(1)).latency_s * (1 + 1e-12)


@settings(max_examples=20, deadline=None)
@given(layer=layers(), chips=st.integers(2, 9))
def test_a_package_does_all_the_work_and_moves_every_tensor(layer: Layer, chips: int) -> None:
    kind = packed(chips)
    cost = layer_cost(layer, kind)
    assert cost.compute_s >= layer.macs / kind.macs_cycle / chips / kind.clock_hz * (1 - 1e-12)
    written = layer.output_elements + layer.input_elements + layer.weight_elements
    assert cost.dram_bytes >= written * kind.word_bytes * (1 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(layer=layers(), chips=st.integers(1, 12))
def test_the_parts_cover_the_layer(layer: Layer, chips: int) -> None:
    for cut in cuts(layer, chips):
        part = part_of(layer, cut)
        assert cut.chips <= chips and part.macs * cut.chips >= layer.macs
        assert part.output_elements * cut.chips // cut.channels >= layer.output_elements


def test_one_chip_is_the_chip() -> None:
    one, chip = packed(1), packed(1).with_(package=None)
    for layer in (conv(64, 64, 28), Layer("add", "elementwise", in_w=8192, out_w=8192, ops=8192)):
        assert layer_cost(layer, one).latency_s == layer_cost(layer, chip).latency_s
        assert layer_cost(layer, one).energy_j == pytest.approx(layer_cost(layer, chip).energy_j)


def test_links_bound_a_package_by_hand() -> None:
    """A product of three 1024 x 1024 matrices on 4 chips: 2**30 MACs are 1.05 ms on one chip."""
    layer = Layer(
        "fc",
        "matmul",
        in_channels=1024,
        out_channels=1024,
        in_h=1024,
        out_h=1024,
        weight_elements=1024 * 1024,
    )
    alone = layer_cost(layer, packed(1))
    slow = layer_cost(layer, packed(4, link_gb_s=0.2, hop_s=0.0))
    assert slow.traffic.mapping["chips"] == 1 and slow.latency_s == alone.latency_s, (
        "each link costs more than it saves"
    )
    wide = layer_cost(layer, packed(4, link_gb_s=1000.0, hop_s=0.0))
    assert wide.compute_s == pytest.approx(alone.compute_s / 4, rel=0.01)
    # two cuts of two: half of the inputs, half of the weights; cut otherwise, a chip needs more
    narrow = layer_cost(layer, packed(4, link_gb_s=2.0, hop_s=1e-6))
    assert narrow.latency_s == pytest.approx(2 * 2**19 / 2e9 + 2 * 1e-6 * 2)


# --- fusion


def test_a_chain_keeps_what_fits_on_chip() -> None:
    """28 x 28 x 64 bytes between two layers of a type with a megabyte: neither written nor read."""
    kind, two = npu("simba"), [conv(64, 64, 28), conv(64, 64, 28)]
    way = best_way(two, kind)
    assert way.kept == (True, False)
    apart = sum(layer_cost(layer, kind).dram_bytes for layer in two)
    assert apart - chain_cost(chain_of(two), kind).dram_bytes == pytest.approx(2 * 28 * 28 * 64)
    tight = kind.with_(buffer_bytes=40_000)
    assert best_way(two, tight).kept == (False, False)


@settings(max_examples=25, deadline=None)
@given(
    one=layers(),
    two=layers(),
    name=st.sampled_from(["simba", "systolic", "eyeriss"]),
    size=st.integers(16, 4096),
)
def test_a_chain_is_never_slower_and_never_moves_more(one: Layer, two: Layer, name: str, size: int) -> None:
    kind = npu(name).with_(buffer_bytes=size * 1024)
    try:
        apart = [layer_cost(layer, kind) for layer in (one, two)]
    except PlatformError:
        return
    chain = chain_cost(chain_of([one, two]), kind)
    for share in (kind.link_bytes_s, kind.link_bytes_s / 3, kind.link_bytes_s / 50):
        assert chain.latency_at(share) <= sum(cost.latency_at(share) for cost in apart) * (1 + 1e-9)
    assert chain.dram_bytes <= sum(cost.dram_bytes for cost in apart) * (1 + 1e-9)
    assert chain.energy_j <= sum(cost.energy_j for cost in apart) * 1.2


@pytest.mark.parametrize("name", ["mobilenet-v2", "resnet18", "googlenet", "bert-small"])
def test_fused_networks_do_the_same_work(name: str) -> None:
    model, kinds = zoo.load(name), [load_type("simba"), load_type("eyeriss")]
    found = fused(model, kinds, 4)
    assert found.macs == model.macs and found.params == model.params
    assert len(found.layers) < len(model.layers)
    assert max(len(layer.parts) for layer in found.layers if isinstance(layer, Chain)) <= 4
    before, after = (build_table([one], kinds) for one in (model, found))
    assert (after.latency_s.sum(axis=0) <= before.latency_s.sum(axis=0) * (1 + 1e-9)).all()
    assert after.dram_bytes[:, 0].sum() < before.dram_bytes[:, 0].sum()
    parts = [part for row in found.layers for part in (row.parts if isinstance(row, Chain) else (row,))]
    assert sorted(part.name for part in parts) == sorted(layer.name for layer in model.layers)


def test_only_tensors_that_nobody_else_reads_are_links() -> None:
    model = zoo.load("resnet18")
    for before, after in links(model):
        assert model.successors[before] == (after,) and model.predecessors[after] == (before,)


def test_a_scenario_with_fusion_runs_chains() -> None:
    plain, short = (costed(scenario(edge(**more), "mobilenet-v2")) for more in ({}, {"fusion": 3}))
    assert len(short[0][0].layers) < len(plain[0][0].layers)
    assert short[1].table.dram_bytes.sum() < plain[1].table.dram_bytes.sum()
    with pytest.raises(ConfigError, match="fusion is for modelled costs"):
        scenario(edge(fusion=3, cost_csv="costs.csv"), "mobilenet-v2")
    with pytest.raises(ConfigError, match="platform.fusion is 1; it must be at least 2"):
        scenario(edge(fusion=1), "mobilenet-v2")


def test_the_published_package_is_no_longer_eight_times_too_fast() -> None:
    """Simba, 36 chiplets, ResNet-50, batch 1: 1,988 (MICRO 2019) and 2,615 (VLSI 2019) images per second."""
    kind = npu("simba-36")
    busy_s = sum(
        cost_of(layer, kind.with_(weight_compression=1e-9)).latency_s for layer in zoo.load("resnet50").layers
    )
    ideal_s = zoo.load("resnet50").macs / kind.macs_cycle / 36 / kind.clock_hz
    assert ideal_s < 1 / 1988 / 7
    assert 0.4 / 1988 <= busy_s <= 1.6 / 1988


def test_the_fitted_roofline_keeps_its_stated_error() -> None:
    """Frames per second that Hailo publishes; the type's file says how it was fitted."""
    rates = {"mobilenet-v2": 2434, "resnet18": 2533, "resnet34": 1346, "resnet50": 1394, "squeezenet": 3035}
    rates |= {"googlenet": 928, "vit-b16": 36}
    kind = load_type("hailo-8")
    times = {name: sum(cost_of(layer, kind).latency_s for layer in zoo.load(name).layers) for name in rates}
    errors = np.array([times[name] * rate - 1.0 for name, rate in rates.items()])
    assert np.abs(errors).mean() < 0.25 and np.abs(errors).max() < 0.45, dict(zip(rates, errors, strict=True))
