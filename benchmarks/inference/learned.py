"""What learning is worth. Parts: rows, trainers.

Deployments: MoCA's light, heavy and mixed sets (none of whose networks any policy was trained on) on 4 Simba-like and
4 Eyeriss-like accelerators with 24 GB/s (no policy was trained on that bandwidth either), loads 0.85 to 1.3, three ways
of sharing, hopeless requests dropped. For each of these places the rival is the best of all orders x placements x
gates, and of the published schedulers with gates, on validation traces of the place. On test traces stand beside it
the replications of its training (seed 0 is the shipped policy itself), the same orders without a gate, and the best
schedule that a clairvoyant search found. Replications whose cards are missing under ``runs`` are trained first. All of
it is kept there as it is finished, and found again: the command may be stopped at any moment.

``trainers``: CMA-ES alone (general.toml), expert iteration from lookahead alone (expert.toml), and expert iteration as
the start of CMA-ES (taught.toml).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.inference.contest import (
    PUBLISHED,
    SETS,
    best,
    by_qos,
    contest,
    lanes,
    limits,
    scenario,
    trained,
    validation,
)
from benchmarks.table import Cell, Options, Table, table
from eunomia.learning.episodes import Episode
from eunomia.learning.load import card_of
from eunomia.metrics.statistics import Estimate, Floats, interval
from eunomia.study.learning.scenarios import scenario_episode
from eunomia.study.learning.training import BASES

LOADS = (0.85, 1.0, 1.15, 1.3)
CONTENTIONS = ("proportional", "max_min", "weighted")
BANDWIDTH_GB_S, REQUESTS = 24.0, 400
TESTS, VALIDATIONS = 4, 2  # traces per place
SEARCH = 1500  # evaluations
GATED = tuple(f"{name}+g{gate}" for name in PUBLISHED for gate in ("1.0", "0.9", "0.75"))
BARE = tuple(dict.fromkeys(name.rpartition("+g")[0] for name in (*BASES, *GATED)))
FILES = {"CMA-ES": "general", "expert iteration": "expert", "expert iteration, then CMA-ES": "taught"}
RESAMPLES = 2000


@dataclass(frozen=True)
class Place:
    """Three tenants with tight, usual and loose deadlines (QoS-H, M, L at 3 isolated times)."""

    mix: str
    load: float
    contention: str = "proportional"
    bandwidth_gb_s: float = BANDWIDTH_GB_S

    def episode(self, seed: int, requests: int | None = REQUESTS) -> Episode:
        """One trace."""
        models, duration_s = SETS[self.mix]
        platform = lanes(4, self.bandwidth_gb_s, self.contention)
        made = scenario(self.mix, by_qos(models), platform, self.load, duration_s)
        return scenario_episode(made, seed, requests)


PLACES = tuple(Place(mix, load, c) for c in CONTENTIONS for mix in SETS for load in LOADS)


@dataclass(frozen=True, eq=False)
class Row:
    """Test hit rates at one place. ``rival``: the best rule on validation, ``unheld``: the best without a gate."""

    place: Place
    rival: str
    rule: Floats  # (traces,)
    bare: Floats  # (traces,)
    ours: Floats  # (replications, traces)
    found: Floats  # (traces,) by the search, or by any policy of the row where that is better
    bound: Floats  # (traces,)

    @property
    def gain(self) -> Floats:
        """(replications, traces) difference to the rule."""
        return np.asarray(self.ours - self.rule)


def rivals(places: Sequence[Place], workers: int) -> dict[Place, tuple[str, str]]:
    """Per place, on validation traces: the best rule, a gate or none, and the best without one."""
    names = (*BASES, *GATED, *BARE)
    found, _ = contest("learned", places, validation(VALIDATIONS), names, workers=workers)
    return {place: (best([found[place]], names), best([found[place]], BARE)) for place in places}


def rows(
    places: Sequence[Place], cards: Sequence[str], tests: int, search: int, workers: int
) -> tuple[list[Row], dict[str, int]]:
    """All rows, and what the guards of the first policy counted."""
    chosen = rivals(places, workers)
    rules, _ = contest("learned", places, range(tests), chosen, workers=workers)
    runs = [contest("learned", places, range(tests), (card,), workers=workers) for card in cards]
    ends = limits("learned", places, range(tests), search, workers)
    made = []
    for place in places:
        rule, bare = (rules[place][name][:, 0] for name in chosen[place])
        ours = np.array([found[place][card][:, 0] for card, (found, _) in zip(cards, runs, strict=True)])
        known = np.vstack([ours, rule, bare, ends[place]["found"]]).max(axis=0)
        made.append(Row(place, chosen[place][0], rule, bare, ours, known, ends[place]["bound"]))
    return made, runs[0][1]


def closed(rows: Sequence[Row], replication: int | None = None) -> float:
    """Share of the gap between the rule and the best schedule found, all rows together; None = mean replication."""
    ours = [row.ours.mean(axis=0) if replication is None else row.ours[replication] for row in rows]
    gap = sum(float((row.found - row.rule).sum()) for row in rows)
    gained = sum(float((one - row.rule).sum()) for one, row in zip(ours, rows, strict=True))
    return gained / gap if gap > 0.0 else 1.0


def drawn_again(gains: Floats) -> Estimate:
    """The mean of (replications, rows, traces) gains, 95 % by drawing replications and traces again."""
    (seeds, places, traces), rng = gains.shape, np.random.default_rng(0)
    means = []
    for _ in range(RESAMPLES):
        some = gains[rng.integers(0, seeds, seeds)]
        means.append(some[:, np.arange(places)[:, None], rng.integers(0, traces, (places, traces))].mean())
    return Estimate(float(gains.mean()), *np.quantile(means, (0.025, 0.975)).tolist(), seeds)


def together(rows: Sequence[Row], counts: dict[str, int]) -> Table:
    """Gains and shares of the gap over all rows; replication 0 is the shipped policy."""
    gains, numbers = np.stack([row.gain for row in rows], axis=1), range(len(rows[0].ours))
    shares = interval([closed(rows, number) for number in numbers])
    bare = interval([float((row.rule - row.bare).mean()) for row in rows])
    lines: list[list[Cell]] = [
        ["replications, over seeds and traces (bootstrap)", drawn_again(gains), shares],
        ["replications, over seeds", interval(gains.mean(axis=(1, 2))), shares],
        ["replications, over rows", interval(gains.mean(axis=(0, 2))), closed(rows)],
    ]
    for name in dict.fromkeys(row.place.contention for row in rows):
        some = [row for row in rows if row.place.contention == name]
        lines.append([f"replications, {name}", interval([row.gain.mean() for row in some]), closed(some)])
    lines.append(["shipped policy, over rows", interval(gains[0].mean(axis=1)), closed(rows, 0)])
    lines.append(["the gate alone (best rule less best rule without gate), over rows", bare, None])
    below = [sum(interval(one).high < 0.0 for one in each) for each in (gains[0], gains.mean(axis=0))]
    notes = [
        f"Of {len(rows)} rows the shipped policy is significantly below the rule in {below[0]}, the mean replication "
        f"in {below[1]} (95 % over {gains.shape[2]} traces, no correction for the number of rows). Guards over all "
        f"test runs: {', '.join(f'{name} {count}' for name, count in counts.items())}."
    ]
    columns = "what; gain over the rule, points|+.2p; share of the gap closed|.0%"
    return table("together", columns, lines, notes)


COLUMNS = (
    "sharing; set; load|g; best rule on validation; without gate|.1p; rule|.1p; eunomia|.1p; eunomia - rule|+.1p; "
    "replications - rule|+.1p; found|.1p; bound|.1p; place in the bracket|.0%"
)


def cells(row: Row) -> list[Cell]:
    """A row of the table."""
    gap = float((row.found - row.rule).mean())
    place = float(row.gain[0].mean()) / gap if gap > 0.0 else None
    means = [float(values.mean()) for values in (row.bare, row.rule, row.ours[0])]
    gains = [interval(row.gain[0]), interval(row.gain.mean(axis=0))]
    where: list[Cell] = [row.place.contention, row.place.mix, row.place.load, row.rival]
    return [*where, *means, *gains, float(row.found.mean()), float(row.bound.mean()), place]


def trainers(seeds: range, workers: int) -> Table:
    """Means over seeds with their intervals over seeds."""
    chosen = rivals(PLACES, workers)
    rules, _ = contest("learned", PLACES, range(TESTS), chosen, workers=workers)
    rule = float(np.mean([rules[place][chosen[place][0]] for place in PLACES]))
    lines: list[list[Cell]] = []
    for name, file in FILES.items():
        cards = [trained(file, seed, workers=workers) for seed in seeds]
        facts = [card_of(card) for card in cards]
        test = []
        for card in cards:
            found, _ = contest("learned", PLACES, range(TESTS), (str(card),), workers=workers)
            test.append(float(np.mean([figures[str(card)] for figures in found.values()])) - rule)
        gains = interval([fact["validation"]["gain"] for fact in facts])
        heuristic = f"{sum(fact['validation']['kept_heuristic'] for fact in facts)} of {len(seeds)}"
        cpu_s = float(np.mean([fact["cpu_s"] for fact in facts]))
        lines.append([name, gains, heuristic, interval(test), cpu_s])
    gained = "gain on {}, points|+.2p"
    columns = ("trainer", gained.format("validation"), "heuristic kept", gained.format("test"))
    return table("trainers", "; ".join([*columns, "processor s|.0f"]), lines)


def measure(options: Options) -> Iterator[Table]:
    """The rows; then, not in the quick run, the trainers. The quick run has one place and the shipped policy."""
    if options.wants("rows"):
        places, tests, search = (PLACES[3:4], 2, 20) if options.quick else (PLACES, TESTS, SEARCH)
        seeds = options.seeds_or(5)
        cards = [
            "eunomia(rehearse=0)",
            *(str(trained("sharing", seed, workers=options.workers)) for seed in seeds[1:]),
        ]
        made, counts = rows(places, cards, tests, search, options.workers)
        yield table("rows", COLUMNS, map(cells, made))
        yield together(made, counts)
    if options.wants("trainers") and not options.quick:
        yield trainers(options.seeds_or(5), options.workers)
