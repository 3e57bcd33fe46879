"""The results of a study as one Markdown page, for ``results/``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from eunomia.metrics.statistics import Estimate
from eunomia.report.study import evidence
from eunomia.report.study.table import StudyTable, Where
from eunomia.report.study.words import percent, plural, points, table_text, verdict


def render_markdown(table: StudyTable, timings: Mapping[str, Mapping[str, float]] | None = None) -> str:
    """The page. Without ``timings`` it holds nothing that a second run would not repeat to the byte."""
    parts = [
        f"# Results of the study '{table.name}'",
        table.description.strip(),
        "## In short",
        "\n".join(f"* {sentence}" for sentence in verdict(table)),
        table.reading.strip(),
        "## How it was measured",
        _protocol(table),
        "## All policies",
        _overall(table, timings or {}),
        "## Where the time goes",
        _reasons(table),
        "## Hit rates",
        _hit_rates(table),
        *evidence.bracket(table),
        *evidence.claim(table),
        *evidence.choices(table),
        *(evidence.sensitivity(table, grid) for grid in table.grids[1:]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _protocol(table: StudyTable) -> str:
    config, facts = table.facts["config"], table.facts
    replications = config["replications"]
    least = min(min(row.metrics["requests"]) for row in table.rows if row.where.grid == table.grids[0])
    lines = [
        f"* {replications} replications of at least {least:.0f} measured requests at every place of the main "
        f"grid, after "
        f"a warm-up of {config['warmup_requests']}; the same requests for every policy (common random numbers).",
        "* Intervals are 95 % (Student t over replications); differences and ratios are paired by replication. "
        "Nothing is "
        "corrected for the number of comparisons: of twenty differences that are none, one looks like one.",
        f"* Late requests: `{config['engine']['late']}`"
        + (f", when {config['engine']['drop_when']}" if config["engine"]["late"] == "drop" else "")
        + ". One tenant per network of a set. Load 1.0 is the saturated throughput of FCFS on that platform, bandwidth "
        "and contention mode; a variation of these measures it anew.",
        f"* Rivals with a choice are chosen on {plural(config['validation']['traces'], 'validation trace')} of "
        f"{config['validation']['requests']} requests at each set, QoS, load and bandwidth, under the study's "
        f"own settings.",
    ]
    rows = [
        (label, f"{fact['mean']:.0f} [{fact['low']:.0f}, {fact['high']:.0f}]", f"{1e6 * fact['layer_s']:.0f}",
         ", ".join(f"{name} {1e3 * value:.2f}" for name, value in fact["iso_s"].items()))
        for label, fact in facts["capacity_per_s"].items()
    ]  # fmt: skip
    lines.append("* Deadlines are q alpha iso: " + "; ".join(
        f"{name}: alpha {fact['alpha']:.3g}"
        + (f" ({config['deadlines']['policy']} then reaches {100 * fact['hit_rate']:.1f} % at QoS-M and load "
           f"{config['deadlines']['load']:g})" if fact["hit_rate"] is not None else "")
        for name, fact in facts["alpha"].items()
    ) + ".")  # fmt: skip
    head = ("workload set", "capacity, requests/s", "mean layer, us", "isolated times, ms")
    return "\n".join(lines) + "\n\n" + table_text(head, rows)


def _overall(table: StudyTable, timings: Mapping[str, Mapping[str, float]]) -> str:
    places = table.places()
    bracketed = table.bracketed(places)
    champion = table.champion if table.champion in table.present(places) else None
    head = [
        "policy",
        "hit rate, %",
        "worst tenant, %",
        "Jain",
        "energy per request, mJ",
        "energy per hit, mJ",
    ]
    head += [f"against {champion}, points", "above / level / below"] if champion else []
    head += ["% of best found", "% of bound"] if bracketed else []
    head += ["us per decision"] if timings else []
    rows = []
    for name in table.ranked(places):
        row = [
            f"`{name}`" if name not in table.rivals else f"**{name}**",
            percent(table.estimate(places, name)),
        ]
        row += [percent(table.estimate(places, name, "worst_tenant"))]
        row += [_plain(table.estimate(places, name, "jain_hit_rate"), 3)]
        row += [
            _plain(table.estimate(places, name, key), 3, 1e3)
            for key in ("energy_per_request_j", "energy_per_hit_j")
        ]
        if champion:
            same = name == champion
            row += ["" if same else points(table.gain(places, name, champion))]
            row += ["" if same else " / ".join(map(str, table.standing(places, name, champion)))]
        if bracketed:
            row += [percent(table.of_found(places, name)), percent(table.of_bound(places, name))]
        if timings:
            row += [_timing(timings.get(name))]
        rows.append(row)
    said = f"Means over {plural(len(places), 'place')} of the main grid: sets x QoS x load, each with equal weight. "
    said += "Names in bold are chosen on validation traces. "
    if bracketed:
        config = table.facts["config"]["bracket"]
        said += (
            f"The bracket is that of {plural(config['windows'], 'window')} of {config['requests']} requests per "
            f"place, each "
            "from an empty platform: long runs are out of reach of the search and the linear program, and every "
            "policy is "
            "run on the same windows. "
        )
    if timings:
        said += (
            "Decision times are wall time on one machine, the least of a few repeats: of a whole run over its "
            "decision "
            "points, engine included; with * of the policy's own Python calls (median)."
        )
    return said + "\n\n" + table_text(head, rows)


def _timing(found: Mapping[str, float] | None) -> str:
    return "-" if not found else f"{found['us']:.2f}{' *' if found['alone'] else ''}"


def _plain(estimate: Estimate, digits: int, scale: float = 1.0) -> str:
    return "-" if estimate.n == 0 or math.isnan(estimate.mean) else f"{scale * estimate.mean:.{digits}f}"


WHY = {
    "contention_share": "time lost to contention, %", "queueing_share": "time queueing, %",
    "saturated_share": "bandwidth saturated, %", "utilisation": "utilisation, %",
    "utilisation_effective": "effective utilisation, %", "drop_rate": "drop rate, %",
}  # fmt: skip


def _reasons(table: StudyTable) -> str:
    places = table.places()
    rows = [
        [
            f"`{name}`",
            *(percent(table.estimate(places, name, key)) for key in WHY),
            _plain(table.estimate(places, name, "decisions_per_request"), 1),
        ]
        for name in table.ranked(places)
    ]
    said = (
        "Means over the main grid. *Effective* counts isolated layer time only: what is busy beyond it was "
        "stretched by "
        "contention. Shares of time are of all time that requests spent in the system."
    )
    return said + "\n\n" + table_text(["policy", *WHY.values(), "decisions per request"], rows)


def _hit_rates(table: StudyTable) -> str:
    places = table.places()
    parts = []
    for workload in dict.fromkeys(where.workload for where in places):
        for qos in dict.fromkeys(where.qos for where in places):
            for bandwidth in dict.fromkeys(where.bandwidth_gb_s for where in places):
                mine = [
                    w for w in places if (w.workload, w.qos, w.bandwidth_gb_s) == (workload, qos, bandwidth)
                ]
                if mine:
                    parts.append(
                        f"### {workload}, QoS-{qos.upper()}, {bandwidth:g} GB/s\n\n{_by_load(table, mine)}"
                    )
    return "\n\n".join(parts)


def _by_load(table: StudyTable, places: Sequence[Where]) -> str:
    rows = [
        [
            f"`{name}`",
            *(percent(table.estimate([where], name)) for where in places),
            *_worst(table, places, name),
        ]
        for name in table.ranked(places)
    ]
    for label, which in (("best schedule found", "found"), ("bound", "bound")):
        limits = [table.limit(where) for where in places]
        if any(limits):
            shares = [
                "-" if limit is None else f"{100.0 * sum(getattr(limit, which)) / sum(limit.total):.1f}"
                for limit in limits
            ]
            rows.append([f"*{label}, short windows*", *shares, "", ""])
    head = [
        "hit rate, %",
        *(f"load {where.load:g}" for where in places),
        "worst tenant, highest load",
        "Jain, highest load",
    ]
    return table_text(head, rows)


def _worst(table: StudyTable, places: Sequence[Where], name: str) -> list[str]:
    top = [max(places, key=lambda where: where.load)]
    return [
        percent(table.estimate(top, name, "worst_tenant")),
        _plain(table.estimate(top, name, "jain_hit_rate"), 3),
    ]
