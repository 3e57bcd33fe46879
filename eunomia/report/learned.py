"""How learned policies decided, for the report: what chose the policy, who decided, and by which terms."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eunomia.core.arrays import Floats
from eunomia.core.records import RunRecords
from eunomia.report.bidi import breakable
from eunomia.report.reasons import WORDS, Reasons, rehearsed
from eunomia.report.units import percent

MOST = 8  # rows of a table
LEAST = 0.01  # of the choices; rarer terms have no row


def learned_sections(runs: Mapping[str, RunRecords]) -> str:
    """A section on the policies of ``runs`` that recorded reasons, as HTML; empty where none did."""
    parts = [part for policy, run in runs.items() if (part := _of_run(policy, run))]
    if not parts:
        return ""
    head = '<section id="learned" aria-labelledby="h-learned"><h2 id="h-learned">What decided</h2>'
    sub = (
        '<p class="sub">A learned policy starts the request of the highest score. The table shows which term spoke '
        "most for the chosen request against the next one.</p>"
    )
    return f"{head}{sub}{''.join(parts)}</section>"


def _of_run(policy: str, run: RunRecords) -> str:
    told = rehearsed(run)
    reasons = Reasons(run["decisions"]) if "decisions" in run.tables else None
    if not reasons:
        return f"<h3>{breakable(policy)}</h3><p>{breakable(told)}</p>" if told else ""
    decisions = run["decisions"]
    places = np.flatnonzero(decisions["terms"].is_valid().to_numpy()).tolist()
    held = len(places) - decisions["held"].null_count
    said = [
        told,
        f"Seed {run.seed}: {len(places):,} choices.",
        reasons.who_decided(places),
        f"{percent(held / max(1, len(places)))} of them came after another request was held.",
    ]
    return f"<h3>{breakable(policy)}</h3><p>{breakable(' '.join(filter(None, said)))}</p>{_table(decisions)}"


def _table(decisions: pa.Table) -> str:
    """The terms that were furthest ahead, most frequent first."""
    feature, points, less = leading_terms(decisions)
    total = len(feature)
    if not total:
        return ""
    names = np.array([WORDS.get(f, (f, f))[0 if low else 1] for f, low in zip(feature, less, strict=True)])
    found, counts = np.unique(names, return_counts=True)
    order = [k for k in np.lexsort([found, -counts])[:MOST] if counts[k] >= LEAST * total]
    rows = "".join(
        f'<tr><th scope="row">{breakable(str(found[k]))}</th><td>{percent(counts[k] / total)}</td>'
        f"<td>{np.median(points[names == found[k]]):.2f}</td></tr>"
        for k in order
    )
    head = "".join(
        f'<th scope="col">{title}</th>' for title in ("what spoke for it", "choices", "points, median")
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def leading_terms(decisions: pa.Table) -> tuple[list[str], Floats, npt.NDArray[np.bool_]]:
    """At each choice between two requests, the term that spoke most for the chosen one.

    Its feature, its points, and whether the chosen one had less of it.
    """
    rivals = decisions["rivals"].combine_chunks()
    first = pc.list_element(rivals.filter(pc.greater(pc.list_value_length(rivals), 0)), 0)
    lost = pc.and_(
        pc.equal(pc.struct_field(first, "fate"), "lost"), pc.invert(pc.struct_field(first, "late"))
    )
    terms = pc.struct_field(first.filter(lost), "terms")
    choice, each = pc.list_parent_indices(terms).to_numpy(False), pc.list_flatten(terms)
    weight, value = (pc.struct_field(each, name).to_numpy(False) for name in ("weight", "value"))
    order = np.lexsort([weight * value, choice])
    top = order[
        np.searchsorted(choice[order], np.unique(choice), side="right") - 1
    ]  # the greatest of each choice
    top = top[weight[top] * value[top] > 0.0]
    feature = pc.struct_field(each, "feature").take(pa.array(top)).to_pylist()
    return feature, weight[top] * value[top], value[top] < 0.0
