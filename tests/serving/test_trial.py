"""A network that fails on its trial input says which sizes were tried, and how to give others."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from eunomia.config.server import server_from
from eunomia.core.errors import ConfigError, ModelError
from eunomia.serving.blocks.long import LongBlock
from eunomia.serving.devices.fitting import candidates
from eunomia.serving.devices.messages import DATATYPES, Ports
from eunomia.serving.devices.network import load_network
from eunomia.serving.devices.piece import Feed, array_of, live_of
from eunomia.serving.devices.trial import Unfit, on_either, on_trial, trial_feed
from eunomia.serving.fronts.certificate import tls_context
from tests import children
from tests.snippets import snippets

PORTS: Ports = {"inputs": [{"name": "words", "datatype": "FP32", "shape": [-1, -1, 4]}], "outputs": []}


def of_words(file: Path, count: int) -> str:
    """An export as the older exporter makes it: a free axis in its input, its size baked into the graph."""
    weights = [numpy_helper.from_array(np.array([8, count // 2], np.int64), "shape")]
    nodes = [helper.make_node("Reshape", ["words", "shape"], ["y"], name="/attention/Reshape")]
    given = helper.make_tensor_value_info("words", TensorProto.FLOAT, ["batch", "length", 4])
    found = helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, count // 2])
    graph = helper.make_graph(nodes, "text", [given], [found], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)
    return str(file)


def test_sizes_that_do_not_fit_are_named_with_the_remedy(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An example was proposed that did not run either."""
    file = of_words(tmp_path / "text.onnx", 48)
    said = load_network(file, str(tmp_path), {}, 1e-3).untried
    assert "trial input of words [1, 1, 4]" in said and "'/attention/Reshape' (Reshape)" in said
    assert "give sizes that fit as shapes in its [[network]], or of models_dir in NAME.toml" in said
    assert "reshape_helper" not in said and "100" not in said
    assert load_network(file, str(tmp_path), {"words": [1, 48, 4]}, 1e-3).untried == ""
    for _ in range(2):
        with pytest.raises(ModelError, match=r"trial input of words \[1, 16, 4\]: (?!.*shapes)"):
            load_network(file, str(tmp_path), {"words": [1, 16, 4]}, 1e-3)
    assert "onnxruntime" not in capfd.readouterr().err, "a request could fill the log"


def test_what_the_runtime_says_is_told_without_places_in_its_source() -> None:
    """Of a node in a branch, the innermost: that is where the sizes do not meet."""
    within = (
        "[ONNXRuntimeError] : 1 : FAIL : Non-zero status while running {} node. Name:'{}' Status Message: "
    )
    sizes = "Axis 2 has mismatched dimensions of 1 and 2"
    branch, node = within.format("If", "/If"), within.format("Concat", "/Concat")
    with pytest.raises(ModelError, match=rf": node '/Concat' \(Concat\): {sizes}$"), on_trial({}, PORTS):
        raise RuntimeError(f"{branch}{node}concatbase.h:133 PrepareForComputeImpl {sizes}")
    with (
        pytest.raises(ModelError, match=r": node '' \(Reshape\): It cannot be reshaped$"),
        on_trial({}, PORTS),
    ):
        place = "/src/reshape_helper.h:84 ort::Helper::Helper(bool) a != 0 && (b % a) == 0 was false. "
        raise RuntimeError(f"{within.format('Reshape', '')}{place}It cannot be reshaped")
    with pytest.raises(ModelError, match="RuntimeError$"), on_trial({}, PORTS):
        raise RuntimeError
    with pytest.raises(Unfit), on_trial({}, PORTS):
        raise RuntimeError
    with pytest.raises(ModelError) as error, on_trial({}, PORTS):
        raise type("EPFail", (RuntimeError,), {})("engine")
    assert not isinstance(error.value, Unfit), "no input is at fault"


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"wordz": [1, 32, 4]}, "names 'wordz', which is no input; the inputs are: words"),
        ({"words": [1, 32]}, r"shapes.words is \[1, 32\], but the network has \[-1, -1, 4\]"),
        ({"words": [1, 32, 5]}, r"shapes.words is \[1, 32, 5\], but the network has \[-1, -1, 4\]"),
    ],
)
def test_shapes_must_be_those_of_an_input(shapes: dict[str, list[int]], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        trial_feed(PORTS, shapes)


def test_fixed_sizes_bring_no_proposal() -> None:
    feed: Feed = {"words": np.zeros((1, 4), np.float32)}
    fixed = {"inputs": [{"name": "words", "datatype": "FP32", "shape": [1, 4]}], "outputs": []}
    with pytest.raises(ModelError, match=r"words \[1, 4\]: no such kernel$"), on_trial(feed, fixed):
        raise RuntimeError("no such kernel")


def test_lack_of_memory_passes_as_it_is_and_no_other_size_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda kind: (5 * 1024**2, -1))
    feed: Feed = {"words": np.zeros((1, 1, 4), np.float32)}
    with pytest.raises(RuntimeError) as error, on_trial(feed, PORTS):
        raise RuntimeError("std::bad_alloc")
    assert str(error.value) == "std::bad_alloc" and not isinstance(error.value, ModelError)
    with pytest.raises(ModelError, match="std::bad_cast; .* as shapes"), on_trial(feed, PORTS):
        raise RuntimeError("std::bad_cast")


@pytest.mark.parametrize(
    ("shape", "size", "hint"),
    [([-1, 4], [1, 4], True), ([-1, -1], [1, 4], False), ([1, 4], [1, 4], False), ([-1, -1], [1, 1], True)],
)
def test_sizes_are_asked_for_where_one_element_was_tried(
    shape: list[int], size: list[int], hint: bool
) -> None:
    ports: Ports = {"inputs": [{"name": "x", "datatype": "FP32", "shape": shape}], "outputs": []}
    with pytest.raises(ModelError) as error, on_trial({"x": np.zeros(size, "f")}, ports):
        raise RuntimeError("no such kernel")
    assert ("give sizes that fit as shapes" in str(error.value)) is hint


HEAD = '<ir_version: 8, opset_import: ["" : 17]> g '
LARGER = {
    "a window": ("(float[n, 1, h, w] x) => (float[n, 1, r, c] y) <float[1, 1, 3, 3] k = {1,2,3,4,5,6,7,8,9}> "
                 "{ y = Conv (x, k) }", {"x": [1, 1, 8, 8]}, [2, 1, 5, 7]),
    "groups of eight": ("(float[n, l] x) => (float[n, m, 8] y) <int64[3] s = {0, -1, 8}> { y = Reshape (x, s) }",
                        {"x": [1, 8]}, [3, 16]),
    "words of one text": ("(float[n, l, 4] x) => (float[8, 16] y) <int64[2] s = {8, 16}> { y = Reshape (x, s) }",
                          {"x": [1, 32, 4]}, [1, 32, 4]),
    "eight rows": ("(float[n, 3] x) => (float[8, m] y) <int64[2] s = {8, -1}> { y = Reshape (x, s) }",
                   {"x": [8, 3]}, [16, 3]),
    "no zeros, and a window": ("(int64[l] x) => (int64[m] y) <int64[1] a = {60}, int64[1] s = {3}, int64[1] e = {4}, "
                               "int64[1] z = {0}> { d = Div (a, x) g = Slice (d, s, e, z) q = Mul (g, g) "
                               "f = Gather (d, s) y = Add (q, f) }", {"x": [4]}, [12]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "sizes", "other"), LARGER.values(), ids=[*LARGER])
def test_where_one_element_is_too_few_sizes_are_found(
    text: str, sizes: dict[str, list[int]], other: list[int], tmp_path: Path
) -> None:
    """Fresh and out of the cache; what is tried is told, and inputs of other sizes are answered."""
    file = tmp_path / "net.onnx"
    file.write_bytes(onnx.parser.parse_model(HEAD + text).SerializeToString())
    for _ in range(2):
        network = load_network(str(file), str(tmp_path), {}, 1e-3)
        assert network.description()["shapes"] == sizes
        (port,) = network.ports["inputs"]
        live = live_of({"x": np.ones(other, DATATYPES[port["datatype"]])})
        for n in range(network.blocks):
            live = network.run_block(n, live)
        assert array_of(live["y"]).size > 0


def test_sizes_of_an_operator_come_before_those_that_are_found(tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    file.write_bytes(onnx.parser.parse_model(HEAD + LARGER["groups of eight"][0]).SerializeToString())
    assert load_network(str(file), str(tmp_path), {}, 1e-3).shapes == {"x": [1, 8]}
    assert load_network(str(file), str(tmp_path), {"x": [2, 24]}, 1e-3).shapes == {"x": [2, 24]}
    with pytest.raises(ModelError, match=r"trial input of x \[1, 9\]"):
        load_network(str(file), str(tmp_path), {"x": [1, 9]}, 1e-3)


def test_another_length_of_blocks_and_sizes_that_are_taken_back_leave_a_network_loadable(
    tmp_path: Path,
) -> None:
    """Its times were kept, so nothing was tried: sizes of one element counted as such that fit, for ever."""
    file = tmp_path / "net.onnx"
    file.write_bytes(onnx.parser.parse_model(HEAD + LARGER["a window"][0]).SerializeToString())
    for target_s in (1.5e-3, 3e-4, 3e-4, 1.5e-3):
        assert load_network(str(file), str(tmp_path), {}, target_s).shapes == {"x": [1, 1, 8, 8]}
    assert load_network(str(file), str(tmp_path), {"x": [1, 1, 9, 9]}, 1e-3).shapes == {"x": [1, 1, 9, 9]}
    assert load_network(str(file), str(tmp_path), {}, 1e-3).shapes == {"x": [1, 1, 8, 8]}


@pytest.mark.parametrize("with_ones", [False, True])
def test_a_block_that_is_too_long_is_no_reason_to_try_another_input(with_ones: bool) -> None:
    """The network ran again, and its reason was lost."""
    ran = list[bool]()

    def work(ones: bool) -> None:
        ran.append(ones)
        raise LongBlock("it takes 80 ms", 0.08) if ones == with_ones else Unfit("zero")

    with pytest.raises(LongBlock):
        on_either(work)
    assert ran == [False, True][: 1 + with_ones]


def test_no_candidate_has_more_elements_than_a_trial_may() -> None:
    ports: Ports = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1] * 5}], "outputs": []}
    found = [each["x"] for each in candidates(ports, {})]
    assert (
        found and all(np.prod(sizes) <= 2**22 for sizes in found) and len({*map(tuple, found)}) == len(found)
    )
    assert [*candidates(ports, {"x": [1] * 5})] == [*candidates({"inputs": [], "outputs": []}, {})] == []


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    here, text = tmp_path / "box.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    here.write_text(text)
    with pytest.raises(ConfigError, match=r"tls_cert: .*gone.pem cannot be read: No such file"):
        tls_context((tmp_path / "gone.pem", here))
    (tmp_path / "key").write_text("eun_secret")
    with pytest.raises(ConfigError, match=r"tls_key: .*key holds no private key in PEM form") as error:
        tls_context((here, tmp_path / "key"))
    assert "eun_secret" not in str(error.value)
    with pytest.raises(ConfigError, match=r"tls_cert = .*box.pem and tls_key = .*own unencrypted key"):
        tls_context((here, here))


def test_a_key_with_a_pass_phrase_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    """As it was, OpenSSL asked at the terminal, and the start waited."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    certificate, key = tmp_path / "box.pem", tmp_path / "key.pem"
    made = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-passout",
        "pass:locked",
        "-subj",
        "/CN=box",
        "-days",
        "2",
    ]
    children.run([openssl, *made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    code = (
        "import sys, pathlib; from eunomia.serving.fronts.certificate import tls_context\n"
        "tls_context((pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))"
    )
    words = children.python("-c", code, certificate, key)
    said = children.run(words, stdin=subprocess.DEVNULL, start_new_session=True)
    assert "give a certificate with its own unencrypted key" in said.stderr
    assert "pass phrase" not in said.stdout + said.stderr.partition("Traceback")[0]


def test_the_example_of_the_guide_fits_its_network(tmp_path: Path) -> None:
    guide = (children.ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    (example,) = (s.body for s in snippets(guide) if s.language == "toml" and "shapes = " in s.body)
    table = {
        **tomllib.loads(example),
        "device": [{"name": "cpu"}],
        "tenant": [{"name": "default"}],
        "anonymous": True,
    }
    (network,) = server_from(table, (), "server.toml", children.ROOT).network
    assert network.onnx is not None and network.shapes == {"text": [1, 128]}
    loaded = load_network(network.onnx, str(tmp_path), network.shapes, 1e-3)
    (port,) = loaded.ports["inputs"]
    assert port["name"] == "text" and port["shape"] == [-1, -1], "as the comment says"
