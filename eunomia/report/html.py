"""``report.html``: one self-contained file about a comparison, readable offline, on paper and by keyboard."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from importlib.resources import files
from pathlib import Path

from eunomia.core.atomic import write_text
from eunomia.core.data import Data
from eunomia.core.records import Comparison, RunRecords
from eunomia.metrics.summary import HEADLINES, METRICS
from eunomia.report import figures
from eunomia.report.assessment import Assessment
from eunomia.report.bidi import Names, breakable, visible
from eunomia.report.gantt import gantt, why_missing
from eunomia.report.units import half_width_text, value_text
from eunomia.report.verdict import verdict

SHOWN = (*HEADLINES, "decisions_per_request")


def write_report(path: str | Path, comparison: Comparison | RunRecords) -> None:
    """Write the report of a comparison, or of one run, in one step; raises OutputError."""
    write_text(path, render_report(comparison))


def render_report(comparison: Comparison | RunRecords) -> str:
    """The report as HTML text. All names are escaped; the file loads nothing and runs one known script."""
    if isinstance(comparison, RunRecords):
        comparison = Comparison(
            str(comparison.manifest.get("name", "run")), (comparison,), comparison.manifest
        )
    assessment = Assessment(comparison)
    headline, *said = verdict(assessment)
    names = Names([comparison.name, *assessment.policies, *assessment.tenant_names])
    script = _asset("report.js")
    parts = {
        "title": names.text(comparison.name),
        "style": _asset("report.css"),
        "script": script,
        "script_hash": _content_hash(script),
        "headline": names.text(headline),
        "said": "".join(f"<li>{names.text(text)}</li>" for text in said),
        "scope": html.escape(_scope(assessment)),
        "summary": _summary_table(assessment) + _bracket_table(comparison.manifest),
        "summary_note": html.escape(_summary_note(assessment)),
        "facts": visible(_facts(comparison)),
        "data": visible(_embedded(page_data(assessment))),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match.group(1)], _asset("page.html"))


def page_data(a: Assessment) -> Data:
    """Everything the script draws, as plain data."""
    seed, shown = _shown_runs(a)
    everyone = {policy: a.scopes[policy, run.seed].everyone for policy, run in shown.items()}
    chart = gantt(shown, everyone)
    best = a.compared.baseline
    return {
        "policies": a.policies,
        "shown": a.policies.index(best) if best in a.policies else 0,
        "tenants": a.tenant_names,
        "seed": seed,
        "pairs": figures.pair_rows(a),
        "split": {policy: figures.split_rows(a, policy) for policy in a.policies},
        "fairness": {policy: figures.fairness_lines(a, run) for policy, run in shown.items()},
        "reasons": {policy: figures.reason_rows(a, policy) for policy in a.policies},
        "gantt": chart,
        "no_gantt": why_missing(shown),
        "layers": _layer_names(shown, chart),
        "directories": {p: {str(r.seed): _place(r) for r in a.comparison.of(p)} for p in a.policies},
    }


def _shown_runs(a: Assessment) -> tuple[int, dict[str, RunRecords]]:
    """The first seed that most policies have, and the policies' runs on it: what charts over time show."""
    seeds = [run.seed for run in a.comparison.runs]
    seed = max(sorted(set(seeds)), key=lambda s: seeds.count(s)) if seeds else 0
    runs = {policy: [run for run in a.comparison.of(policy) if run.seed == seed] for policy in a.policies}
    return seed, {policy: found[0] for policy, found in runs.items() if found}


def _place(run: RunRecords) -> str:
    if run.directory is None:
        return "RUN"
    try:
        return str(run.directory.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(run.directory)


def _layer_names(runs: dict[str, RunRecords], chart: Data | None) -> dict[str, list[str]]:
    """Names of the layers of the models that the chart shows."""
    if chart is None:
        return {}
    wanted = {model for policy in chart["policies"].values() for model in policy["jobs"]["model"]}
    names: dict[str, dict[int, str]] = {}
    for run in runs.values():
        if "costs" not in run.tables:
            continue
        for row in run["costs"].select(["model", "layer", "layer_name"]).to_pylist():
            if row["model"] in wanted:
                names.setdefault(row["model"], {})[row["layer"]] = (
                    row["layer_name"] or f"layer {row['layer']}"
                )
        break  # one scenario: all runs have the same networks
    return {model: [found[i] for i in sorted(found)] for model, found in names.items()}


def _scope(a: Assessment) -> str:
    seeds, runs = a.comparison.seeds, len(a.comparison.runs)
    requests = sum(len(scope.requests) for scope in a.scopes.values())
    policies = "1 policy" if len(a.policies) == 1 else f"{len(a.policies)} policies"
    number = "1 seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
    return (
        f"{policies}, {number}, {runs} runs, {requests:,} requests measured, {len(a.tenant_names)} tenants."
    )


def _summary_note(a: Assessment) -> str:
    most = _most_missed(a)
    bars = (
        f" The red bar is the share that missed; its full width stands for {100 * most:.2g} %."
        if most > 0.0
        else ""
    )
    if len(a.comparison.seeds) < 2:
        return f"One seed only: there are no intervals, and small differences mean nothing.{bars}"
    return (
        f"Means over {len(a.comparison.seeds)} seeds with the 95 % interval (Student t). "
        f"A dot marks the best mean of a column; whether it is really ahead, the intervals say.{bars}"
    )


def _bracket_table(manifest: Data) -> str:
    """Each policy's place in the clairvoyant bracket, where the comparison has one."""
    facts = manifest.get("bracket")
    if not facts:
        return ""
    found, bound, total = sum(facts["found"]), sum(facts["bound"]), sum(facts["total"])
    rows = "".join(
        f'<tr><th scope="row">{breakable(policy)}</th>'
        + "".join(f"<td>{100 * sum(hits) / max(most, 1):.1f} %</td>" for most in (total, found, bound))
        + "</tr>"
        for policy, hits in sorted(facts["hits"].items(), key=lambda entry: -sum(entry[1]))
    )
    head = "".join(
        f'<th scope="col">{title}</th>'
        for title in ("policy", "hit rate", "of the best schedule found", "of the bound")
    )
    note = (
        f"On {total:,} requests, the first ones of each seed, from an empty platform. A search that knew all "
        f"arrivals served {100 * found / total:.1f} %; nobody can serve more than {100 * bound / total:.1f} %."
    )
    return (
        f'<h3>Place in the bracket</h3><p class="sub">{note}</p>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _most_missed(a: Assessment) -> float:
    """The largest share of requests that any policy missed; 0 when none did."""
    rates = [a.estimate(policy, "hit_rate").mean for policy in a.policies]
    return max((1.0 - rate for rate in rates if not math.isnan(rate)), default=0.0)


def _summary_table(a: Assessment) -> str:
    names = [name for name in SHOWN if any(not math.isnan(a.estimate(p, name).mean) for p in a.policies)]
    head = "".join(
        f'<th scope="col" title="{html.escape(METRICS[name].label)}">{html.escape(METRICS[name].heading)}</th>'
        for name in names
    )
    best = {name: _best(a, name) for name in names}
    rows = []
    for policy in a.compared.ranked("hit_rate"):
        cells = "".join(_cell(a, policy, name, policy in best[name]) for name in names)
        rows.append(f'<tr><th scope="row">{breakable(policy)}</th>{cells}</tr>')
    return f'<table><thead><tr><th scope="col">policy</th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _best(a: Assessment, name: str) -> set[str]:
    """Policies with the best mean; none where better has no meaning or all are equal."""
    better = METRICS[name].better
    values = {p: a.estimate(p, name).mean for p in a.policies}
    known = {p: v for p, v in values.items() if not math.isnan(v)}
    if better == "neither" or name == "decisions_per_request" or len(known) < 2:
        return set()
    top = max(known.values()) if better == "higher" else min(known.values())
    chosen = {p for p, v in known.items() if math.isclose(v, top, rel_tol=1e-9)}
    return chosen if len(chosen) < len(known) else set()


def _cell(a: Assessment, policy: str, name: str, best: bool) -> str:
    estimate = a.estimate(policy, name)
    width = half_width_text(METRICS[name], estimate)
    bar = ""
    if name == "hit_rate" and not math.isnan(estimate.mean) and _most_missed(a) > 0.0:
        share = (1.0 - estimate.mean) / _most_missed(a)
        bar = f'<span class="bar"><i style="width:{100 * share:.1f}%"></i></span>'
    text = html.escape(_micro(value_text(METRICS[name], estimate.mean)))
    interval = f'<span class="ci">{html.escape(width)}</span>' if width else ""
    return f"<td{' class=best' if best else ''}>{text}{interval}{bar}</td>"


def _micro(text: str) -> str:
    """Units with the proper sign: terminals get u, a page can show \u00b5."""
    return re.sub(r" u(?=[sJ]\b)", " \u00b5", text)


def _facts(comparison: Comparison) -> str:
    manifest = comparison.manifest
    first = comparison.runs[0].manifest if comparison.runs else {}
    facts = {**first, **manifest}
    versions, machine = facts.get("versions") or {}, facts.get("machine") or {}
    rows = [
        ("policies", ", ".join(comparison.policies)),
        ("seeds", ", ".join(map(str, comparison.seeds))),
        ("commit", facts.get("commit") or "not from a checkout"),
        ("versions", ", ".join(f"{name} {value}" for name, value in versions.items()) or "not recorded"),
        ("machine", _machine(machine) or "not recorded"),
        ("time to simulate", _wall(comparison)),
    ]
    if facts.get("failures"):
        rows.append(("runs that failed", "; ".join(f"{k}: {v}" for k, v in facts["failures"].items())))
    listed = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(str(v))}</dd>" for k, v in rows)
    boxes = [("Scenario, as resolved", facts.get("config")), ("Manifest of the comparison", manifest)]
    if comparison.runs and comparison.runs[0].manifest is not manifest:
        boxes.append(("Manifest of the first run", _without_config(first)))
    details = "".join(
        f"<details><summary>{title}</summary><pre>{html.escape(_json(value))}</pre></details>"
        for title, value in boxes
        if value
    )
    return f'<dl class="pairs">{listed}</dl>{details}'


def _machine(facts: Data) -> str:
    cores = facts.get("cores")
    number = f"{cores} core{'' if cores == 1 else 's'}" if cores else ""
    return ", ".join(str(part) for part in (facts.get("system"), facts.get("processor"), number) if part)


def _wall(comparison: Comparison) -> str:
    seconds = [run.manifest.get("wall_s") for run in comparison.runs]
    known = [float(value) for value in seconds if isinstance(value, int | float)]
    return f"{sum(known):.2f} s for {len(known)} runs" if known else "not recorded"


def _without_config(manifest: Data) -> Data:
    return {key: value for key, value in manifest.items() if key != "config"}


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _embedded(value: object) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or start another."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    unsafe = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
    return re.sub("[<>&\u2028\u2029]", lambda match: unsafe[match.group()], text)


def _content_hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _asset(name: str) -> str:
    return (files("eunomia.report") / "assets" / name).read_text(encoding="utf-8")
