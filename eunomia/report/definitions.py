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
CLUSTER_SYMBOLS = (
    "a: arrival of a job. f: its finish. A: seconds that each device was available, added up. N_j: devices of type j; "
    "s_m: devices that job m asks for. All means over the seeds."
)


def anchor(name: str) -> str:
    """Where the definition of a metric stands in the page."""
    return f"what-{name}"


def heading(name: str, metric: Metric) -> str:
    """A column's heading, a link to its definition where there is one."""
    return linked(metric.heading, name if metric.definition else None)


def named(columns: Iterable[str], metrics: Mapping[str, Metric]) -> dict[str, str]:
    """Names of metrics by column, where a column is headed as one, with a unit perhaps: ``hit rate, %``."""
    known = {text: name for name, m in metrics.items() if m.definition for text in (m.label, m.heading)}
    found = {column: known.get(column.partition(", ")[0]) for column in columns}
    return {column: name for column, name in found.items() if name}


def linked(column: str, name: str | None) -> str:
    """HTML of a column's heading that is text, a link to the definition of its metric where it has one."""
    text = html.escape(column)
    return f'<a href="#{anchor(name)}">{text}</a>' if name else text


def definitions(names: Iterable[str], metrics: Mapping[str, Metric], symbols: str) -> str:
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
        f'<p class="muted">{html.escape(symbols)}</p><dl class="what">{items}</dl></details>'
    )


def _plain(text: str) -> str:
    return re.sub(r"`+", "", text)
