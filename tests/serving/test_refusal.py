"""Why a network does not load, and what helps: from the runtime's kind of error and from the file itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import parser

from eunomia.core.errors import ConfigError, ModelError, UnknownNameError
from eunomia.inference.policies import load_policy
from eunomia.serving.blocks import optimise
from eunomia.study.inference.policy import resolve_policy

RELU = parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (float[n] y) { y = Relu(x) }'
)


def network(head: str, body: str, kind: str = "float") -> bytes:
    text = f"<{head}> g ({kind}[n, 4] x) => ({kind}[n, 4] y) {{ {body} }}"
    return bytes(parser.parse_model(text).SerializeToString())


PLAIN = 'ir_version: 8, opset_import: ["" : 17]'
CHECK = "onnx.checker.check_model says more; export it again with another opset_version (it has {}; try 17)"
BROKEN = "it is no ONNX file, or not all of one: copy it again, or export it again with torch.onnx.export"
FILES = {
    "noise": (b"no network at all", "Protobuf parsing failed", BROKEN),
    "half": (RELU.SerializeToString()[:-9], "Protobuf parsing failed", BROKEN),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\n", "Protobuf parsing failed",
                  "it is a pointer of Git LFS: fetch the file itself with `git lfs pull`"),
    "an operator": (network(PLAIN, "y = Nonesuch(x)"), "No Op registered for Nonesuch", CHECK.format(17)),
    "an operator of its own": (
        network('ir_version: 8, opset_import: ["" : 17, "com.acme" : 1]', "y = com.acme.Own(x)"),
        "com.acme:Own(-1) is not a registered function/op",
        "operators of 'com.acme' need a library that is not loaded here: export it with operators of ONNX alone",
    ),
    "an opset": (network('ir_version: 8, opset_import: ["" : 99]', "y = Relu(x)"),
                 "ONNX Runtime only *guarantees* support for models stamped with official", CHECK.format(99)),
    "a format": (network('ir_version: 99, opset_import: ["" : 17]', "y = Relu(x)"),
                 "Unsupported model IR version: 99", CHECK.format(17)),
    "a type": (network(PLAIN, "y = Sinh(x)", "bfloat16"), "Type 'tensor(bfloat16)' of input", CHECK.format(17)),
    "a kernel": (network(PLAIN, "y = Erf(x)", "double"), "Could not find an implementation for Erf",
                 "the processor has no kernel for it: export it in float32, or without that operator"),
}  # fmt: skip


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_does_not_load_is_refused_with_a_remedy(what: str, tmp_path: Path) -> None:
    content, words, remedy = FILES[what]
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(ModelError) as refused:
        optimise(tmp_path / "net.onnx", tmp_path / "cache")
    said = str(refused.value)
    assert said.startswith(f"{tmp_path}/net.onnx: ONNX Runtime refuses it: ")
    assert words in said and f"; {remedy}" in said
    assert (
        ".cc:" not in said
        and "ONNXRuntimeError" not in said
        and said.count("net.onnx") == 1
        and len(said) < 800
    )


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
