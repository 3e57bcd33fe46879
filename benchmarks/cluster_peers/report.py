"""Tables in Markdown, and parts of results/cluster_peers.md replaced one by one."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from eunomia.metrics.statistics import Estimate, interval

PAGE = Path(__file__).resolve().parents[2] / "results" / "cluster_peers.md"
HEAD = """# Peers of the cluster wing

Simulated. Written by `python -m benchmarks.cluster_peers --write`; each part by the command it names. Figures are means
over seeds with 95 % Student-t intervals; every policy meets the same jobs of each seed.
"""


def cell(values: Sequence[float], digits: int = 2, percent: bool = False) -> str:
    """``1.23 ± 0.04`` over seeds."""
    estimate: Estimate = interval(np.array(values, float))
    factor, unit = (100.0, " %") if percent else (1.0, "")
    text = f"{estimate.mean * factor:.{digits}f}"
    if estimate.has_interval:
        text += f" ± {estimate.half_width * factor:.{digits}f}"
    return text + unit


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is left-aligned."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" + " ---: |" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def machine() -> str:
    """What the figures were computed with."""
    return f"Python {platform.python_version()}, NumPy {np.__version__}"


def write(parts: Mapping[str, str], page: Path = PAGE) -> None:
    """Replace the named parts of the page; others stay."""
    text = page.read_text(encoding="utf-8") if page.exists() else HEAD
    for name, body in parts.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        block = f"{begin}\n{body.strip()}\n{end}"
        if begin in text:
            before, rest = text.split(begin, 1)
            text = before + block + rest.split(end, 1)[1]
        else:
            text = text.rstrip() + "\n\n" + block + "\n"
    page.write_text(text, encoding="utf-8")
