"""What ONNX Runtime says of a file or an input, in its own words but without places in its source."""

from __future__ import annotations

import re
from pathlib import Path

from eunomia.serving.blocks.remedy import remedy

NODE = re.compile(r"running (\w+) node\. Name:'(.*?)' Status Message: ")
CODE = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : ")
LOADING = re.compile(
    r"^(?:Load model from .*? failed:|Exception during (?:loading|initialization): |Fatal error: |This is an )+"
)
PLACE = re.compile(
    r"\S+\.(?:cc|cpp|h|hpp|cu|cuh):\d+ "
    r"(?:[^()]*::[^()]*\([^()]*\)(?: const)?(?:::<lambda\([^()]*\)>)?(?: \[with [^\]]*\])? |\S+ )"
)
MOST = 300  # letters


def said(text: str) -> str:
    """One sentence: ``Gather: indices element out of data bounds, idx=7``."""
    kind, _, words = failure_of(text)
    return f"{kind}: {words}" if kind else words


def failure_of(text: str) -> tuple[str, str, str]:
    """Operator and name of the innermost node that failed, both empty where none did; and what was wrong."""
    line = _in_one_line(text)
    *_, node = [None, *NODE.finditer(line)]
    rest = LOADING.sub("", CODE.split(line[node.end() :] if node else line)[-1])
    words = PLACE.sub("", rest, count=1) if PLACE.match(rest) else rest
    words = (words.partition(" was false. ")[2] or words).rstrip(". ")
    words = words if len(words) <= MOST else f"{words[:MOST].rpartition(' ')[0]} ..."
    return (node[1], node[2], words) if node else ("", "", words)


def refusal(source: Path, error: Exception) -> str:
    """Why the runtime does not load a network, and what may help."""
    text = str(error)
    return (
        f"ONNX Runtime refuses it: {said(text)}; {remedy(source, type(error).__name__, _in_one_line(text))}"
    )


def _in_one_line(text: str) -> str:
    return " ".join(text.replace("Error in execution: ", "", 1).split())
