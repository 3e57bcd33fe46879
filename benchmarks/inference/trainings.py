"""How much the training over drawn places depends on its seed: five of them at places of the exam, unrehearsed.

``--set generations=10``: of that many generations each, in place of those of ``studies/training/drawn.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.inference.contest import contest, trained
from benchmarks.inference.exam import places_of, rivals
from benchmarks.table import Cell, Options, Table, table
from eunomia.core.arrays import Floats
from eunomia.learning.card import Card
from eunomia.learning.load import card_of
from eunomia.metrics.statistics import interval

SHIPPED = ("eunomia-wide", "eunomia(rehearse=0)")  # the former is seed 0 of the same file
SEEDS = range(1, 6)
COLUMNS = (
    "policy; generations; on validation: less the best rule, points|+.1p; hit rate, %|.1p; "
    "less the best rule, points|+.2p; less `eunomia-wide`|+.2p; worst place|+.1p; its number"
)


def measure(options: Options) -> Iterator[Table]:
    """Trainings that are not there are run; then all policies, and the best rule of each place, on the same traces."""
    places, tests, few = places_of(options, "0-39"), options.seeds_or(2), options.given.get("generations")
    changes, label = ([f"stage.0.generations={few}"], f"drawn-{few}") if few else ([], "drawn")
    cards = [str(trained("drawn", seed, *changes, label=label, workers=options.workers)) for seed in SEEDS]

    rule = rivals(places, options.workers)[0]
    names = {place: [*cards, *SHIPPED, rule[place]] for place in places}
    found, _ = contest("exam", places, tests, names, workers=options.workers)
    hits = {name: np.stack([found[place][name][:, 0] for place in places]) for name in (*cards, *SHIPPED)}
    rival = np.stack([found[place][rule[place]][:, 0] for place in places])
    facts = {name: card_of(name.partition("(")[0]) for name in hits}
    yield summary(hits, rival, facts, [place.number for place in places])


def summary(hits: dict[str, Floats], rule: Floats, facts: dict[str, Card], numbers: list[int]) -> Table:
    """All trainings, interval over them; then each policy, over places. ``hits``, ``rule``: (places, traces)."""
    gains = {name: (each - rule).mean(axis=1) for name, each in hits.items()}
    wide, own = gains[SHIPPED[0]], [name for name in hits if name not in SHIPPED]
    together = np.mean([gains[name] for name in own], axis=0)
    checked = [facts[name]["validation"]["gain"] for name in own]
    means = np.array([[hits[name].mean(), gains[name].mean(), (gains[name] - wide).mean()] for name in own])
    first: list[Cell] = [f"mean of {len(own)} trainings, over trainings", None, interval(checked)]
    worst = int(together.argmin())
    rows: list[list[Cell]] = [[*first, *map(interval, means.T), float(together[worst]), numbers[worst]]]
    for name, gain in gains.items():
        card, worst = facts[name], int(gain.argmin())
        called = name if name in SHIPPED else f"seed {card['training']['seed']}"
        called += ", kept the rule" if card["validation"]["kept_heuristic"] else ""
        generations = sum(stage["generations"] for stage in card["training"]["stage"])
        less = [None if name == SHIPPED[0] else interval(gain - wide), float(gain[worst]), numbers[worst]]
        checks = [card["validation"]["gain"], float(hits[name].mean()), interval(gain)]
        rows.append([called, generations, *checks, *less])
    note = f"{rule.shape[1]} traces at each of {len(numbers)} places. Standard deviation over trainings: "
    return table("trainings", COLUMNS, rows, [f"{note}{100.0 * means[:, 1].std(ddof=1):.2f} points."])
