"""``report.html`` of cluster runs: one self-contained file; figures are drawn here, so it needs no script."""

from __future__ import annotations

import html
import math
from importlib.resources import files
from pathlib import Path

import numpy as np
import pyarrow as pa

from eunomia.core.atomic import write_text
from eunomia.core.data import Data
from eunomia.core.records import Comparison, RunRecords
from eunomia.metrics.cluster import CLUSTER_METRICS, HEADLINES, job_columns, tenant_shares
from eunomia.metrics.metric import Metric
from eunomia.metrics.statistics import Estimate, interval
from eunomia.report.bidi import Names
from eunomia.report.cluster import svg
from eunomia.report.units import duration, half_width_text, value_text

BINS, MAX_BARS, MAX_DOTS, SHOWN_JOBS = 160, 6000, 4000, 15


def write_cluster_report(path: str | Path, comparison: Comparison) -> None:
    """Write the report of one or several runs, in one step; raises OutputError."""
    write_text(path, render_cluster_report(comparison))


def render_cluster_report(comparison: Comparison) -> str:
    """The report as HTML text: all names are escaped, nothing is loaded."""
    jobs = [name for run in comparison.runs for name in run["jobs"]["tenant"].unique().to_pylist()]
    names = Names([comparison.name, *comparison.policies, *jobs])
    style = (files("eunomia.report") / "assets" / "report.css").read_text(encoding="utf-8")
    first = comparison.runs[0].manifest
    sections = "".join(_policy_section(comparison.of(policy)[0], names) for policy in comparison.policies)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="generator" content="eunomia">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{names.text(comparison.name)}</title><style>{style}
summary {{ cursor: pointer; }} .two td {{ white-space: normal; }}
#summary th, #summary td {{ padding: .5rem .3rem; }} #summary thead th {{ min-width: 0; font-size: .78rem; }}
#summary table {{ font-size: .86rem; }}
#summary th:first-child {{ padding-left: 0; }} #summary tbody th {{ white-space: normal; min-width: 8.6em; }}
#summary tbody th wbr {{ display: inline; }}</style></head>
<body><a class="skip" href="#summary">Skip to the results</a>
<header class="wrap"><p class="kicker">Eunomia cluster report</p><h1>{names.text(comparison.name)}</h1>
<p class="lede">{_headline(comparison, names)}</p><ul class="said">{_said(comparison, names)}</ul>
<p class="muted">{html.escape(_scope(first))}</p></header>
<main class="wrap"><section id="summary"><h2>Policies compared</h2>
<p class="sub">{html.escape(_summary_note(comparison))}</p>
<div class="scroll" tabindex="0" role="region" aria-label="Table of policies">{_summary(comparison, names)}</div>
</section>
{sections}
<section id="facts"><h2>How this was made</h2>{_facts(first)}</section></main>
<footer class="wrap muted">Written by Eunomia {html.escape(str((first.get("versions") or {}).get("eunomia", "")))}.
Every figure follows from the tables beside this file.</footer></body></html>
"""


def _estimate(comparison: Comparison, policy: str, metric: str) -> Estimate:
    values = [run.manifest["metrics"].get(metric) for run in comparison.of(policy)]
    return interval([math.nan if value is None else value for value in values])


def _headline(comparison: Comparison, names: Names) -> str:
    policies = comparison.policies
    if len(policies) == 1:
        mean = _estimate(comparison, policies[0], "jct_mean_s")
        return f"{names.text(policies[0])}: average JCT {duration(mean.mean)}."
    means = {p: _estimate(comparison, p, "jct_mean_s").mean for p in policies}
    known = [p for p in policies if not math.isnan(means[p])]
    if not known:
        return "No job finished."
    best, worst = min(known, key=means.__getitem__), max(known, key=means.__getitem__)
    return (
        f"{names.text(best)} has the shortest average JCT, {duration(means[best])}; "
        f"{names.text(worst)} the longest, {duration(means[worst])}."
    )


def _said(comparison: Comparison, names: Names) -> str:
    said = []
    for policy in comparison.policies:
        unfinished = sum(_estimate(comparison, policy, m).mean for m in ("unfinished", "dropped"))
        if unfinished > 0.0:
            said.append(
                f"{names.text(policy)} leaves {unfinished:g} jobs unfinished on average; its averages are over "
                f"the others."
            )
        runs = comparison.of(policy)
        for text, times in runs[0].manifest.get("remarks", {}).items():
            said.append(
                f"{names.text(policy)}: {html.escape(text)}" + (f" ({times} times)" if times > 1 else "")
            )
    said += [html.escape(text) for text in comparison.runs[0].manifest.get("trace_remarks", [])]
    return "".join(f"<li>{text}</li>" for text in dict.fromkeys(said))


def _scope(manifest: Data) -> str:
    cluster = ", ".join(f"{kind['count']} {kind['name']}" for kind in manifest["cluster"])
    options = manifest["options"]
    load = manifest["load"]
    shown = "all at once" if load is None else f"offered load {load:.2f}"
    return (
        f"{manifest['jobs_submitted']} jobs on {cluster}; {shown}; {options['mode']} mode, rounds of "
        f"{duration(options['round_s'])}; throughputs: {manifest['throughputs']}."
    )


def _summary_note(comparison: Comparison) -> str:
    seeds = len(comparison.seeds)
    over = f"mean and half the 95 % interval over {seeds} seeds" if seeds > 1 else "one seed"
    return (
        f"{over}; times are of finished jobs. JCT: job completion time. rho: JCT over the time under the isolated "
        "share of each moment; unfair: rho above 1.05."
    )


def _summary(comparison: Comparison, names: Names) -> str:
    shown = [m for m in HEADLINES if any(_estimate(comparison, p, m).n for p in comparison.policies)]
    shown = [m for m in shown if m != "cost" or _estimate(comparison, comparison.policies[0], m).mean > 0.0]
    shown += ["finished", "solve_p95_s"]
    best = {}
    for metric in shown:
        sign = {"lower": 1.0, "higher": -1.0}.get(CLUSTER_METRICS[metric].better, math.nan)
        means = [sign * _estimate(comparison, p, metric).mean for p in comparison.policies]
        best[metric] = math.nan if np.isnan(means).all() else float(np.nanmin(means))
    head = "".join(f"<th scope='col'>{html.escape(CLUSTER_METRICS[m].heading)}</th>" for m in shown)
    rows = []
    for policy in comparison.policies:
        cells = []
        for metric in shown:
            estimate = _estimate(comparison, policy, metric)
            sign = {"lower": 1.0, "higher": -1.0}.get(CLUSTER_METRICS[metric].better, math.nan)
            mark = (
                ' class="best"'
                if len(comparison.policies) > 1 and sign * estimate.mean == best[metric]
                else ""
            )
            cells.append(f"<td{mark}>{_mean_and_interval(CLUSTER_METRICS[metric], estimate)}</td>")
        name = names.text(policy).replace("_", "_<wbr>")
        rows.append(f"<tr><th scope='row'>{name}</th>{''.join(cells)}</tr>")
    return f"<table><thead><tr><th scope='col'>policy</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _mean_and_interval(metric: Metric, estimate: Estimate) -> str:
    """The mean above half its interval, so that a table of a dozen figures fits the page."""
    half = half_width_text(metric, estimate)
    return html.escape(value_text(metric, estimate.mean)) + (
        f"<span class='ci'>{half}</span>" if half else ""
    )


def _policy_section(run: RunRecords, names: Names) -> str:
    """Charts of one policy on its first seed."""
    jobs = run["jobs"]
    parts = [f"<h2>{names.text(run.policy)}</h2><p class='sub'>Seed {run.seed}.</p>"]
    if "leases" in run.tables and run["leases"].num_rows:
        low, high = float(run.manifest["first_arrival_s"]), float(run.manifest["end_s"])
        parts.append("<h3>Who held the devices</h3>" + _shares(run, names, low, high))
        parts.append("<h3>What ran where</h3>" + _gantt(run, low, high))
    parts.append("<h3>rho against the size of jobs</h3>" + _rho(jobs, float(run.manifest["end_s"])))
    parts.append(_worst_jobs(jobs, float(run.manifest["end_s"])))
    return f"<section>{''.join(parts)}</section>"


def _shares(run: RunRecords, names: Names, low: float, high: float) -> str:
    edges = np.linspace(low, high, BINS + 1)
    total = int(run["devices"]["count"].to_numpy().sum())
    tenants, shares = tenant_shares(run["leases"], run["jobs"], edges, total)
    order = np.argsort(-shares.sum(axis=1), kind="stable")
    if len(order) > 8:
        rest = shares[order[7:]].sum(axis=0, keepdims=True)
        shares = np.concatenate([shares[order[:7]], rest])
        shown = [tenants[n] for n in order[:7]] + [f"{len(order) - 7} others"]
    else:
        shares, shown = shares[order], [tenants[n] for n in order]
    legend = "".join(
        f'<li><i style="background:{svg.COLOURS[n]}"></i>{names.text(name) or "no tenant"}</li>'
        for n, name in enumerate(shown)
    )
    chart = svg.stacked(edges, shares, shown, "Share of all devices held by each tenant over time")
    return f'<ul class="legend">{legend}</ul><div class="chart">{chart}</div>'


def _gantt(run: RunRecords, low: float, high: float) -> str:
    leases = run["leases"]
    note = ""
    if leases.num_rows > MAX_BARS:
        leases = leases.slice(0, MAX_BARS)
        high = float(leases["end_s"].to_numpy().max())
        note = f"<p class='hint'>The first {MAX_BARS} of {run['leases'].num_rows} leases.</p>"
    servers = leases["server"].to_numpy()
    kinds = leases["type"].cast(pa.string()).to_pylist()
    lane_of = {int(s): n for n, s in enumerate(sorted(set(servers.tolist())))}
    lanes = [""] * len(lane_of)
    for server, kind in zip(servers.tolist(), kinds, strict=True):
        lanes[lane_of[server]] = f"{kind[:6]} {server}"
    size = np.zeros(len(lane_of), np.int64)
    start, end = leases["start_s"].to_numpy(), leases["end_s"].to_numpy()
    devices = leases["devices"].to_numpy()
    busy: dict[int, list[float]] = {}  # server -> until when each of its devices is drawn as taken
    jobs = leases["job"].cast(pa.string()).to_pylist()
    colour = {name: n for n, name in enumerate(dict.fromkeys(jobs))}
    drawn = []
    for row in range(leases.num_rows):
        slots = busy.setdefault(int(servers[row]), [])
        free = [n for n, until in enumerate(slots) if until <= start[row] + 1e-6]
        while len(free) < devices[row]:
            slots.append(-math.inf)
            free.append(len(slots) - 1)
        for slot in free[: devices[row]]:
            slots[slot] = float(end[row])
            drawn.append((row, slot))
    for server, slots in busy.items():
        size[lane_of[server]] = len(slots)
    bars = [
        (
            lane_of[int(servers[row])], float(start[row]), float(end[row]), slot / size[lane_of[int(servers[row])]],
            colour[jobs[row]],
            f"job {jobs[row]}: {devices[row]} devices, {duration(float(start[row]))} to {duration(float(end[row]))}"
            f"\t{1.0 / size[lane_of[int(servers[row])]]}",
        )
        for row, slot in drawn
    ]  # fmt: skip
    chart = svg.gantt(
        bars, lanes, low, high, "Leases on each server; one line per device, one colour per job"
    )
    return (
        f"<p class='sub'>A lane per server, a line per device; colours tell jobs apart, hover for names.</p>"
        f'<div class="chart">{chart}</div>{note}'
    )


def _rho(jobs: pa.Table, end_s: float) -> str:
    c = job_columns(jobs, end_s)
    known = np.flatnonzero(~np.isnan(c.rho) & (c.rho > 0.0))
    if not len(known):
        return '<p class="empty">No job finished.</p>'
    note = ""
    if len(known) > MAX_DOTS:
        known = known[np.linspace(0, len(known) - 1, MAX_DOTS).astype(int)]
        note = f"<p class='hint'>{MAX_DOTS} of {jobs.num_rows} jobs, evenly chosen by arrival.</p>"
    ids = jobs["job"].to_pylist()
    size = c.values["alone_s"] * c.values["scale_factor"] / 3600.0
    labels = [f"job {ids[n]}: rho {c.rho[n]:.3g}, {size[n]:.3g} device-hours" for n in known.tolist()]
    chart = svg.scatter(size[known], c.rho[known], labels, "rho of each finished job against its size")
    return (
        "<p class='sub'>Below the line a job did better than with a fixed part of the cluster to itself; "
        f"above 1.05 it counts as unfair.</p><div class='chart'>{chart}</div>{note}"
    )


def _worst_jobs(jobs: pa.Table, end_s: float) -> str:
    c = job_columns(jobs, end_s)
    order = np.argsort(np.where(np.isnan(c.rho), np.inf, -c.rho), kind="stable")[:SHOWN_JOBS]
    rows = []
    for n in order.tolist():
        row = jobs.slice(n, 1).to_pylist()[0]
        cells = (
            row["job_type"], str(row["scale_factor"]), duration(row["arrival_s"]), duration(float(c.wait_s[n])),
            duration(float(c.jct_s[n])), f"{c.rho[n]:.3g}" if not math.isnan(c.rho[n]) else "-",
            str(row["preemptions"]), str(row["moves"]), row["outcome"],
        )  # fmt: skip
        rows.append(
            f"<tr><th scope='row'>{html.escape(row['job'])}</th>"
            + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
            + "</tr>"
        )
    head = "".join(
        f"<th scope='col'>{name}</th>"
        for name in ("job", "type", "workers", "arrived at", "first start after", "completed after", "rho",
                     "preempted", "moved", "outcome")
    )  # fmt: skip
    return (
        f"<details><summary>The {len(rows)} jobs with the largest rho</summary><div class='scroll'>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def _facts(manifest: Data) -> str:
    options = manifest["options"]
    metrics = manifest.get("metrics", {})
    rows = [
        ("rho", manifest["rho_definition"]),
        ("simulation", ", ".join(f"{k} = {v}" for k, v in options.items())),
        (
            "policy calls",
            f"median {value_text(CLUSTER_METRICS['solve_median_s'], metrics.get('solve_median_s') or math.nan)}",
        ),
        ("simulated in", f"{manifest['simulation_wall_s']:.3g} s"),
        ("versions", ", ".join(f"{k} {v}" for k, v in (manifest.get("versions") or {}).items())),
        ("commit", manifest.get("commit", "not known")),
    ]
    body = "".join(
        f"<tr><th scope='row'>{html.escape(k)}</th><td style='text-align:left'>{html.escape(str(v))}</td></tr>"
        for k, v in rows
    )
    return f"<div class='scroll'><table class='two'><tbody>{body}</tbody></table></div>"
