"""What ONNX Runtime says of a file or an input, in its own words but without places in its source; and what helps."""

from __future__ import annotations

import re
from pathlib import Path

NODE = re.compile(r"running (\w+) node\. Name:'.*?' Status Message: ")
CODE = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : ")
LOADING = re.compile(
    r"^(?:Load model from .*? failed:|Exception during (?:loading|initialization): |Fatal error: |This is an )+"
)
PLACE = re.compile(
    r"\S+\.(?:cc|cpp|h|hpp|cu|cuh):\d+ (?:[^()]*::[^()]*\([^()]*\)(?: const)?(?: \[with [^\]]*\])? |\S+ )"
)
MOST = 300  # letters
POINTER = b"version https://git-lfs"
STANDARD = (
    "",
    "ai.onnx",
    "ai.onnx.ml",
    "ai.onnx.training",
    "ai.onnx.preview.training",
    "com.microsoft",
    "com.ms.internal.nhwc",
)


def said(text: str) -> str:
    """One sentence: ``Gather: indices element out of data bounds, idx=7``."""
    line = " ".join(text.replace("Error in execution: ", "", 1).split())
    *_, kind, rest = ["", *NODE.split(line)[-2:]] if NODE.search(line) else ["", line]
    rest = LOADING.sub("", CODE.split(rest)[-1])
    words = PLACE.sub("", rest, count=1) if PLACE.match(rest) else rest
    words = (words.partition(" was false. ")[2] or words).rstrip(". ")
    words = words if len(words) <= MOST else f"{words[:MOST].rpartition(' ')[0]} ..."
    return f"{kind}: {words}" if kind else words


def refusal(source: Path, error: Exception) -> str:
    """Why the runtime does not load a network, and what may help: from its kind of error, and from the file itself."""
    return f"ONNX Runtime refuses it: {said(str(error))}; {remedy(source, type(error).__name__)}"


def remedy(source: Path, kind: str) -> str:
    """``kind``: of the runtime's exceptions."""
    import onnx

    with source.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            return "it is a pointer of Git LFS: fetch the file itself with `git lfs pull`"
    if kind == "InvalidProtobuf":
        return (
            "it is no ONNX file, or not all of one: copy it again, or export it again with torch.onnx.export"
        )
    try:
        model = onnx.load(str(source), load_external_data=False)
    except Exception:  # protobuf has no common base for its errors
        return "export it again with torch.onnx.export"
    own = sorted({entry.domain for entry in model.opset_import} - set(STANDARD))
    if own:
        return f"operators of '{own[0]}' need a library that is not loaded here: export it with operators of ONNX alone"
    opset = max((entry.version for entry in model.opset_import if entry.domain in STANDARD[:2]), default=0)
    if kind == "NotImplemented":
        return "the processor has no kernel for it: export it in float32, or without that operator"
    return (
        f"onnx.checker.check_model says more; export it again with another opset_version (it has {opset}; try 17) or "
        "another version of the exporter"
    )
