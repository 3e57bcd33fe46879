"""Every scheduler: idea, formula, deviations, where it does badly, and its measured row.

The words are docstrings: of the policy, and of its file, whose head gives source, formula and deviations. The measured
row comes from the pages of results.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from types import ModuleType

from checks.site.navigation import ROOT
from checks.site.reference.words import marked, prose

HEAD = """# Every scheduler

Made from the code: idea and formula, what differs from its source, where it does badly, and a measured row.
[Policies](../docs/policies.md) explains names such as `edf+f+eft+g0.9`;
[deviations](../docs/deviations.md) numbers what the papers leave open.

**Measured** under a policy of requests: mean hit rate over 36 places (sets x QoS x load; 95 % interval over seeds), and
how many points that is from the best rule chosen on validation traces
([all rows](../results/baselines.md#all-policies)). Under a policy of the cluster: worst rho and mean completion at load
1.2 ([all rows](../results/cluster_peers.md#load-12-offered-work-over-capacity-during-the-arrivals)). "-": not in that
table.
"""
PEERS = {  # name of a cluster policy -> its row in the table of peers
    "themis": "Themis, f = 0.8, lottery",
    "themis_strawman": "strawman",
    "tiresias": "Tiresias 2D-LAS",
    "gittins": "Tiresias Gittins",
    "least_attained_service": "least attained service",
    "gandiva": "Gandiva, no packing",
    "gandiva_packed": "Gandiva, with packing",
    "optimus": "Optimus (rigid jobs)",
    "slaq": "SLAQ (rigid jobs)",
    "drf": "DRF",
    "srtf": "SRTF",
    "srsf": "SRSF",
    "finish_time_fairness_perf": "Gavel's finish-time fairness",
}
BADLY = re.compile(r"(?:^|(?<=[.:;] ))does badly\b", re.IGNORECASE)
DEVIATIONS = re.compile(r"^Deviations?\b", re.IGNORECASE)


def schedulers() -> str:
    """One section per scheduler: policies of requests, orders, policies of the cluster."""
    from eunomia.cluster.policies.catalogue import ALLOCATORS
    from eunomia.inference.policies import POLICIES
    from eunomia.inference.policies.ordering import ORDERS, find_order

    parts = [HEAD, table()]
    parts.append("\n## Policies of requests\n")
    for name in POLICIES.names():
        parts.append(_section(name, POLICIES.load(name), _request_row(name)))
    parts.append("\n## Orders\n")
    for name in ORDERS:
        if name not in POLICIES:
            parts.append(_section(name, find_order(name).key, _request_row(name), of_file=False))
    parts.append("\n## Policies of the cluster\n")
    for name in ALLOCATORS.names():
        parts.append(_section(name, ALLOCATORS.load(name), _cluster_row(name)))
    return "".join(parts)


def table() -> str:
    """All of them in one table: the idea in a line, and the measured row."""
    from eunomia.cluster.policies.catalogue import ALLOCATORS
    from eunomia.inference.policies import POLICIES

    rows = ["\n| scheduler | idea | measured |\n|---|---|---|\n"]
    for registry, row in ((POLICIES, _request_row), (ALLOCATORS, _cluster_row)):
        for name in registry.names():
            idea = " ".join((inspect.getdoc(registry.load(name)) or "").split("\n\n")[0].split())
            rows.append(
                f"| [`{name}`](#{name.lower()}) | {marked(idea).replace('|', chr(92) + '|')} | {row(name)} |\n"
            )
    return "".join(rows)


def _section(name: str, found: object, measured: str, of_file: bool = True) -> str:
    own = prose(found)
    head = _head_of(found) if of_file else ""
    text = own if not head or head.split("\n")[0] in own else f"{own}\n\n{head}"
    badly = "" if BADLY.search(text) else "\n*Does badly*: not said.\n"
    return f"\n### {name}\n\n{_emphasised(text)}\n{badly}\n*Measured*: {measured}\n"


def _head_of(found: object) -> str:
    """What stands at the head of the file that holds a scheduler, if the file is about it."""
    module = inspect.getmodule(found)
    words = inspect.getdoc(module) if isinstance(module, ModuleType) else ""
    about_it = bool(words) and any(DEVIATIONS.match(p) or BADLY.match(p) for p in words.split("\n\n"))
    return marked(words or "") if about_it else ""


def _emphasised(text: str) -> str:
    text = re.sub(r"\b(Does badly|Source|Deviations?)(:| )", r"*\1*\2", text, count=6)
    return text


def _request_row(name: str) -> str:
    rows = measured_rows("baselines", "All policies")
    shown = [f"{label}: {row[1]} %{_against(row)}" for label, row in _rows_of(name, rows)]
    return "; ".join(shown) or "-"


def _rows_of(name: str, rows: Mapping[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    for label in (name, f"{name}+tuned"):
        if label in rows:
            yield f"`{label}`", rows[label]


def _against(row: list[str]) -> str:
    return f", {row[6].partition(' [')[0]} points" if row[6] else ""


def _cluster_row(name: str) -> str:
    row = measured_rows("cluster_peers", "Load 1.2").get(PEERS.get(name, ""))
    return f"worst rho {row[1]}, completion {row[6]} h" if row else "-"


@cache
def measured_rows(page: str, heading: str) -> Mapping[str, list[str]]:
    """Rows of the first table under a heading of a page of results, by their first cell without marks."""
    text = (ROOT / "results" / f"{page}.md").read_text(encoding="utf-8")
    part = re.split(rf"^#+ {re.escape(heading)}.*$", text, maxsplit=1, flags=re.MULTILINE)[1]
    lines = part[part.index("\n|") :].lstrip("\n").split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0].strip("`* "): row for row in cells}
