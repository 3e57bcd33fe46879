"""results/serving.md, one part per command: a run replaces its own part and leaves the others."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parents[2] / "results" / "serving.md"
ORDER = (
    "conformance", "cost", "isolation", "preemption", "fidelity", "learned", "faults", "connections", "soak",
    "batching", "peers",
)  # fmt: skip
HEAD = """# The live server, measured

Each part is written by the command that it names; every comparison is made in one run, on the same cores, with the
same ONNX Runtime options (one thread, no spinning), the same client and the same seeds. The front end and the
client share one core, the device has the other. "+-" is a 95 % interval over seeds.
"""


def write_part(name: str, title: str, lines: Sequence[str]) -> None:
    """Put one part into the page, in the page's order."""
    parts = read_parts()
    parts[name] = "\n".join(
        [f"## {title}", "", f"`python -m benchmarks.serving.{name}`", "", *lines]
    ).rstrip()
    text = HEAD + "".join(f"\n<!-- {n} -->\n{parts[n]}\n" for n in ORDER if n in parts)
    PAGE.write_text(text)


def read_parts() -> dict[str, str]:
    """Parts of the page as it is."""
    if not PAGE.exists():
        return {}
    pieces = re.split(r"^<!-- (\w+) -->\n", PAGE.read_text(), flags=re.MULTILINE)
    return {name: text.rstrip() for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}


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
