"""Who is ahead in a comparison of cluster runs, as far as its seeds can tell, and whom it costs most."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eunomia.core.records import Comparison
from eunomia.metrics.cluster import job_columns, nothing_drawn
from eunomia.metrics.statistics import Estimate, interval, paired_difference
from eunomia.report.leaders import listed
from eunomia.report.units import duration, three_digits

MEAN, WORST = "jct_mean_s", "rho_max"


def estimate(comparison: Comparison, policy: str, metric: str) -> Estimate:
    """Mean of a metric over seeds; without an interval where they draw nothing."""
    found = interval(_values(comparison, policy, metric))
    return found.alone if policy in alike(comparison) else found


def difference(comparison: Comparison, policy: str, rival: str, metric: str) -> Estimate:
    """Policy minus rival, seed by seed; without an interval where they draw nothing for both."""
    found = paired_difference(_values(comparison, policy, metric), _values(comparison, rival, metric))
    return found.alone if {policy, rival} <= set(alike(comparison)) else found


def alike(comparison: Comparison) -> list[str]:
    """The policies for which the seeds draw nothing, so that they are one sample."""
    each = {p: [run.manifest["metrics"] for run in comparison.of(p)] for p in comparison.policies}
    return [policy for policy, seeds in each.items() if nothing_drawn(seeds)]


def drawn_note(seeds: int, alike: Sequence[str], policies: int) -> str:
    """That ``alike`` of so many policies gave the same on every seed."""
    if len(alike) == policies:
        return f"{seeds} seeds, which draw nothing here: one set of jobs, so no intervals"
    return f"seeds draw nothing under {listed(alike)}: one set of jobs, so no intervals there"


def headline(comparison: Comparison) -> str:
    """The shortest average JCT, if the seeds tell who has it, with the worst rho beside it."""
    means = {p: estimate(comparison, p, MEAN).mean for p in comparison.policies}
    order = sorted((p for p in means if not math.isnan(means[p])), key=means.__getitem__)
    if not order:
        return "No job finished."
    best = order[0]
    if len(means) == 1:
        return f"{best}: average JCT {_figures(comparison, best)}."
    against = {p: difference(comparison, p, best, MEAN) for p in order[1:]}
    if not any(gap.has_interval for gap in against.values()):
        shown = "; ".join(f"{p} {_figures(comparison, p)}" for p in order[:3])
        one = "one set of jobs" if len(comparison.seeds) > 1 else "one seed"
        return f"Average JCT of {one}, which cannot tell who is ahead: {shown}."
    level = [p for p, gap in against.items() if not gap.excludes_zero]
    if level:
        gap = against[level[0]]
        shown = ", ".join(f"{p} {_figures(comparison, p)}" for p in (best, *level[:3]))
        more = f" and {len(level) - 3} more" if len(level) > 3 else ""
        over = (
            f"± {duration(gap.half_width)} over {gap.n} seeds" if gap.has_interval else "on one set of jobs"
        )
        return (
            f"No policy has the shortest average JCT beyond doubt: {shown}{more}; {level[0]} minus {best} is "
            f"{_signed(gap.mean)} {over}."
        )
    return (
        f"{best} has the shortest average JCT, {_figures(comparison, best)}; {order[1]} follows with "
        f"{_figures(comparison, order[1])}."
    )


def worst_served(comparison: Comparison) -> list[str]:
    """Under which policies the worst rho is lowest and highest, and whose job that was."""
    worst = {p: estimate(comparison, p, WORST).mean for p in comparison.policies}
    known = sorted((p for p in worst if not math.isnan(worst[p])), key=worst.__getitem__)
    if not known:
        return []
    if len(known) == 1:
        return [f"The worst rho is {three_digits(worst[known[0]])}{_whose(comparison, known[0])}."]
    return [
        f"The worst rho is lowest under {known[0]}, {three_digits(worst[known[0]])}, and highest under {known[-1]}, "
        f"{three_digits(worst[known[-1]])}{_whose(comparison, known[-1])}."
    ]


def _values(comparison: Comparison, policy: str, metric: str) -> list[float]:
    """One value per seed; nan where the policy has no run or figure."""
    found = {run.seed: run.manifest["metrics"].get(metric) for run in comparison.of(policy)}
    values = [found.get(seed) for seed in comparison.seeds]
    return [math.nan if value is None else float(value) for value in values]


def _figures(comparison: Comparison, policy: str) -> str:
    mean, worst = (estimate(comparison, policy, metric).mean for metric in (MEAN, WORST))
    return duration(mean) + ("" if math.isnan(worst) else f" (worst rho {three_digits(worst)})")


def _signed(seconds: float) -> str:
    return ("-" if seconds < 0.0 else "+") + duration(abs(seconds))


def _whose(comparison: Comparison, policy: str) -> str:
    """The job with the worst rho of any seed, and its tenant."""
    found: tuple[float, str] = (-math.inf, "")
    for run in comparison.of(policy):
        jobs = run["jobs"]
        rho = np.nan_to_num(job_columns(jobs, float(run.manifest["end_s"])).rho, nan=-math.inf)
        row = int(rho.argmax())
        if rho[row] > found[0]:
            job, tenant = jobs["job"][row].as_py(), jobs["tenant"][row].as_py()
            owner = f" of tenant '{tenant}'" if tenant else ""
            found = float(rho[row]), f" (job '{job}'{owner}, seed {run.seed}: {three_digits(rho[row])})"
    return found[1]
