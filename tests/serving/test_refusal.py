"""Why a network does not load, and what helps: from the runtime's kind of error and from the file itself."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest
from onnx import load_from_string, parser

from eunomia.core.errors import ConfigError, ModelError, UnknownNameError
from eunomia.inference.policies import load_policy
from eunomia.serving.blocks import optimise
from eunomia.serving.blocks.refusal import refusal
from eunomia.study.inference.policy import resolve_policy

BROKEN = "it is no ONNX file, or not all of one: copy it again, or export it again with torch.onnx.export"
RELU = parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (float[n] y) { y = Relu(x) }'
)


PLAIN = 'ir_version: 8, opset_import: ["" : 17]'
FREE = "(float[n, 4] x) => (float[n, 4] y)"


def network(body: str, head: str = PLAIN, ports: str = FREE) -> bytes:
    return bytes(parser.parse_model(f"<{head}> g {ports} {{ {body} }}").SerializeToString())


def of_opset(version: int) -> str:
    return f'ir_version: 8, opset_import: ["" : {version}]'


def like(kind: str) -> str:
    return FREE.replace("float", kind)


def renamed(content: bytes, name: str) -> bytes:
    """All nodes have this name."""
    model = load_from_string(content)
    for node in model.graph.node:
        node.name = name
    return bytes(model.SerializeToString())


def without_opset(content: bytes) -> bytes:
    model = load_from_string(content)
    del model.opset_import[:]
    return bytes(model.SerializeToString())


def zipped() -> bytes:
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("data.pkl", b"tensors")
        return file.getvalue()


GRAPH = "the graph is wrong in any opset: onnx.checker.check_model with full_check=True says where; export it again"
ALONE = "export it with operators of ONNX alone"
MISFIT = (
    "{} is not written so in opset 17, which the file declares: onnx.checker.check_model says more; export it"
)
OLD = "the processor has kernels from opset 7 on: export it with opset_version=17, or convert it with onnx.version_conv"
OLDER = "or lower, or install a newer onnxruntime"
OWN = f"operators of 'com.acme' need a library that is not loaded here: {ALONE}"
KERNEL = "the processor has no kernel for it: export it "
FILES = {
    "nothing": (b"", "No graph was found", "the file is empty: copy it again, or export it again with torch"),
    "noise": (b"no network at all", "Protobuf parsing failed", BROKEN),
    "half": (RELU.SerializeToString()[:-9], "Protobuf parsing failed", BROKEN),
    "its first bytes": (RELU.SerializeToString()[:2], "No graph was found", BROKEN),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\n", "Protobuf parsing failed",
                  "it is a pointer of Git LFS: fetch the file itself with `git lfs pull`"),
    "an archive": (zipped(), "Protobuf parsing failed",
                   "it is a zip archive: unpack it; what torch.save wrote has to be exported with torch.onnx.export"),
    "an operator": (network("y = Nonesuch(x)"), "No Op registered for Nonesuch",
                    f"ONNX has no operator 'Nonesuch': {ALONE}"),
    "another beside a foreign domain": (
        network("y = Nonesuch(x)", 'ir_version: 8, opset_import: ["" : 17, "com.acme" : 1]'),
        "No Op registered for Nonesuch", f"ONNX has no operator 'Nonesuch': {ALONE}",
    ),
    "an operator of later": (network("y = Gelu(x)", of_opset(12)), "No Op registered for Gelu",
                             "ONNX has Gelu from version 20 on: export it with opset_version=20 or higher"),
    "an operator of before": (network("y = Upsample(x, x)"), "Op registered for Upsample is deprecated",
                              "ONNX has Upsample up to version 9: export it with opset_version=9, or without that op"),
    "an operator of later elsewhere": (
        network("y = ai.onnx.ml.TreeEnsemble(x)", 'ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]'),
        "No Op registered for TreeEnsemble",
        "ONNX has TreeEnsemble from version 5 on: export it with version 5 of ai.onnx.ml or higher",
    ),
    "an operator of its own": (
        network("y = com.acme.Own(x)", 'ir_version: 8, opset_import: ["" : 17, "com.acme" : 1]'),
        "com.acme:Own(-1) is not a registered function/op", OWN,
    ),
    "an operator of its own, undeclared": (network("y = com.acme.Own(x)"), "No opset import for domain", OWN),
    "none of the runtime's": (
        network("y = com.microsoft.Nonesuch(x)", 'ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]'),
        "com.microsoft:Nonesuch(-1) is not a", f"this ONNX Runtime lacks it in 'com.microsoft': {ALONE}",
    ),
    "an opset": (network("y = Relu(x)", of_opset(99)), "ONNX Runtime only *guarantees* support", OLDER),
    "an opset elsewhere": (network("y = Relu(x)", 'ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 99]'),
                           "ONNX Runtime only *guarantees* support", f"of ai.onnx.ml {OLDER}"),
    "no opset": (without_opset(network("y = Relu(x)")), "Missing opset in the model",
                 "export it again with opset_version=17"),
    "an old opset": (network("y = Add(x, x)", of_opset(6)), "Could not find an implementation for Add(6)", OLD),
    "a format": (network("y = Relu(x)", 'ir_version: 99, opset_import: ["" : 17]'),
                 "Unsupported model IR version: 99", "and save it with onnx.save, or install a newer onnxruntime"),
    "names of nodes": (renamed(network("z = Relu(x) y = Relu(z)"), "n"), "two nodes with same node name (n)",
                       "give its nodes names of their own or none, as in node.name = '', and save it with onnx.save"),
    "a cycle": (network("z = Add(x, w) w = Relu(z) y = Relu(w)"), "the graph is not acyclic", GRAPH),
    "an input": (network("y = Add(x, w)"), "Node input 'w' is not a graph input", GRAPH),
    "an output": (network("z = Relu(x)"), "Graph output (y) does not exist", GRAPH),
    "an output twice": (network("y = Relu(x) y = Relu(x)"), "Duplicate definition of name (y)", GRAPH),
    "types": (network("y = Add(x, k)", ports="(float[n] x, int64[n] k) => (float[n] y)"),
              "bound to different types (tensor(float) and tensor(int64)", GRAPH),
    "a type of an output": (network("y = Relu(x)", ports="(float[n] x) => (int64[n] y)"),
                            "does not match expected type", GRAPH),
    "sizes": (network("y = MatMul(x, k)", ports="(float[3, 4] x, float[3, 4] k) => (float[n, 4] y)"),
              "Incompatible dimensions", GRAPH),
    "too few inputs": (network("y = Add(x)"), "has input size 1 not in range", MISFIT.format("Add")),
    "an attribute": (network("y = Relu<zap = 1>(x)"), "Unrecognized attribute: zap", MISFIT.format("Relu")),
    "a type": (network("y = Sinh(x)", ports=like("bfloat16")), "Type 'tensor(bfloat16)' of input",
               "export it in float32 or with opset_version=22 or higher"),
    "texts": (network("y = Relu(x)", ports=like("string")), "Type 'tensor(string)' of input",
              "cast that input to a type that Relu takes"),
    "a type of later": (
        network("y = Equal(x, x)", of_opset(10), "(float[n] x) => (bool[n] y)"), "Type 'tensor(float)' of input",
        "cast that input to a type that Equal takes, or export it with opset_version=11 or higher",
    ),
    "a kernel": (network("y = Erf(x)", ports=like("double")), "Could not find an implementation for Erf",
                 f"{KERNEL}in float32, or without that operator"),
    "a kernel for integers": (
        network('y = BitShift<direction = "LEFT">(x, x)', ports=like("uint16")), "Could not find an implementation for",
        f"{KERNEL}without that operator, or with another opset_version (it has 17; try 20)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_does_not_load_is_refused_with_a_remedy(what: str, tmp_path: Path) -> None:
    content, words, remedy = FILES[what]
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(ModelError) as refused:
        optimise(tmp_path / "net.onnx", tmp_path / "cache")
    said = str(refused.value)
    assert said.startswith(f"{tmp_path}/net.onnx: ONNX Runtime refuses it: ")
    assert words in said and remedy in said
    assert (
        ".cc:" not in said
        and "ONNXRuntimeError" not in said
        and said.count("net.onnx") == 1
        and len(said) < 800
    )
    proposed = {int(number) for number in re.findall(r"(?:opset_version=|try |ir_version = )(\d+)", said)}
    model = load_from_string(content if proposed else b"")
    has = {model.ir_version, *(entry.version for entry in model.opset_import)}
    assert not proposed & has, "no remedy is what the file has already"


def test_a_locale_that_is_missing_is_to_be_installed(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(RELU.SerializeToString())
    error = RuntimeError(
        "[ONNXRuntimeError] : 1 : FAIL : Exception during initialization: /onnxruntime_src/onnxruntime/core/"
        "providers/cpu/text/string_normalizer.cc:235 onnxruntime::StringNormalizer::Locale::Locale(const std::string&)"
        "::<lambda()> Failed to construct locale with name:de_AT.UTF-8:locale::facet::_S_create_c_locale name not "
        "valid:Please, install necessary language-pack-XX and configure locales\n"
    )
    said = refusal(tmp_path / "net.onnx", error)
    assert said.startswith("ONNX Runtime refuses it: Failed to construct locale with name:de_AT.UTF-8")
    assert "; this machine lacks that locale: `localedef -i de_AT -f UTF-8 de_AT.UTF-8` makes it" in said


def test_of_many_names_the_nearest_are_given_and_where_the_list_is() -> None:
    with pytest.raises(ConfigError) as refused:
        load_policy("triag")
    assert str(refused.value) == (
        "unknown policy 'triag'; did you mean 'triage', 'triage_sjf' or 'triage_edf'? `eunomia policies` lists them all"
    )
    far = UnknownNameError("policy", "zzz", map(str, range(20)))
    assert str(far) == "unknown policy 'zzz'; `eunomia policies` lists them all"
    assert str(UnknownNameError("policy", "fcsf", ["fcfs", "edf"])) == (
        "unknown policy 'fcsf'; did you mean 'fcfs'? choose one of: edf, fcfs"
    )
    for name in ("zzz", "mine:first", "lib/edf", "zzz(a=1)"):
        with pytest.raises(
            ConfigError, match="`eunomia policies` lists them all; a policy is .*, FILE.py:FUNCTION, a"
        ):
            resolve_policy(name)
    with pytest.raises(ConfigError, match="lists them all$"):
        resolve_policy("triag")
    unlisted = str(UnknownNameError("colour", "1", map(str, range(20))))
    assert unlisted.startswith("unknown colour '1'; did you mean '1'? choose one of: 0, 1, 10")
