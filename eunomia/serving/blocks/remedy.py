"""What helps where ONNX Runtime refuses a network: by its words, and by what the file says of itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

USUAL, ELSE = 17, 20  # opsets that most exporters write; the second where a file has the first
FIRST = 7  # older opsets have no kernels for the processor
OFFICIAL = ("", "ai.onnx")  # two names of ONNX's own operators
STANDARD = (
    *OFFICIAL,
    "ai.onnx.ml",
    "ai.onnx.training",
    "ai.onnx.preview.training",
    "com.microsoft",
    "com.ms.internal.nhwc",
)
EMPTY = "the file is empty: copy it again, or export it again with torch.onnx.export"
BROKEN = "it is no ONNX file, or not all of one: copy it again, or export it again with torch.onnx.export"
HEADS = {
    b"version https://git-lfs": "it is a pointer of Git LFS: fetch the file itself with `git lfs pull`",
    b"PK\x03\x04": "it is a zip archive: unpack it; what torch.save wrote has to be exported with torch.onnx.export",
}
GRAPH = "the graph is wrong in any opset: onnx.checker.check_model with full_check=True says where; export it again"
RENAME = "give its nodes names of their own or none, as in node.name = '', and save it with onnx.save"
FORMAT = "set model.ir_version = {0} and save it with onnx.save, or install a newer onnxruntime"
NO_KERNEL = "the processor has no kernel for it: export it"
LOCALE = (
    "this machine lacks that locale: `localedef -i {0} -f {1} {0}.{1}` makes it (Debian: package locales); then start "
    "the server again"
)
FLOATS = ("float16", "bfloat16", "double")  # exporters write float32 in their place
LONGEST = 4000  # letters of the runtime's words that are looked at: names in a file may be of any length

Known = tuple[re.Pattern[str], Callable[[re.Match[str], "onnx.ModelProto"], str]]


def remedy(source: Path, kind: str, words: str) -> str:
    """``kind``: of the runtime's exceptions; ``words``: all that it says, in one line."""
    import onnx

    with source.open("rb") as file:
        head = file.read(max(map(len, HEADS)))
    if not head:
        return EMPTY
    if (found := next((text for start, text in HEADS.items() if head.startswith(start)), None)) is not None:
        return found
    if kind == "InvalidProtobuf":
        return BROKEN
    try:
        model = onnx.load(str(source), load_external_data=False)
    except Exception:  # protobuf has no common base for its errors
        return "export it again with torch.onnx.export"
    for pattern, helps in KNOWN:
        if match := pattern.search(words, 0, LONGEST):
            return helps(match, model)
    if kind == "NotImplemented":
        return _without_kernel(model)
    other = _other_opset(model)
    return (
        f"onnx.checker.check_model says more; export it again with {other} or another version of the exporter"
    )


def _opset(model: onnx.ModelProto) -> int:
    """Of ONNX's own operators; 0 = it declares none."""
    return max((entry.version for entry in model.opset_import if entry.domain in OFFICIAL), default=0)


def _other_opset(model: onnx.ModelProto) -> str:
    if (has := _opset(model)) == 0:
        return "another opset_version"
    return f"another opset_version (it has {has}; try {ELSE if has == USUAL else USUAL})"


def _without_kernel(model: onnx.ModelProto) -> str:
    """An operator of ONNX that this processor cannot run as the file has it."""
    import onnx

    if 0 < _opset(model) < FIRST:
        return (
            f"the processor has kernels from opset {FIRST} on: export it with opset_version={USUAL}, or convert it "
            "with onnx.version_converter"
        )
    tensors = [value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)]
    tensors += [weight.data_type for weight in model.graph.initializer]
    if {onnx.TensorProto.DataType.Value(kind.upper()) for kind in FLOATS} & set(tensors):
        return f"{NO_KERNEL} in float32, or without that operator"
    return f"{NO_KERNEL} without that operator, or with {_other_opset(model)}"


def _named(domain: str, version: int) -> str:
    return f"opset_version={version}" if domain in OFFICIAL else f"version {version} of {domain}"


def _newer(found: re.Match[str], model: onnx.ModelProto) -> str:
    """More than the runtime knows."""
    return f"export it with {_named(found[1], int(found[2]))} or lower, or install a newer onnxruntime"


def _locale(found: re.Match[str], model: onnx.ModelProto) -> str:
    language, _, encoding = found[1].partition(".")
    return LOCALE.format(language, encoding or "UTF-8")


def _foreign(found: re.Match[str], model: onnx.ModelProto) -> str:
    """An operator that is not ONNX's."""
    domain = found[1]
    if domain in STANDARD:
        return f"this ONNX Runtime lacks it in '{domain}': export it with operators of ONNX alone"
    return f"operators of '{domain}' need a library that is not loaded here: export it with operators of ONNX alone"


def _operator(found: re.Match[str], model: onnx.ModelProto) -> str:
    """One that the version of its domain does not have."""
    import onnx

    name, domain, has = found[1], found[2], int(found[3])
    history = [
        one for one in onnx.defs.get_all_schemas_with_history() if (one.name, one.domain) == (name, domain)
    ]
    later = [one.since_version for one in history if one.since_version > has and not one.deprecated]
    dropped = [one.since_version for one in history if one.since_version <= has and one.deprecated]
    if dropped:
        last = min(dropped) - 1
        return f"ONNX has {name} up to version {last}: export it with {_named(domain, last)}, or without that operator"
    if later:
        first = min(later)
        return f"ONNX has {name} from version {first} on: export it with {_named(domain, first)} or higher"
    return f"ONNX has no operator '{name}': export it with operators of ONNX alone"


def _type(found: re.Match[str], model: onnx.ModelProto) -> str:
    """One that an operator does not take, at least in the opset of the file."""
    import onnx

    kind, name = found[1], found[2]
    later = [
        one.since_version
        for one in onnx.defs.get_all_schemas_with_history()
        if (one.name, one.domain) == (name, "")
        and one.since_version > _opset(model)
        and any(kind in types.allowed_type_strs for types in one.type_constraints)
    ]
    raised = f"with opset_version={min(later)} or higher" if later else ""
    if kind.removeprefix("tensor(").rstrip(")") in FLOATS:
        return "export it " + " or ".join(filter(None, ("in float32", raised)))
    return f"cast that input to a type that {name} takes" + (f", or export it {raised}" if later else "")


def _misfit(found: re.Match[str], model: onnx.ModelProto) -> str:
    return (
        f"{found[1] or found[2]} is not written so in opset {_opset(model)}, which the file declares: "
        "onnx.checker.check_model says more; export it again"
    )


KNOWN: tuple[Known, ...] = tuple(
    (re.compile(pattern), helps)
    for pattern, helps in (
        (r"No graph was found", lambda found, model: BROKEN),
        (r"max supported IR version: (\d+)", lambda found, model: FORMAT.format(found[1])),
        (r"support for domain (\S+) is till opset (\d+)", _newer),
        (r"Missing opset in the model", lambda found, model: f"export it again with opset_version={USUAL}"),
        (r"construct locale with name:([\w.@-]+)", _locale),
        (r"two nodes with same node name", lambda found, model: RENAME),
        (r"(\S+):\w+\(-?\d+\) is not a registered function/op", _foreign),
        (r"No opset import for domain '(.*?)'", _foreign),
        (
            r'In Node, \(".*?", (\w+), "(.*?)", .*No Op registered for \w+ with domain_version of (\d+)',
            _operator,
        ),
        (r'In Node, \(".*?", (\w+), "(.*?)", .*is deprecated in domain_version of (\d+)', _operator),
        (r"Type '(tensor\(\w+\))' of input parameter .* of operator \((\w+)\)", _type),
        (r"schema\(\w*::(\w+):\d+\) has |Unrecognized attribute: .* for operator (\w+)", _misfit),
        (
            r"not acyclic|Duplicate definition|is not a graph input|does not exist in the graph",
            lambda found, model: GRAPH,
        ),
        (r"bound to different types|does not match expected|ShapeInferenceError", lambda found, model: GRAPH),
    )
)
