"""Write the generated parts of the documents, or check that they are up to date, and in the site's navigation.

    python -m checks.pages            # one line per part that differs from the code; exit status 1 if there is any
    python -m checks.pages --write    # `make docs`

A part stands between ``<!-- generated: NAME -->`` and ``<!-- end of NAME -->``. ``PARTS`` gives its text by name.
"""

from __future__ import annotations

import inspect
import itertools
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

from checks.site.navigation import missing
from eunomia.contract.contention import CONTENTION
from eunomia.metrics.cluster import CLUSTER_METRICS
from eunomia.metrics.table import METRICS

ROOT = Path(__file__).resolve().parent.parent
PART = re.compile(
    r"(?P<head><!-- generated: (?P<name>[\w-]+) -->\n)(?P<text>.*?)(?P<foot><!-- end of (?P=name) -->)",
    re.DOTALL,
)
WIDTH = 116


def contention() -> str:
    """The models with the formulas from their plain forms."""
    return "".join(_item(f"`{name}`: {_text(model.plain)}") for name, model in CONTENTION.items())


def metrics() -> str:
    """One item per formula, for all metrics that share it."""
    found = []
    for _, group in itertools.groupby(METRICS.items(), lambda item: id(item[1].formula)):
        members = list(group)
        units = {(metric.unit, metric.better) for _, metric in members}
        alike = len(units) == 1
        names = [
            f"`{name}`" if alike else f"`{name}` ({metric.unit}; {metric.better})" for name, metric in members
        ]
        reading = f" ({'; '.join(units.pop())})" if alike else ""
        text = re.sub(r"(Source|Misleads):", r"*\1*:", members[0][1].definition.replace("``", "`"))
        found.append(_item(f"{', '.join(names)}{reading}: {text}"))
    return "".join(found)


def cluster_metrics() -> str:
    """A row per formula of the cluster wing."""
    groups = itertools.groupby(CLUSTER_METRICS.values(), lambda metric: metric.definition)
    rows = [f"| {', '.join(metric.heading for metric in group)} | {text} |\n" for text, group in groups]
    return "| figure | formula |\n|---|---|\n" + "".join(rows)


def _text(documented: object) -> str:
    """A docstring in one line, without its paragraph of errors."""
    paragraphs = (inspect.getdoc(documented) or "").split("\n\n")
    return " ".join(" ".join(p for p in paragraphs if not p.startswith("Raises ")).split()).replace("``", "`")


def _item(text: str) -> str:
    return (
        textwrap.fill(
            text,
            WIDTH,
            initial_indent="* ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
    )


PARTS: Mapping[str, Callable[[], str]] = {
    "contention": contention,
    "metrics": metrics,
    "cluster-metrics": cluster_metrics,
}


def generated(text: str) -> str:
    """A document with its parts written anew."""
    return PART.sub(lambda part: part["head"] + PARTS[part["name"]]() + part["foot"], text)


def main(arguments: list[str]) -> int:
    """1 where a document differs and is not written."""
    stale = 0
    for name in missing():
        stale = 1
        print(f"{name}: not in the navigation of the site; add it to nav in mkdocs.yml")
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        wanted = generated(text)
        if wanted != text and "--write" in arguments:
            path.write_text(wanted, encoding="utf-8")
        elif wanted != text:
            stale = 1
            print(f"{path.relative_to(ROOT)}: a generated part differs from the code; run `make docs`")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
