"""Tables of the live server's page, and the machine that they come from."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A Markdown table; every column but the first is aligned to the right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return ["| " + " | ".join(map(str, row)) + " |" for row in (head, rule, *rows)]


def machine_line() -> str:
    """What it was measured on."""
    import onnxruntime as ort

    model = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.processor())  # fmt: skip
    return f"{model}, Python {platform.python_version()}, ONNX Runtime {ort.__version__}."
