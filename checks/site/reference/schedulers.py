"""Every scheduler: idea, formula, deviations, where it does badly, and its measured row.

The words are docstrings: of the policy, and of its file, whose head gives source, formula and deviations. The measured
row comes from the pages of results.
"""

from __future__ import annotations

import csv
import inspect
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import ModuleType

from checks.site.navigation import ROOT
from checks.site.reference.words import marked

HEAD = """# Every scheduler

Made from the code: idea and formula, what differs from its source, where it does badly, and a measured row.
[Policies](../docs/policies.md) explains names such as `edf+f+eft+g0.9`;
[deviations](../docs/deviations.md) numbers what the papers leave open.

**Measured** under a policy of requests: mean hit rate over 36 places (sets x QoS x load; 95 % interval over seeds), and
how many points that is from the best rule chosen on validation traces
([all rows](../results/baselines.md#all-policies)). Under a policy of the cluster: worst rho and mean completion at load
1.2 ([all rows](../results/cluster_peers.md#load-12-offered-work-over-capacity-during-the-arrivals)). Schedulers that no
such table has are measured on the scenarios of `eunomia demo -p NAME` (5 seeds) and `eunomia cluster demo -p NAME` (3
seeds) on 2026-11-28: the same for all, and small. "-": refused there.
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
BESIDE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
WEAK = {name: f"Does badly {entry['badly']}" for entry in BESIDE["weak"] for name in entry["names"]}
OWN = {entry["name"]: entry for entry in BESIDE["study"]}  # schedulers with a study of their own
BADLY = re.compile(r"(?:^|(?<=[.:;]\s))does badly\b", re.IGNORECASE | re.MULTILINE)
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
            idea = " ".join(_described(registry.load(name)).split("\n\n")[0].split())
            rows.append(
                f"| [`{name}`](#{name.lower()}) | {marked(idea).replace('|', chr(92) + '|')} | {row(name)} |\n"
            )
    return "".join(rows)


def _section(name: str, found: object, measured: str, of_file: bool = True) -> str:
    own = marked(_described(found))
    head = _head_of(found) if of_file else ""
    text = own if not head or head.split("\n")[0] in own else f"{own}\n\n{head}"
    if not BADLY.search(text):
        text += f"\n\n{WEAK.get(name, 'Does badly: not said.')}"
    return f"\n### {name}\n\n{_emphasised(text)}\n\n*Measured*: {measured}\n"


def _described(found: object) -> str:
    """The docstring; of a class with settings given, these and the docstring of the class."""
    if not isinstance(found, partial):
        return inspect.getdoc(found) or ""
    given = ", ".join(f"{key} = {value!r}" for key, value in found.keywords.items())
    first, _, rest = (inspect.getdoc(found.func) or "").partition("\n\n")
    return f"With ``{given}``: {first}\n\n{rest}"


def _head_of(found: object) -> str:
    """What stands at the head of the file that holds a scheduler, if the file is about it."""
    found = found.func if isinstance(found, partial) else found
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
    return "; ".join(shown) or _elsewhere("demo", name)


def _elsewhere(demo: str, name: str) -> str:
    """The row of a scheduler from its own study, or else on a built-in scenario: results/data/DEMO-every.csv."""
    if name in OWN:
        own = OWN[name]
        cells = measured_rows(own["page"], own["heading"])[own["row"]]
        return f"{own['words'].format(*cells)} ([rows](../results/{own['page']}.md))"
    row = demo_rows(demo).get(name)
    return (
        f"on `eunomia {demo.replace('-', ' ')}`: {', '.join(f'{key} {value}' for key, value in row.items())}"
        if row
        else "-"
    )


@cache
def demo_rows(demo: str) -> Mapping[str, dict[str, str]]:
    """Rows by policy: heading -> figure."""
    with (ROOT / "results" / "data" / f"{demo}-every.csv").open(encoding="utf-8", newline="") as file:
        return {row.pop("policy"): {k: v for k, v in row.items() if v} for row in csv.DictReader(file)}


def _rows_of(name: str, rows: Mapping[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    for label in (name, f"{name}+tuned"):
        if label in rows:
            yield f"`{label}`", rows[label]


def _against(row: list[str]) -> str:
    return f", {row[6].partition(' [')[0]} points" if row[6] else ""


def _cluster_row(name: str) -> str:
    row = measured_rows("cluster_peers", "Load 1.2").get(PEERS.get(name, ""))
    if row:
        return f"worst rho {row[1]}, completion {row[6]} h"
    elsewhere, parity = (
        _elsewhere("cluster-demo", name),
        measured_rows("cluster-parity", "Parity with Gavel").get(name),
    )
    if parity is None:
        return elsewhere
    over = f"over {parity[1]} traces ([rows](../results/cluster-parity.md))"
    text = f"mean completion {parity[2]} from Gavel's own code {over}"
    return text if elsewhere == "-" else f"{elsewhere}; {text}"


@cache
def measured_rows(page: str, heading: str) -> Mapping[str, list[str]]:
    """Rows of the first table under a heading of a page of results, by their first cell without marks."""
    text = (ROOT / "results" / f"{page}.md").read_text(encoding="utf-8")
    part = re.split(rf"^#+ {re.escape(heading)}.*$", text, maxsplit=1, flags=re.MULTILINE)[1]
    tables = [
        block.splitlines()[2:]
        for block in part.split("\n\n")
        if block.strip().startswith("| ") and "| command |" not in block
    ]
    lines = tables[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0].strip("`* "): row for row in cells}
