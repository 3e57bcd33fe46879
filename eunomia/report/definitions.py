"""What the columns of a table mean: the docstring of each formula, folded away below the table."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping

from eunomia.metrics.metric import Metric

SYMBOLS = (
    "A: the requests measured. H: those that hit. F: those that finished. n: the tenants with measured requests; x_u: "
    "the hit rate of tenant u. S: the accelerators. T: the time measured. iso: the time of a network alone. All means "
    "over the seeds."
)


def anchor(name: str) -> str:
    """Where the definition of a metric stands in the page."""
    return f"what-{name}"


def heading(name: str, metric: Metric) -> str:
    """A column's heading, a link to its definition where there is one."""
    text = html.escape(metric.heading)
    return f'<a href="#{anchor(name)}">{text}</a>' if metric.definition else text


def definitions(names: Iterable[str], metrics: Mapping[str, Metric]) -> str:
    """A folded list; nothing where no column has a definition. A link to one of them unfolds it."""
    found = [(name, metrics[name]) for name in names if name in metrics and metrics[name].definition]
    if not found:
        return ""
    items = "".join(
        f'<dt id="{anchor(name)}">{html.escape(metric.label)}</dt><dd>{html.escape(_plain(metric.definition))}</dd>'
        for name, metric in found
    )
    return (
        "<details><summary>What the columns mean</summary>"
        f'<p class="muted">{html.escape(SYMBOLS)}</p><dl class="what">{items}</dl></details>'
    )


def _plain(text: str) -> str:
    return re.sub(r"`+", "", text)
