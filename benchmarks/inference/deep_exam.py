"""A set network and a linear policy at places that neither saw, both gone on with from the shipped policy.

All are trained by CMA-ES at the same places of the exam's distribution (2,000,000 on). ``linear``: all weights;
``both``: the same, then a Deep Sets pointer of 8 units for as many generations again; ``longer``: as many, all linear.
Nobody rehearses. Test places are 0, 1, 2, ... of ``python -m benchmarks exam``; ``--set places=60`` of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.inference.contest import contest, trained
from benchmarks.inference.exam import Place
from benchmarks.kept import WINGS
from benchmarks.table import Cell, Options, Table, table
from eunomia.learning.load import card_of
from eunomia.metrics.statistics import interval
from eunomia.study.files import program_hash

STAGE = "{{generations=12,population=14,episodes=8,sigma=0.3,validate_every=4,{}}}"
WHOLE, POINTER = STAGE.format("stage='whole'"), STAGE.format("stage='pointer',units=8,diagonal=true")
KINDS = {"linear": WHOLE, "both": f"{WHOLE},{POINTER}", "longer": f"{WHOLE},{WHOLE}"}
SHIPPED = "eunomia(rehearse=0)"
PAIRS = (("both", "longer"), ("both", "linear"), ("both", SHIPPED), ("linear", SHIPPED), ("longer", SHIPPED))


def measure(options: Options) -> Iterator[Table]:
    """Train what is not there; means by lateness."""
    stamp, cards = program_hash(WINGS["inference"])[:8], {}
    for kind, stages in KINDS.items():
        few = ("places=[2000000,2000001]", "validation=2", "requests=30") if options.quick else ()
        changes = ("places=[2000000,2000039]", "validation=24", f"stage=[{stages}]", *few)
        label = f"deep-exam-{kind}-{'quick' if options.quick else stamp}"
        cards[kind] = str(trained("drawn", 0, *changes, label=label, workers=options.workers))
    places = [Place(n) for n in range(2 if options.quick else int(options.given.get("places", "60")))]
    named = {**cards, SHIPPED: SHIPPED}
    found, _ = contest(
        "deep-exam", places, options.seeds_or(2), list(named.values()), workers=options.workers
    )
    kinds = {place: place.facts()[1] for place in places}
    less = {
        pair: {p: found[p][named[pair[0]]][:, 0] - found[p][named[pair[1]]][:, 0] for p in places}
        for pair in PAIRS
    }
    rows: list[list[Cell]] = []
    for kind in ("all", "last", "drop", "run", "ticks"):
        mine = [place for place in places if kind in ("all", *kinds[place])]
        if mine:
            means = [[float(one[place].mean()) for place in mine] for one in less.values()]
            rows.append([kind, len(mine), *map(interval, means), min(means[0])])
    columns = "; ".join(f"{ours} less {theirs}|+.2p" for ours, theirs in PAIRS)
    gate = {kind: card_of(card) for kind, card in cards.items()}
    notes = [
        f"`{kind}`: {one['cpu_s']:.0f} s of processor time; validation {100 * one['validation']['gain']:+.2f} over "
        f"`{one['validation']['heuristic']}`{', which it therefore is' * one['validation']['kept_heuristic']}."
        for kind, one in gate.items()
    ]
    hits = [
        f"{name} {100 * float(np.mean([found[p][card][:, 0].mean() for p in places])):.1f} %"
        for name, card in named.items()
    ]
    yield table(
        "exam",
        f"kind; places; {columns}; worst place, first column|+.1p",
        rows,
        [f"Hit rates: {', '.join(hits)}.", *notes],
    )
