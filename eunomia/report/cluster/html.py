"""What the report of cluster runs shows: sentences, the table, and a section of charts for each policy."""

from __future__ import annotations

import html
import math

import numpy as np
import pyarrow as pa

from eunomia.core.data import Data
from eunomia.core.records import Comparison, RunRecords
from eunomia.metrics.cluster import CLUSTER_METRICS, HEADLINES, job_columns, tenant_shares
from eunomia.metrics.statistics import Estimate
from eunomia.report.bidi import Names
from eunomia.report.cluster import svg, verdict
from eunomia.report.definitions import CLUSTER_SYMBOLS
from eunomia.report.page import Page, Summary
from eunomia.report.units import duration, estimate_text, three_digits

BINS, MAX_BARS, MAX_DOTS, SHOWN_JOBS = 160, 6000, 4000, 15


def cluster_page(comparison: Comparison) -> Page:
    """Everything that is said and drawn of one or several runs; figures are drawn here, so the page needs no script."""
    jobs = [name for run in comparison.runs for name in run["jobs"]["tenant"].unique().to_pylist()]
    names = Names([comparison.name, *comparison.policies, *jobs])
    manifest = comparison.runs[0].manifest
    summary = _summary(comparison)
    return Page(
        comparison=comparison,
        kicker="Eunomia cluster report",
        names=names,
        headline=verdict.headline(comparison),
        said=_said(comparison),
        scope=_scope(manifest),
        note=_summary_note(comparison),
        summary=summary,
        summary_end=summary.definitions(),
        sections="".join(_policy_section(comparison.of(policy)[0], names) for policy in comparison.policies),
        formulas="docs/cluster.md",
        facts=(("rho", str(manifest["rho_definition"])), _solve_times(comparison)),
        wall="simulation_wall_s",
    )


def _said(comparison: Comparison) -> list[str]:
    said = verdict.worst_served(comparison)
    for policy in comparison.policies:
        unfinished = sum(verdict.estimate(comparison, policy, m).mean for m in ("unfinished", "dropped"))
        if unfinished > 0.0:
            said.append(
                f"{policy} leaves {unfinished:g} jobs unfinished on average; its averages are over the others."
            )
        remarks = comparison.of(policy)[0].manifest.get("remarks", {})
        said += [f"{policy}: {text}" + f" ({n} times)" * (n > 1) for text, n in remarks.items()]
    said += comparison.runs[0].manifest.get("trace_remarks", [])
    return list(dict.fromkeys(said))


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
    seeds, policies, alike = len(comparison.seeds), len(comparison.policies), verdict.alike(comparison)
    over = f"Means over {seeds} seeds with half the 95 % interval" if seeds > 1 else "One seed"
    if alike:
        note = verdict.drawn_note(seeds, alike, policies)
        over = note if len(alike) == policies else f"{over}; {note}"
    dots = (
        " A dot marks the best mean and whoever differs from it by less than its interval on the same seeds."
    )
    return (
        f"{over}; times are of finished jobs. JCT: job completion time. rho: JCT over the time under the isolated "
        f"share of each moment; unfair: rho above 1.05.{dots * (seeds > 1 and len(alike) < policies)}"
    )


def _summary(comparison: Comparison) -> Summary:
    """The headlines."""

    def estimate(policy: str, metric: str) -> Estimate:
        return verdict.estimate(comparison, policy, metric)

    def difference(policy: str, rival: str, metric: str) -> Estimate:
        return verdict.difference(comparison, policy, rival, metric)

    headlines = {name: CLUSTER_METRICS[name] for name in HEADLINES}
    return Summary(headlines, comparison.policies, estimate, difference=difference, symbols=CLUSTER_SYMBOLS)


def _solve_times(comparison: Comparison) -> tuple[str, str]:
    """How long each policy took to decide."""
    metric = CLUSTER_METRICS["solve_p95_s"]
    found = {
        p: estimate_text(metric, verdict.estimate(comparison, p, "solve_p95_s")) for p in comparison.policies
    }
    return metric.label, "; ".join(f"{policy} {text}" for policy, text in found.items())


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
    return f'<ul class="legend">{legend}</ul><div class="chart wide" tabindex="0">{chart}</div>'


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
        f'<div class="chart wide" tabindex="0">{chart}</div>{note}'
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
    labels = [
        f"job {ids[n]}: rho {three_digits(c.rho[n])}, {size[n]:.3g} device-hours" for n in known.tolist()
    ]
    chart = svg.scatter(size[known], c.rho[known], labels, "rho of each finished job against its size")
    return (
        "<p class='sub'>Below the line a job did better than with a fixed part of the cluster to itself; "
        f"above 1.05 it counts as unfair.</p><div class='chart wide' tabindex='0'>{chart}</div>{note}"
    )


def _worst_jobs(jobs: pa.Table, end_s: float) -> str:
    c = job_columns(jobs, end_s)
    order = np.argsort(np.where(np.isnan(c.rho), np.inf, -c.rho), kind="stable")[:SHOWN_JOBS]
    rows = []
    for n in order.tolist():
        row = jobs.slice(n, 1).to_pylist()[0]
        cells = (
            row["job_type"], str(row["scale_factor"]), duration(row["arrival_s"]), duration(float(c.wait_s[n])),
            duration(float(c.jct_s[n])), three_digits(c.rho[n]) if not math.isnan(c.rho[n]) else "-",
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
        f"<details><summary>The {len(rows)} jobs with the largest rho</summary><div class='scroll' tabindex='0'>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></details>"
    )
