"""Results as tables for people and as JSON for programs."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table

from eunomia.cli.console import stdout

if TYPE_CHECKING:
    from eunomia.metrics.statistics import Estimate
    from eunomia.study import CompareResult, RunResult, SweepResult
    from eunomia.study.compare import Promise

RUN_METRICS = ("requests", "hit_rate", "slo_attainment", "slo_shortfall", "worst_tenant", "jain_hit_rate", "drop_rate",
               "response_mean_s", "response_p99_s", "tardiness_p99_s", "queueing_share", "contention_share",
               "utilisation", "bandwidth_saturation", "energy_per_request_j")  # fmt: skip


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """A plain aligned table; columns of ``right`` are flushed right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, header in enumerate(headers):
        justify: Any = "right" if index in right else "left"
        table.add_column(
            header, justify=justify, overflow="fold", no_wrap=header == "policy"
        )  # to be copied whole
    for row in rows:
        table.add_row(*row)
    stdout().print(table)


def percent(estimate: Estimate, short: bool = False) -> str:
    """``71.2 ±1.1 %``; without an interval where there is one seed; ``71 %`` if ``short``."""
    if math.isnan(estimate.mean):
        return "-"
    if short:
        return f"{100 * estimate.mean:.0f} %"
    spread = f" ±{100 * estimate.half_width:.1f}" if estimate.has_interval else ""
    return f"{100 * estimate.mean:.1f}{spread} %"


def seconds(value: float) -> str:
    """A time with a fitting unit."""
    if math.isnan(value):
        return "-"
    if value >= 1.0 or value == 0.0:
        return f"{value:.3g} s"
    return f"{1e3 * value:.3g} ms" if value >= 1e-3 else f"{1e6 * value:.3g} us"


def ratio(value: float, reference: float) -> str:
    """``1.07x`` of a reference."""
    return f"{value / reference:.2f}x" if reference > 0.0 and math.isfinite(value) else "-"


def comparison_rows(result: CompareResult, short: bool = False) -> list[list[str]]:
    """One row per policy: what was kept, for whom not, at which cost; ``short`` leaves intervals out."""
    energy = result.estimate(baseline(result), "energy_per_request_j").mean
    rows = []
    for policy in result.policies:
        if policy not in finished(result):
            rows.append([policy, "failed", *[""] * 7])
            continue
        worst = result.worst_tenant(policy)
        rows.append(
            [
                policy,
                percent(result.estimate(policy, "slo_attainment"), short),
                percent(result.estimate(policy, "hit_rate"), short),
                gain_over(result, policy, short),
                f"{worst} {percent(result.tenant(policy, worst), short)}",
                f"{result.estimate(policy, 'jain_hit_rate').mean:.3f}",
                seconds(result.estimate(policy, "tardiness_p99_s").mean),
                ratio(result.estimate(policy, "energy_per_request_j").mean, energy),
                f"{100 * result.estimate(policy, 'utilisation').mean:.0f} %",
            ]
        )
    return rows


HEADERS = [
    "policy",
    "SLO met",
    "hit rate",
    "gain",
    "worst tenant",
    "Jain",
    "p99 lateness",
    "energy",
    "utilisation",
]
SHORT = ["policy", "SLO met", "hit rate", "gain", "worst tenant", "Jain", "p99 late", "energy", "util"]
RIGHT = (1, 2, 3, 5, 6, 7, 8)  # columns of numbers
NARROW = 110  # columns below which intervals are left out


def baseline(result: CompareResult) -> str:
    """The policy that ratios refer to."""
    from eunomia.study.inference.policy import policy_name

    wanted = policy_name(result.scenario.compare.baseline or "")
    known = finished(result)
    return wanted if wanted in known else known[0]


def finished(result: CompareResult) -> list[str]:
    """The policies with at least one run that did not fail."""
    return [
        policy for policy in result.policies if any((policy, seed) in result.metrics for seed in result.seeds)
    ]


def print_comparison(result: CompareResult) -> None:
    """The table of a comparison, and what lost, for whom."""
    short = stdout().width < NARROW
    print_table(SHORT if short else HEADERS, comparison_rows(result, short), right=RIGHT)
    seeds = len(result.seeds)
    spread = "±: 95 % confidence over the seeds; " if seeds > 1 and not short else ""
    stdout().print(f"{seeds} seed{'s' * (seeds > 1)}, the same requests for every policy; {spread}"
                   f"gain in hit rate over {baseline(result)}, in points, paired by seed (n = {seeds}); "
                   f"energy per request relative to {baseline(result)}", style="dim", soft_wrap=True)  # fmt: skip
    for line in standing_lines(result):
        stdout().print(line, soft_wrap=True)
    for line in notes(result):
        stdout().print(f"note: {line}", style="dim", soft_wrap=True)
    for line in verdict(result):
        stdout().print(line, soft_wrap=True)


def standing_lines(result: CompareResult) -> list[str]:
    """Each policy's place in the bracket, in words."""
    found = result.standing
    if found is None:
        return []
    total = sum(found.total)
    said = f"bracket of {total} requests ({len(found.total)} x the first ones of a seed, from an empty platform): "
    best, most = (100.0 * sum(hits) / total for hits in (found.found, found.bound))
    said += f"best schedule found {best:.1f} % .. bound {most:.1f} %"
    places = [
        f"{policy}: {percent(found.of_found(policy))} of the best found, {percent(found.of_bound(policy))} of the bound"
        for policy in found.hits
    ]
    return [said, *places]


def gain_over(result: CompareResult, policy: str, short: bool = False) -> str:
    """``+3.1 ±1.2``: points of hit rate over the baseline, paired by seed; ``-`` for the baseline itself."""
    gain = result.difference(policy, baseline(result), "hit_rate")
    if policy == baseline(result) or not gain.n:
        return "-"
    return f"{100 * gain.mean:+.1f}" + (
        f" ±{100 * gain.half_width:.1f}" if gain.has_interval and not short else ""
    )


def notes(result: CompareResult) -> list[str]:
    """What a reader could take for a finding and is none."""
    found = []
    if result.replayed_alike and len(result.seeds) > 1:
        names = ", ".join(result.replayed_alike)
        found.append(
            f"every seed replays the same arrivals for {names}; the intervals leave their variation out"
        )
    twins = _twins(result.policies) if result.scenario.engine.late == "last" else []
    for plain, feasible in twins:
        found.append(
            f'{plain} and {feasible} are the same under late = "last", where hopeless requests run last '
            "anyway; tell them apart with --set engine.late=run"
        )
    return found


def _twins(policies: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of policies that differ by the suffix +f alone."""
    parts = {policy: re.split(r"[+-]", policy.lower()) for policy in policies}
    core = {policy: [part for part in parts[policy] if part not in ("f", "feasible")] for policy in policies}
    return [
        (plain, other)
        for plain in policies
        for other in policies
        if core[plain] == parts[plain] and core[other] == core[plain] and parts[other] != core[other]
    ]


def verdict(result: CompareResult) -> list[str]:
    """Which policy kept most promises, which fewest, and who was let down under both."""
    policies = finished(result)
    if len(policies) < 2:
        return []
    score = {policy: _score(result, policy) for policy in policies}
    best, least = max(policies, key=score.__getitem__), min(policies, key=score.__getitem__)
    gain = result.difference(best, least, "hit_rate")
    if score[best] == score[least]:
        return [
            f"No difference: every policy kept {percent(result.estimate(best, 'hit_rate'))} of the deadlines."
        ]
    sure = "" if gain.excludes_zero or not gain.has_interval else ", within the noise of the seeds"
    spread = f" ±{100 * gain.half_width:.1f}" if gain.has_interval else ""
    lines = [
        f"{best} kept most: {percent(result.estimate(best, 'hit_rate'))} of the deadlines, "
        f"{100 * gain.mean:+.1f}{spread} points over {least}{sure}."
    ]
    for policy in dict.fromkeys((least, best)):
        lines.append(f"{policy}: {_losers(result, policy)}")
    return lines


def _score(result: CompareResult, policy: str) -> tuple[float, float]:
    attainment = result.estimate(policy, "slo_attainment").mean
    return (-1.0 if math.isnan(attainment) else attainment, result.estimate(policy, "hit_rate").mean)


def _losers(result: CompareResult, policy: str) -> str:
    """Whose promises were broken, and by how much, on average over the seeds."""
    broken = [p for p in result.promises(policy) if p.kept < 0.5]
    if not broken:
        return "kept every promise on most seeds."
    listed = ", ".join(f"{p.tenant}/{p.model} ({promised(p)})" for p in broken)
    return f"broke the promise to {listed}."


def promised(promise: Promise) -> str:
    """``hit rate 72 % of 95 %``."""
    kind, got, target = promise.kind, promise.got, promise.target
    if math.isnan(got):
        return f"{kind}: nothing finished"
    if kind in ("hit_rate", "drop_rate"):
        limit = "promised" if kind == "hit_rate" else "allowed"
        return f"{kind.replace('_', ' ')} {100 * got:.1f} % of {100 * target:.0f} % {limit}"
    if kind == "throughput":
        return f"{got:.3g} of {target:.3g} per s promised"
    return f"latency {seconds(got)} of {seconds(target)} allowed"


def comparison_json(result: CompareResult) -> dict[str, Any]:
    """A comparison as data: estimates per policy and metric, hit rates per tenant, failures."""
    metrics = list(next(iter(result.metrics.values())))
    return {
        "scenario": result.scenario.name,
        "seeds": list(result.seeds),
        "baseline": baseline(result),
        "notes": notes(result),
        "policies": {
            policy: {
                "metrics": {name: _estimate(result.estimate(policy, name)) for name in metrics},
                "gain_over_baseline": {
                    name: _estimate(result.difference(policy, baseline(result), name)) for name in metrics
                },  # paired by seed
                "tenants": {t.name: _estimate(result.tenant(policy, t.name)) for t in result.scenario.tenant},
                "worst_tenant": result.worst_tenant(policy) if policy in finished(result) else None,
                "promises": [asdict(promise) for promise in result.promises(policy)],
            }
            for policy in result.policies
        },
        "failures": result.failures,
    }


def _estimate(estimate: Estimate) -> dict[str, float | int]:
    return {"mean": estimate.mean, "low": estimate.low, "high": estimate.high, "seeds": estimate.n}


def print_run(result: RunResult) -> None:
    """The main numbers of one run, then its tenants."""
    from eunomia.metrics.summary import METRICS

    stdout().print(f"{result.scenario.name}: policy {result.policy}, seed {result.seed}", style="bold")
    rows = [
        [METRICS[name].label, _number(result.metrics[name], METRICS[name].unit)]
        for name in RUN_METRICS
        if not math.isnan(result.metrics.get(name, math.nan))
    ]
    print_table(["metric", "value"], rows, right=(1,))
    print_table(
        ["tenant", "hit rate"], [[k, f"{100 * v:.1f} %"] for k, v in result.tenants.items()], right=(1,)
    )


def _number(value: float, unit: str) -> str:
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit == "s":
        return seconds(value)
    if unit == "count":
        return f"{value:.0f}"
    return f"{value:.4g}" + ("" if unit == "ratio" else f" {unit}")


def print_sweep(result: SweepResult) -> None:
    """One row per setting and policy."""
    keys, short = list(result.settings[0]), stdout().width < NARROW + 20
    rows = [
        [*(str(setting[key]) for key in keys), *row]
        for setting, point in zip(result.settings, result.points, strict=True)
        if point.metrics
        for row in comparison_rows(point, short)
    ]
    first = len(keys)
    print_table([*keys, *(SHORT if short else HEADERS)], rows, right=[first + column for column in RIGHT])


def sweep_json(result: SweepResult) -> dict[str, Any]:
    """A sweep as data: one entry per setting."""
    points = [
        {"setting": setting, **(comparison_json(point) if point.metrics else {"failures": point.failures})}
        for setting, point in zip(result.settings, result.points, strict=True)
    ]
    return {"scenario": result.scenario.name, "points": points, "failures": result.failures}
