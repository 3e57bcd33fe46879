"""Every built-in network against figures that somebody else published."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eunomia.core.errors import ConfigError, ModelError, UnknownNameError
from eunomia.core.registry import Registry
from eunomia.workload import zoo
from eunomia.workload.model import DnnModel, Layer
from tests.shared_data import shared


@dataclass(frozen=True)
class Published:
    """Figures of one network; ``params`` is exact, ``macs`` within ``tolerance``."""

    model: str
    params: int
    macs: float
    tolerance: float
    source: str
    settings: dict[str, int | str] = field(default_factory=dict)


TORCHVISION = "torchvision, table of classification weights (its GFLOPS are multiply-accumulates)"
PUBLISHED = [
    Published("squeezenet", 1_235_496, 0.349e9, 0.002, TORCHVISION),
    Published("squeezenet", 1_248_424, 0.819e9, 0.002, TORCHVISION, {"version": "1.0"}),
    Published("mobilenet-v2", 3_504_872, 0.301e9, 0.002, TORCHVISION),
    Published("resnet18", 11_689_512, 1.814e9, 0.001, TORCHVISION),
    Published("resnet34", 21_797_672, 3.664e9, 0.001, TORCHVISION),
    Published("resnet50", 25_557_032, 4.089e9, 0.001, TORCHVISION),
    Published("vgg16", 138_357_544, 15.47e9, 0.001, TORCHVISION),
    Published("vit-b16", 86_567_656, 17.564e9, 0.001, TORCHVISION),
    Published("googlenet", 6_624_904, 1.498e9, 0.001, TORCHVISION, {"variant": "torchvision"}),
    # torchvision's 27,161,264 hold the classifier that only training uses, see the test of its size below
    Published("inception-v3", 27_161_264 - 3_326_696, 5.713e9, 0.001, TORCHVISION),
    Published("alexnet", 60_965_224, 724_406_816, 0, "Caffe bvlc_alexnet; Sze et al., Proc. IEEE 2017: 724M"),
    # operations of its prototxt counted layer by layer, two per product, biases included
    Published("googlenet", 6_998_552, 3_168_570_904 / 2, 0.002, "Caffe bvlc_googlenet, counted from its prototxt"),
    Published("yolov3", 61_949_149, 65.86e9 / 2, 0.001, "darknet site: 65.86 Bn operations at 416"),
    Published("yolov2", 50_962_889, 62.94e9 / 2, 0.001, "darknet site: 62.94 Bn operations at 608", {"size": 608}),
    Published("bert-base", 109_482_240, 22.5e9 / 2, 0.01, "uncased; MobileBERT, ACL 2020: 22.5B FLOPs"),
    Published("bert-small", 28_763_648, 3.4e9 / 2, 0.015, "uncased; TinyBERT, EMNLP 2020: 3.4B FLOPs"),
    Published(
        "gpt2-prefill", 124_439_808, 291_648_307_200 / 2, 0,
        "GPT-2 small; Stanford CS336: 291,648,307,200 FLOPs for 1,024 tokens with logits of all",
        {"prompt": 1024, "logits": "all"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    "row", PUBLISHED, ids=lambda row: "-".join([row.model, *map(str, row.settings.values())])
)
def test_published_counts(row: Published) -> None:
    model = zoo.load(row.model, **row.settings)
    assert model.params + model.folded_params == row.params
    assert model.macs == pytest.approx(row.macs, rel=row.tolerance, abs=0)


def test_every_network_is_checked() -> None:
    elsewhere = {"kws-res8", "yolo-lite", "ssd-resnet34", "unet", "gpt2-decode"}
    assert {row.model for row in PUBLISHED} | elsewhere == set(zoo.names())


def test_the_training_classifier_of_inception_v3_explains_the_difference() -> None:
    conv1, conv2, fc = 768 * 128, 128 * 768 * 25, 768 * 1000
    assert conv1 + 2 * 128 + conv2 + 2 * 768 + fc + 1000 == 3_326_696


def test_darknet_weight_files_have_exactly_this_many_numbers() -> None:
    # a file holds a header, all weights and biases, and four numbers per normalized channel
    v2, v3 = zoo.load("yolov2"), zoo.load("yolov3")
    assert 16 + 4 * (v2.params + 3 * v2.folded_params) == 203_934_260  # yolov2.weights
    assert 20 + 4 * (v3.params + 3 * v3.folded_params) == 248_007_048  # yolov3.weights


def test_yolo_lite() -> None:
    model = zoo.load("yolo-lite")
    convolutions = [layer for layer in model.layers if layer.kind == "conv"]
    assert len(convolutions) == 7
    assert (
        sum(layer.out_channels for layer in convolutions) == 749
    )  # Huang et al., IEEE Big Data 2018: filters
    assert 2 * model.macs == pytest.approx(482e6, rel=0.005)  # ... and FLOPs
    # tiny-yolov2-trial3-noBatch.weights trained for one class is a file of 2,191,628 bytes
    assert 20 + 4 * zoo.load("yolo-lite", classes=1).params == 2_191_628


def test_kws_res8() -> None:
    model = zoo.load("kws-res8")
    assert model.params == 405 + 6 * 18_225 + 45 * 12 + 12
    assert model.params == pytest.approx(110e3, rel=0.005)  # Tang and Lin, ICASSP 2018: 110K
    # the shapes of the authors' code: 101 x 40 positions, then 25 x 13 after 4 x 3 pooling, all padded
    assert model.macs == 405 * 101 * 40 + 6 * 18_225 * 25 * 13 + 45 * 12
    # the paper states 30M; it counts positions without padding (99 x 38 for its res15: see below)
    assert 30e6 < model.macs < 1.25 * 30e6


def test_the_paper_of_res8_counts_positions_without_padding() -> None:
    res15 = 405 * 99 * 38 + 13 * 18_225 * 99 * 38
    assert res15 == pytest.approx(894e6, rel=0.002)


def test_ssd_resnet34() -> None:
    model = zoo.load("ssd-resnet34")
    assert 2 * model.macs == pytest.approx(433.411e9, rel=0.002)  # OpenVINO model zoo; MLPerf states 433 GOPS
    # OpenVINO states 20.058 M, which counts running means, variances and default boxes too
    assert model.params + model.folded_params == pytest.approx(20.058e6, rel=0.005)
    boxes = [layer for layer in model.layers if layer.name.startswith("boxes")]
    assert sum(layer.out_h * layer.out_w * layer.out_channels // 4 for layer in boxes) == 15_130


def test_unet() -> None:
    model = zoo.load("unet")
    assert (
        model.params + model.folded_params == 31_037_633
    )  # many repositories state it for 3 channels, 1 class
    assert model.layers[-1].out_h == model.layers[-1].out_w == 512
    # thop's often quoted 54.74 G at 256 x 256 counts the transposed convolutions at output positions,
    # four times too much, and one operation per normalized element
    transposed = sum(layer.macs for layer in model.layers if "transposed" in layer.name)
    assert (model.macs + 3 * transposed) / 4 == pytest.approx(54.74e9, rel=0.005)


def test_gpt2_decode_by_hand() -> None:
    model = zoo.load("gpt2-decode", context=512)
    weights = 12 * (4 * 768 * 768 + 2 * 4 * 768 * 768) + 768 * 50_257
    assert model.macs == weights + 12 * 2 * 768 * 513
    # both halves of the cache are read in every layer: 512 earlier tokens and the new one
    cache = sum(layer.operand_elements for layer in model.layers if layer.kind == "matmul")
    assert cache == 12 * 2 * 768 * 513
    assert model.params == 124_439_808  # the tied embedding counted once
    assert sum(layer.weight_elements for layer in model.layers) == 124_439_808 + 768 * 50_257


def test_alexnet_has_the_layers_that_eyeriss_was_measured_on() -> None:
    layers = {layer.name.upper(): layer for layer in zoo.load("alexnet").with_batch(4).layers}
    with shared("silicon/eyeriss_jssc17_alexnet.csv").open() as rows:
        for row in csv.DictReader(rows):
            layer = layers[row["layer"]]
            assert layer.macs == int(row["macs_exact_batch"])
            assert (layer.groups, layer.out_h, layer.kernel_h, layer.stride_h) == tuple(
                int(row[key]) for key in ("groups", "out_h", "kernel_h", "stride")
            )


@pytest.mark.parametrize("name", zoo.names())
def test_every_network_is_one_connected_graph_with_positive_costs(name: str) -> None:
    model = zoo.load(name)
    assert model.name == name
    assert model.source
    reached = {0}
    for before, after in model.edges:
        if before in reached or after in reached:
            reached |= {before, after}
    tables = {i for i, layer in enumerate(model.layers) if layer.kind == "gather"}
    assert reached | tables == set(range(len(model.layers)))
    assert all(layer.macs or layer.ops or layer.kind in ("reshape", "gather") for layer in model.layers)
    assert len({layer.name for layer in model.layers}) == len(model.layers)


@pytest.mark.parametrize(
    ("name", "layer", "before"),
    [
        ("resnet50", "layer1.0.add", {"layer1.0.conv3", "layer1.0.shortcut"}),
        ("googlenet", "3b.1x1", {"3a.1x1", "3a.3x3", "3a.5x5", "3a.pool.project"}),
        ("squeezenet", "fire3.squeeze", {"fire2.expand1x1", "fire2.expand3x3"}),
        ("bert-base", "layer0.attention.scores", {"layer0.attention.query", "layer0.attention.key"}),
        ("bert-base", "layer0.attention.context", {"layer0.attention.softmax", "layer0.attention.value"}),
        ("unet", "up3.conv1", {"down3.conv2", "up3.transposed"}),
        ("yolov2", "conv22", {"conv20", "reorganize"}),
    ],
)
def test_branches_are_real(name: str, layer: str, before: set[str]) -> None:
    model = zoo.load(name)
    index = next(i for i, found in enumerate(model.layers) if found.name == layer)
    assert {model.layers[i].name for i in model.predecessors[index]} == before


def test_names_forgive_case_dashes_and_underscores() -> None:
    assert zoo.load("ResNet-50") is zoo.load("resnet_50") is zoo.load("resnet50")
    assert zoo.load("YOLO_v2").name == "yolov2"
    assert zoo.canonical("vit_b_16") == "vit-b16"
    assert zoo.load("bert-base", seq=64) is zoo.load("bert-base", seq=64)


def test_unknown_names_and_settings_are_explained() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'resnet50'"):
        zoo.load("resnet51")
    with pytest.raises(ConfigError, match="takes no settings; leave out seq=3|unknown setting 'seq'"):
        zoo.load("resnet50", seq=3)
    for name, settings in [
        ("bert-base", {"seq": 513}),
        ("gpt2-decode", {"context": 1024}),
        ("gpt2-prefill", {"logits": "some"}),
        ("yolov2", {"size": 100}),
        ("unet", {"size": 100}),
        ("squeezenet", {"version": "2"}),
        ("googlenet", {"variant": "caffe"}),
    ]:
        with pytest.raises(ConfigError, match=str(next(iter(settings.values())))):
            zoo.load(name, **settings)


def _of_a_plugin() -> DnnModel:
    return DnnModel("plugin", (Layer("a", "conv", weight_elements=1),), ())


def test_other_packages_add_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"mine": f"{__name__}:_of_a_plugin", "broken": f"{__name__}:PUBLISHED.append"}
    registry = Registry("model", "eunomia.models", table)
    registry.load = lambda name: _of_a_plugin if name == "mine" else (lambda: 3)  # type: ignore[method-assign]
    monkeypatch.setattr(zoo, "MODELS", registry)
    assert zoo.load("Mine").name == "plugin"
    with pytest.raises(ModelError, match="returned int, not a DnnModel"):
        zoo.load("broken")


def test_the_table_of_the_documentation_is_true() -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    rows = {}
    for line in page.splitlines():
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[1].isdigit():
            rows[cells[0]] = [int(cell.replace(",", "")) for cell in cells[1:5]]
    assert list(rows) == zoo.names()
    for name, row in rows.items():
        model = zoo.load(name)
        assert row == [len(model.layers), model.macs, model.params, model.params + model.folded_params]


def test_a_file_in_place_of_a_name_is_told_the_key_for_files() -> None:
    with pytest.raises(ConfigError, match=r'onnx = "nets/mine\.ONNX"'):
        zoo.canonical("nets/mine.ONNX")
