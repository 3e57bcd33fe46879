"""Promises to tenants: ``eunomia(promise=X)``, which rehearses, at 100 drawn mixes against the best tenant rule.

Mixes are those of ``benchmarks/inference/mixes.py``; late requests run last in even ones and are dropped in odd ones.
For each objective the rival is the best gated tenant rule of the mix (triage, gap first, shift, worst first; by
deadline and by size; two placements, three gates) on two validation traces, the second for the best twelve. The best
rule for hits is chosen alike among plain ones. ``--set mixes=0-59``: those; 1000000 and above served development.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.inference.contest import FOR_TENANTS, best, gated, policy_of, validation
from benchmarks.inference.mixes import Mix
from benchmarks.kept import kept_all
from benchmarks.table import Cell, Options, Table, table
from eunomia.engines.processes import Result
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.episodes import Episode
from eunomia.learning.load import eunomia
from eunomia.learning.objectives import OBJECTIVES
from eunomia.metrics.statistics import Estimate, Floats, interval

PROMISES = ("attainment", "shortfall", "max_min")
MEASURES = (*PROMISES, "hit_rate")
HITS = MEASURES.index("hit_rate")
GATES, PLACEMENTS = ("1", "0.9", "0.75"), ("+any_idle", "+eft")
TENANT_RULES = gated(FOR_TENANTS, PLACEMENTS, GATES)
PLAIN_RULES = gated(("edf", "sjf", "llf", "edf_bytes"), PLACEMENTS, GATES)
LATE = ("last", "drop")
TESTS, TWICE = 3, 12


def figures(policy: object, episode: Episode) -> list[float]:
    """Every measure of one run."""
    results = simulate_problem(episode.problem, policy, episode.options).results  # type: ignore[arg-type]
    return [OBJECTIVES[measure](results, episode) for measure in MEASURES]


def rival(rules: Sequence[str], measure: int, once: dict[str, Floats], again: Episode) -> str:
    """The best rule by this measure on two traces; ``once``: all of them on the first."""
    top = sorted(rules, key=lambda name: -float(once[name][0, measure]))[:TWICE]
    twice = {name: np.array([figures(policy_of(name), again)]) for name in top}
    return best([{name: once[name] for name in top}, twice], top, measure)


def examined(mix: Mix) -> Result:
    """Rivals, what was rehearsed, and every measure of all of them on the test traces."""
    first, second = (mix.episode(seed) for seed in validation(2))
    once = {name: np.array([figures(policy_of(name), first)]) for name in (*TENANT_RULES, *PLAIN_RULES)}
    rules = {promise: rival(TENANT_RULES, m, once, second) for m, promise in enumerate(PROMISES)}
    rules["hits"] = rival(PLAIN_RULES, HITS, once, second)
    tests, ran = [mix.episode(seed) for seed in range(TESTS)], {}
    played = {f"rule for {name}": policy_of(rule) for name, rule in rules.items()}
    for promise in PROMISES:
        ours = eunomia(promise)
        played[promise] = ours.choose(tests[0].problem, tests[0].options)
        played[f"{promise}, unrehearsed"] = eunomia(promise, rehearse=0)
        ran[promise] = ours.rehearsed.name if ours.rehearsed else ""
    found = {name: [figures(policy, test) for test in tests] for name, policy in played.items()}
    return {"rules": rules, "ran": ran, "figures": found, "about": mix.about()}


def row(promise: str, late: str, mixes: Sequence[Result]) -> list[Cell]:
    """One objective over some mixes: points and shares."""
    m = PROMISES.index(promise)
    points = {
        name: 100.0 * np.array([np.mean(mix["figures"][name], axis=0) for mix in mixes])
        for name in mixes[0]["figures"]
    }
    ours, other = points[promise], points[f"rule for {promise}"]

    def less(name: str, measure: int) -> Estimate:
        return interval(ours[:, measure] - points[name][:, measure])

    gain = ours[:, m] - other[:, m]
    worst, rest = int(gain.argmin()), float(other[:, m].mean())
    share = float(ours[:, m].mean()) / rest - 1.0 if rest else 0.0
    return [
        promise, late, len(mixes), float(abs(ours[:, m].mean())), abs(rest), interval(gain), share,
        less(f"rule for {promise}", HITS), less("rule for hits", HITS),
        less(f"{promise}, unrehearsed", m), less(f"{promise}, unrehearsed", HITS),
        f"{mixes[worst]['about']}: {gain[worst]:+.1f}",
    ]  # fmt: skip


def family(name: str) -> str:
    """A policy without its numbers; of a learned one, which: trained for a promise, or with terms set by hand."""
    learned = re.match(r"eunomia[(-](?:promise=)?([a-z_-]+)", name)
    return f"learned: {learned[1].replace('-', '_')}" if learned else re.split(r"[(+]", name)[0]


def measure(options: Options) -> Iterator[Table]:
    """One row per objective and lateness; then what ran."""
    low, _, high = ("0-1" if options.quick else options.given.get("mixes", "0-99")).partition("-")
    mixes = [Mix(number) for number in range(int(low), int(high) + 1)]
    found = kept_all("tenants-exam", examined, mixes, options.workers)
    rows = []
    for promise in PROMISES:
        rows.append(row(promise, "both", found))
        rows += [row(promise, late, found[n::2]) for n, late in enumerate(LATE) if len(found) > 1]
    yield table(
        "exam", "objective; late; mixes; eunomia, %|.1f; best tenant rule, %|.1f; better by, points|+.2f; share of the "
        "rule's|+.0%; hits less the rule's|+.2f; hits less those of the best rule for hits|+.2f; better than "
        "unrehearsed by|+.2f; hits less those unrehearsed|+.2f; worst mix, points", rows,
    )  # fmt: skip
    lines: list[list[Cell]] = []
    for promise in PROMISES:
        families = Counter(family(mix["ran"][promise]) for mix in found)
        lines.append([promise, ", ".join(f"{name} {count}" for name, count in families.most_common())])
    yield table("ran", "objective; what the rehearsals chose, mixes", lines)
