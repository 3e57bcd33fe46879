"""What the report of a comparison of scenarios shows: sentences, the table, and the data behind its figures."""

from __future__ import annotations

import math
from pathlib import Path

from eunomia.core.data import Data
from eunomia.core.records import Comparison, RunRecords
from eunomia.metrics.statistics import FEWEST
from eunomia.metrics.table import HEADLINES, METRICS
from eunomia.report import figures
from eunomia.report.assessment import Assessment
from eunomia.report.bidi import Names, breakable
from eunomia.report.gantt import gantt, why_missing
from eunomia.report.learned import learned_sections
from eunomia.report.page import Page, Summary, asset, render_page, write_page
from eunomia.report.units import estimate_text
from eunomia.report.verdict import verdict


def write_report(path: str | Path, comparison: Comparison | RunRecords) -> None:
    """Write the report of a comparison, or of one run, in one step; raises OutputError."""
    write_page(path, report_page(comparison))


def render_report(comparison: Comparison | RunRecords) -> str:
    """The report as HTML text."""
    return render_page(report_page(comparison))


def report_page(comparison: Comparison | RunRecords) -> Page:
    """Everything that is said and drawn of a comparison, or of one run."""
    if isinstance(comparison, RunRecords):
        name = str(comparison.manifest.get("name", "run"))
        comparison = Comparison(name, (comparison,), comparison.manifest)
    assessment = Assessment(comparison)
    headline, *said = verdict(assessment)
    summary = _summary(assessment)
    return Page(
        comparison=comparison,
        kicker="Eunomia report",
        names=Names([comparison.name, *assessment.policies, *assessment.tenant_names]),
        headline=headline,
        said=said,
        scope=_scope(assessment),
        note=_summary_note(assessment),
        summary=summary,
        summary_end=_bracket_table(comparison.manifest) + summary.definitions(),
        sections=_sections(assessment),
        formulas="docs/metrics.md",
        facts=(_decisions(assessment),),
        script=asset("report.js"),
        data=page_data(assessment),
    )


def _sections(a: Assessment) -> str:
    """The sections that the script fills, and before the last of them how learned policies decided."""
    last = '<section id="gantt"'
    return asset("inference.html").replace(last, learned_sections(_shown_runs(a)[1]) + last)


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
    if len(a.comparison.seeds) < FEWEST:
        return f"Means over {len(a.comparison.seeds)} seeds: too few for an interval.{bars}"
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


def _summary(a: Assessment) -> Summary:
    """The table of policies; below a hit rate stands a bar of what was missed."""
    most = _most_missed(a)

    def missed(policy: str, name: str) -> str:
        mean = a.estimate(policy, name).mean
        if name != "hit_rate" or math.isnan(mean) or not most > 0.0:
            return ""
        return f'<span class="bar"><i style="width:{100 * (1.0 - mean) / most:.1f}%"></i></span>'

    return Summary({name: METRICS[name] for name in HEADLINES}, a.policies, a.estimate, missed, a.gain)


def _decisions(a: Assessment) -> tuple[str, str]:
    """How often each policy decided."""
    metric = METRICS["decisions_per_request"]
    found = {
        policy: estimate_text(metric, a.estimate(policy, "decisions_per_request")) for policy in a.policies
    }
    return metric.label, "; ".join(f"{policy} {text}" for policy, text in found.items())
