"""The page of ``benchmarks.learned``: table, means, intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learned import BANDWIDTH_GB_S, SEARCH, SEARCHED, TESTS, VALIDATIONS, Row
from eunomia.metrics.statistics import Estimate, interval

RESULTS = Path(__file__).parent.parent / "results" / "learned.md"
BEGIN, END = "<!-- begin: python -m benchmarks.learned --write -->", "<!-- end -->"
HEAD = ("sharing", "set", "load", "best rule on validation", "without gate", "rule", "eunomia", "eunomia - rule",
        "replications - rule", "found", "bound", "place in the bracket")  # fmt: skip
RESAMPLES = 2000


def gains(rows: Sequence[Row]) -> Any:
    """(replications, rows, traces) differences to the rule."""
    return np.stack([row.ours - row.rule for row in rows], axis=1)


def closed(rows: Sequence[Row], ours: Callable[[Row], Any]) -> float:
    """Share of the gap between the rule and the best schedule found, on the searched traces of all rows together."""
    gap = sum(float((row.found - row.rule[:SEARCHED]).sum()) for row in rows)
    gained = sum(float((ours(row)[:SEARCHED] - row.rule[:SEARCHED]).sum()) for row in rows)
    return gained / gap if gap > 0.0 else 1.0


def over_seeds_and_traces(rows: Sequence[Row]) -> tuple[float, float]:
    """95 % interval of the mean gain: replications, and the traces of each row, drawn again with replacement."""
    table, rng = gains(rows), np.random.default_rng(0)
    seeds, places, traces = table.shape
    means = []
    for _ in range(RESAMPLES):
        some = table[rng.integers(0, seeds, seeds)]
        drawn = rng.integers(0, traces, (places, traces))
        means.append(some[:, np.arange(places)[:, None], drawn].mean())
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def percent(estimate: Estimate, digits: int = 2) -> str:
    """``+1.23 +-0.45``, in points; without an interval where there is none."""
    if not estimate.has_interval:
        return f"{100 * estimate.mean:+.{digits}f}"
    return f"{100 * estimate.mean:+.{digits}f} +-{100 * estimate.half_width:.{digits}f}"


def line(row: Row) -> str:
    """One row of the table."""
    shipped = interval((row.ours[0] - row.rule).tolist())
    others = interval((row.ours - row.rule).mean(axis=0).tolist())
    ours, rule = float(row.ours[0, :SEARCHED].mean()), float(row.rule[:SEARCHED].mean())
    gap = float(row.found.mean()) - rule
    place = f"{100 * (ours - rule) / gap:.0f} %" if gap > 0.0 else "-"
    cells = [row.place.contention, row.place.mix, f"{row.place.load:g}", row.rivals.rule,
             *(f"{100 * values.mean():.1f}" for values in (row.bare, row.rule, row.ours[0])),
             percent(shipped, 1), percent(others, 1), f"{100 * row.found.mean():.1f}", f"{100 * row.bound.mean():.1f}",
             place]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def below(rows: Sequence[Row], ours: Callable[[Row], Any]) -> str:
    """Rows at which a policy is significantly below the rule."""
    found = [row.place for row in rows if interval((ours(row) - row.rule).tolist()).high < 0.0]
    return ", ".join(f"{p.contention} {p.mix} load {p.load:g}" for p in found) or "nowhere"


def by_sharing(rows: Sequence[Row]) -> str:
    """Gain and share closed for each way of sharing."""
    parts = []
    for name in dict.fromkeys(row.place.contention for row in rows):
        some = [row for row in rows if row.place.contention == name]
        gain = interval([float((row.ours - row.rule).mean()) for row in some])
        share = np.mean([closed(some, lambda row, r=r: row.ours[r]) for r in range(len(some[0].ours))])
        parts.append(f"{name} {percent(gain)} points, {100 * share:.0f} %")
    return "; ".join(parts)


def shipped_of(row: Row) -> Any:
    """Test rates of the shipped policy."""
    return row.ours[0]


def average(row: Row) -> Any:
    """Test rates of the replications, averaged over them."""
    return row.ours.mean(axis=0)


def closed_between(rows: Sequence[Row], ours: Callable[[Row], Any]) -> tuple[float, float]:
    """95 % interval of the share closed: rows drawn again with replacement."""
    rng = np.random.default_rng(1)
    shares = [
        closed([rows[i] for i in rng.integers(0, len(rows), len(rows))], ours) for _ in range(RESAMPLES)
    ]
    low, high = np.quantile(shares, (0.025, 0.975))
    return float(low), float(high)


def of_replications(rows: Sequence[Row]) -> list[str]:
    """What training again gives."""
    seeds = range(len(rows[0].ours))
    if len(seeds) == 1:
        return [
            "One replication: the shipped policy. Without `--seeds 1` the command trains and judges five."
        ]
    each = interval(gains(rows).mean(axis=(1, 2)).tolist())
    over_rows = interval(gains(rows).mean(axis=(0, 2)).tolist())
    shares = interval([closed(rows, lambda row, r=r: row.ours[r]) for r in seeds])
    low, high = over_seeds_and_traces(rows)
    by_seed = ", ".join(f"{100 * gain:+.2f}" for gain in gains(rows).mean(axis=(1, 2)))
    return [
        f"{len(seeds)} replications of training (seeds {', '.join(map(str, seeds))}; 0 is the shipped policy):",
        f"* replications - best rule: **{100 * each.mean:+.2f} points**; over seeds and traces {100 * low:+.2f} to "
        f"{100 * high:+.2f} (bootstrap, 95 %), over",
        f"  seeds alone +-{100 * each.half_width:.2f}, over rows +-{100 * over_rows.half_width:.2f}; "
        f"by seed {by_seed}.",
        "* share of the gap between the best rule and the best schedule found: "
        f"**{100 * shares.mean:.0f} % +-{100 * shares.half_width:.0f}** (over seeds).",
        f"* their mean is significantly below the rule (95 % over traces, no correction for {len(rows)} tests): "
        f"{below(rows, average)}.",
    ]


def text_of(rows: Sequence[Row], counts: dict[str, int]) -> str:
    """Table and sentences."""
    table = "\n".join([f"| {' | '.join(HEAD)} |", f"|{' --- |' * 4}{' ---: |' * 8}", *map(line, rows)])
    shipped = interval([float((row.ours[0] - row.rule).mean()) for row in rows])
    gate = interval([float((row.rule - row.bare).mean()) for row in rows])
    low, high = closed_between(rows, shipped_of)
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    lines = [
        f"{len(rows)} rows, {BANDWIDTH_GB_S:g} GB/s, {VALIDATIONS} validation and {TESTS} test traces each; `found` "
        f"(clairvoyant search, {SEARCH} evaluations, or",
        "any policy of the row where that is better), `bound` (linear programme; no schedule is above it) and the",
        f"place in the bracket (0 % = rule, 100 % = found; the shipped policy) are of {SEARCHED} test trace(s) a row.",
        "",
        *of_replications(rows),
        f"By way of sharing (gain with its interval over rows, share closed): {by_sharing(rows)}.",
        "",
        "The shipped policy:",
        f"* eunomia - best rule: **{percent(shipped)} points** (95 % over rows); share of the gap closed "
        f"**{100 * closed(rows, shipped_of):.0f} %** ({100 * low:.0f} to {100 * high:.0f}, bootstrap over rows).",
        f"* significantly below the rule (95 % over {TESTS} traces, no correction for {len(rows)} tests): "
        f"{below(rows, shipped_of)}.",
        f"* what the gate alone gives (best rule - best rule without gate): {percent(gate)} points.",
        f"* guards over all test runs: {listed}.",
    ]
    return "\n".join([table, "", *lines, ""])


def write(text: str) -> None:
    """Into the page, between its marks."""
    page = RESULTS.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    RESULTS.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")
