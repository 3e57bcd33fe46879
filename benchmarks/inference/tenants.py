"""Promises to tenants. Parts: gains, loads, replications, means, feasibility, equality, first look.

21 mixes of 2 to 6 tenants with networks that no policy here was trained on, loads 0.85 to 1.3, a hit rate between 0.5
and 0.95 promised to every (tenant, network) pair, drawn anew for every trace. For each objective the rival is the best
gated tenant rule (triage, gap first, shift, worst first; by deadline and by size; any idle accelerator or earliest
finish; three gates) of each set and load on validation traces of the mixes. Beside it stand five replications of the
policy trained for the objective, the shipped policy with the terms set by hand, and the best policies that know no
promises. Replications that are missing under ``runs`` are trained first. Finished cells are found again.

``first look``: one trace of every mix at loads 1.15 and 1.3 with rules fixed beforehand: about a minute.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.inference.contest import FOR_TENANTS, PUBLISHED, best, contest, gated, trained, validation
from benchmarks.inference.mixes import EQUAL_PLACES, LOADS, PLACES, REQUESTS, Place
from benchmarks.kept import kept_all
from benchmarks.table import Cell, Options, Table, table
from eunomia.engines.processes import Result
from eunomia.metrics.bounds import BoundOptions, attainment_bound
from eunomia.metrics.statistics import Estimate, Floats, interval
from eunomia.study.inference.bench import prepare
from eunomia.study.inference.run import engine_options
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Slo

Values = dict[str, Floats]  # by label: (mixes, loads, measures), points, positive
PROMISES = ("attainment", "shortfall", "max_min")
MEASURES = (*PROMISES, "hit_rate", "fairness")
SIGNS = np.array([1.0, -1.0, -1.0, 1.0, -1.0])  # so that the page shows positive percentages
HITS, FAIRNESS = 3, 4
HAND = {"attainment": "keep", "shortfall": "mend", "max_min": "level"}
STRENGTHS = (0.5, 1.0, 2.0, 4.0)
GATES, PLACEMENTS = ("1", "0.9", "0.75"), ("+any_idle", "+eft")
TENANT_RULES = gated(FOR_TENANTS, PLACEMENTS, GATES)
PLAIN_RULES = gated(("edf", "sjf", "llf", "edf_bytes"), PLACEMENTS, GATES)
PLAIN_RULES += tuple(f"{name}+g{gate}" for name in PUBLISHED for gate in GATES)
NO_PROMISES, FOR_HITS = "best rule without promises", "best rule for hits"
FIRST_RULES = "triage_sjf+f+eft+g1 triage_edf+f+eft+g0.9 gap_first_sjf+f+eft+g0.9 worst_first_edf+f+eft+g0.9"
FIRST_RULES += " shift_edf+f+eft+g0.9 dysta+g0.9 sjf+f+eft+g0.9 edf+f+eft+g0.9"
FIRST_LOADS = (1.15, 1.3)
TESTS, VALIDATIONS = 2, 2  # traces per place
OVERLOAD = [load > 1.0 for load in LOADS]
BY_LOAD = "".join(f"; load {load:g}|.1f" for load in LOADS)
MEANS = "policy; attainment %|.2f; mean shortfall %|.2f; worst shortfall %|.2f; hits %|.2f"
LESS = ("", " (less is better)", " (less is better)")  # beside the objectives


def bounded(task: tuple[Place, int]) -> Result:
    """The share of the promises of a trace that anybody could have kept, at most."""
    place, seed = task
    made = place.scenario()
    bench, targets = prepare(made), place.episode(seed).problem.jobs.slo_target
    r = bench.requests(seed).first(REQUESTS)
    promised = tuple(replace(a, slo=Slo(float(t))) for a, t in zip(r.agreements, targets, strict=True))
    asked = RequestTable(promised, r.pair, r.arrival_s, r.relative_deadline_s, r.priority, r.deferrable)
    mode = engine_options(made, seed, "requests").contention
    options = BoundOptions(contention=mode, intervals=60, time_limit_s=20.0)
    return {"share": attainment_bound(asked, bench.machine.table, bench.machine, options).share}


def by_hand(terms: str, strength: float = 2.0) -> str:
    """The shipped policy with terms for a promise, without training for it."""
    return f"eunomia(promise={terms},strength={strength:g})"


def gathered(
    places: Sequence[Place], names: Mapping[str, str | Mapping[Place, str]], tests: int, workers: int
) -> Values:
    """Points by label, averaged over the traces; a label stands for one policy, or for one of each place."""
    of = {p: [name if isinstance(name, str) else name[p] for name in names.values()] for p in places}
    found, _ = contest("tenants", places, range(tests), of, MEASURES, workers)
    loads = len(dict.fromkeys(place.load for place in places))
    values: Values = {}
    for n, label in enumerate(names):
        points = [100.0 * SIGNS * found[place][of[place][n]].mean(axis=0) for place in places]
        values[label] = np.array(points).reshape(-1, loads, len(MEASURES))
    return values


def chosen_rules(workers: int) -> dict[str, dict[Place, str]]:
    """For every place what validation traces of its set and load chose: a rule for each promise, and without."""
    rules = (*TENANT_RULES, *PLAIN_RULES)
    found, _ = contest("tenants", PLACES, validation(VALIDATIONS), rules, MEASURES, workers)
    chosen: dict[str, dict[Place, str]] = {}
    for place in PLACES:
        mine = [found[p] for p in PLACES if (p.kind, p.load) == (place.kind, place.load)]
        for m, promise in enumerate(PROMISES):
            chosen.setdefault(f"best rule for {promise}", {})[place] = best(mine, TENANT_RULES, m)
        chosen.setdefault(NO_PROMISES, {})[place] = best(mine, PLAIN_RULES, 0)
        chosen.setdefault(FOR_HITS, {})[place] = best(mine, PLAIN_RULES, HITS)
    return chosen


def cards(seeds: range, workers: int, promises: Sequence[str] = PROMISES) -> dict[str, str]:
    """The replications by label, ``PROMISE SEED``."""
    found = {}
    for p, seed in itertools.product(promises, seeds):
        label = f"eunomia-{p.replace('_', '-')}"
        found[f"{p} {seed}"] = str(trained(f"tenants_for_{p}", seed, label=label, workers=workers))
    return found


def with_means(values: Values) -> Values:
    """Beside all policies, the mean over the replications of each promise."""
    made = dict(values)
    for promise in PROMISES:
        each = [table for name, table in values.items() if name.startswith(f"{promise} ")]
        if each:
            made[f"trained for {promise}"] = np.mean(each, axis=0)
    return made


def by_mix(points: Floats, measure: int, loads: Sequence[bool] | None = None) -> Floats:
    """(mixes,) averaged over the chosen loads, or over all."""
    chosen = points[:, :, measure] if loads is None else points[:, list(loads), measure]
    return np.asarray(chosen.mean(axis=1))


def averages(points: Floats) -> list[float]:
    """Every measure over mixes and loads."""
    return [float(by_mix(points, measure).mean()) for measure in range(len(MEASURES))]


def gain(values: Values, one: str, other: str, measure: int, loads: Sequence[bool] | None = None) -> Estimate:
    """Paired difference in points over mixes."""
    return interval(by_mix(values[one], measure, loads) - by_mix(values[other], measure, loads))


def share(values: Values, one: str, other: str, measure: int) -> float:
    """How much less or more than the other's."""
    return float(by_mix(values[one], measure).mean() / max(by_mix(values[other], measure).mean(), 1e-9) - 1.0)


# --- tables ------------------------------------------------------------------------------------------------


def means(values: Values) -> Table:
    """One row per policy, and its price: hits given up against ``eunomia`` without promises."""
    rows: list[list[Cell]] = []
    for name, points in values.items():
        if name.rpartition(" ")[0] not in PROMISES:
            price = None if name == "eunomia" else gain(values, "eunomia", name, HITS)
            rows.append([name, *averages(points), price])
    return table("means", f"{MEANS}; std over tenants|.2f; price|+.2f", rows)


def gains(values: Values) -> Table:
    """Each objective: trained and hand-set against the rival, against each other, against no promises."""
    rows: list[list[Cell]] = []
    for m, promise in enumerate(PROMISES):
        ours, hand, rival = contestants(promise)
        pairs = [(ours, rival), (hand, rival), *((ours, other) for other in (hand, "eunomia", NO_PROMISES))]
        for one, other in pairs:
            both = gain(values, one, other, m), share(values, one, other, m)
            rows.append([f"{promise}{LESS[m]}", one, other, *both, gain(values, one, other, HITS)])
    columns = "objective; policy; against; difference|+.2f; share of the rival's|+.0%; hits|+.2f"
    return table("gains", columns, rows)


def contestants(promise: str) -> tuple[str, str, str]:
    """Labels of the trained policy, of the terms set by hand, and of the best rule for a promise."""
    return f"trained for {promise}", f"{HAND[promise]} 2", f"best rule for {promise}"


def by_load(values: Values) -> Iterator[Table]:
    """The objective by load: trained, hand-set, rival; and overload against policies without promises."""
    rows: list[list[Cell]] = []
    for m, promise in enumerate(PROMISES):
        for name in (*contestants(promise), "eunomia", NO_PROMISES):
            rows.append([promise, name, *values[name][:, :, m].mean(axis=0).tolist()])
    yield table("loads", f"objective; policy{BY_LOAD}", rows)
    rows = [
        [one, to, *(gain(values, one, to, m, OVERLOAD) for m in (0, HITS))]
        for one in ("trained for attainment", "keep 2")
        for to in (NO_PROMISES, FOR_HITS, "eunomia")
    ]
    yield table("overload", "policy; against; attainment|+.2f; hits|+.2f", rows)


def replications(values: Values) -> Table:
    """Each replication against the rival of its objective."""
    rows: list[list[Cell]] = []
    for m, promise in enumerate(PROMISES):
        rival = f"best rule for {promise}"
        for label in [name for name in values if name.startswith(f"{promise} ")]:
            both = [gain(values, label, rival, measure) for measure in (m, HITS)]
            rows.append([promise, label.split(" ")[-1], float(by_mix(values[label], m).mean()), *both])
    columns = "objective; replication; value %|.2f; against the best rule|+.2f; hits against it|+.2f"
    return table("replications", columns, rows)


def feasibility(values: Values, bounds: Floats) -> Table:
    """The bracket of attainment on the first trace of each place: best policy trace by trace, and the bound."""
    attained = {name: points[:, :, 0] for name, points in values.items()}
    rows = {
        "bound: no schedule has more": 100.0 * bounds,
        "best of all policies here, trace by trace": np.max(list(attained.values()), axis=0),
        **{name: attained[name] for name in contestants("attainment")},
    }
    lines = [[name, *share.mean(axis=0).tolist(), float(share.mean())] for name, share in rows.items()]
    return table("feasibility", f"SLO attainment, %{BY_LOAD}; all|.1f", lines)


def equality(values: Values) -> Table:
    """The same target for all: spread over tenants."""
    rows: list[list[Cell]] = []
    for name, points in values.items():
        spread, worst, hits = (float(by_mix(points, m).mean()) for m in (FAIRNESS, 2, HITS))
        of = 1.0 + share(values, name, "relmas", FAIRNESS)
        rows.append([name, spread, of, worst, hits, gain(values, name, "relmas", FAIRNESS)])
    columns = (
        "policy; std over tenants|.2f; of relmas'|.0%; worst shortfall %|.1f; hits %|.1f; std - relmas'|+.2f"
    )
    return table("equality", columns, rows)


def first_look(seeds: range, mixes: int, workers: int) -> Iterator[Table]:
    """Overload alone, one trace, rules fixed beforehand; differences of the trained policies to all others."""
    places = [place for place in PLACES if place.load in FIRST_LOADS][: mixes * len(FIRST_LOADS)]
    ours = cards(seeds, workers, PROMISES[:2]) if seeds else {}
    names = {"eunomia": "eunomia", **{f"{terms} 2": by_hand(terms) for terms in HAND.values()}, **ours}
    names |= {name: name for name in FIRST_RULES.split()}
    values = gathered(places, names, 1, workers)
    yield table("first look", MEANS, [[name, *averages(points)[:-1]] for name, points in values.items()])
    rows: list[list[Cell]] = []
    for one in ours:
        m = PROMISES.index(one.split(" ")[0])
        for other in [name for name in values if name not in ours]:
            both = [gain(values, one, other, measure) for measure in (m, HITS)]
            rows.append([PROMISES[m], one, other, *both])
    yield table("first gains", "objective; policy; against; difference|+.2f; hits|+.2f", rows)


def measure(options: Options) -> Iterator[Table]:
    """All parts; the quick run takes a first look at three mixes with the shipped policy."""
    if options.quick or options.only == ("first look",):
        yield from first_look(range(0 if options.quick else 1), 2 if options.quick else 21, options.workers)
        return
    ours, chosen = cards(options.seeds_or(5), options.workers), chosen_rules(options.workers)
    hand = {f"{terms} {x:g}": by_hand(terms, x) for terms in HAND.values() for x in STRENGTHS}
    labels: dict[str, str | Mapping[Place, str]] = {**chosen, "eunomia": "eunomia", **hand, **ours}
    values = with_means(gathered(PLACES, labels, TESTS, options.workers))
    first = with_means(gathered(PLACES, labels, 1, options.workers))
    results = kept_all("tenants-bound", bounded, [(place, 0) for place in PLACES], options.workers)
    bounds = np.array([one["share"] for one in results]).reshape(-1, len(LOADS))
    same = {"relmas": "relmas", "eunomia": "eunomia", "level 2": by_hand("level")}
    same |= {name: card for name, card in ours.items() if name.startswith("max_min")}
    same |= {"worst first": "worst_first_edf+f+eft+g0.9", "edf": "edf+f+eft+g0.9"}
    equal = with_means(gathered(EQUAL_PLACES, same, TESTS, options.workers))
    used = [(label, ", ".join(f"`{n}`" for n in sorted(set(of.values())))) for label, of in chosen.items()]
    yield gains(values)
    yield from by_load(values)
    yield replications(values)
    yield means(values)
    yield feasibility(first, bounds)
    yield equality(equal)
    yield table("rules", "chosen on validation; rules", used)
