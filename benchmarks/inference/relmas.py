"""RELMAS, re-implemented, against its likely rivals and the strong rules.

Parts, one for each training: relmas, relmas-slo, and relmas-pure, relmas-td3, relmas-periodic: without imitation, by
TD3, with ticks of T_s = 0.1.

MoCA's mixed set on 3 Simba-like and 3 Eyeriss-like accelerators with 32 GB/s, deadlines of three tenants at QoS-H, M
and L with alpha 3, hopeless requests dropped, Poisson arrivals. Each replication is trained (studies/training/
relmas.toml) on traces of loads 0.7, 1.0 and 1.3 with its own seed, keeps the weights that are best on validation
traces, and is measured on test traces that neither saw; networks and platform are those of training, as RELMAS is
trained per deployment. Gated rules are chosen on the same validation traces. The quick run measures the shipped card.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.inference.contest import Figures, best, by_qos, contest, gated, scenario, trained, validation
from benchmarks.table import Cell, Options, Table, table
from eunomia.learning.episodes import Episode
from eunomia.learning.load import SHIPPED, card_of
from eunomia.metrics.statistics import Floats, paired_difference
from eunomia.study.learning.scenarios import scenario_episode

LOADS, REQUESTS, TARGETS = (0.7, 1.0, 1.3), 200, (0.5, 0.95)
TESTS, VALIDATIONS = 6, 2  # traces per load
PROMISED = 2  # of them, with targets
RIVALS = ("fcfs", "prema", "herald", "magma")
RULES = ("edf", "edf+f+eft", "sjf+f+eft", "llf+f+eft", "pressure", "dream", "ca_eft")
TENANT_RULES = ("triage+g0.9", "gap_first+g0.9", "triage", "gap_first", "edf+f+eft")
GATED = gated(("edf", "sjf", "edf_bytes"), ("", "+eft"), ("1.0", "0.9", "0.75"))
SWEEP = (0.0, 0.1, 0.5, 1.0)
VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {  # training file, changes
    "relmas": ("relmas", ()),
    "relmas-slo": ("relmas-slo", ()),
    "relmas-pure": ("relmas", ("algorithm.imitation=0",)),
    "relmas-td3": ("relmas", ("algorithm.name=td3",)),
    "relmas-periodic": ("relmas", ("algorithm.period_layers=0.1",)),
}


@dataclass(frozen=True)
class Place:
    """The deployment at one load; ``promised``: every (tenant, network) pair has a target."""

    load: float
    promised: bool = False

    def episode(self, seed: int) -> Episode:
        """One trace."""
        platform = {"preset": "simba3-eyeriss3", "dram_bandwidth_gb_s": 32.0}
        made = scenario("mixed", by_qos("moca-mixed"), platform, self.load, 0.8)
        episode = scenario_episode(made, seed, REQUESTS)
        return episode.with_targets(*TARGETS, np.random.default_rng([11, seed])) if self.promised else episode


MEASURES = ("hit_rate", "attainment", "shortfall", "fairness")


def figures(names: Sequence[str], seeds: range, promised: bool, workers: int) -> Figures:
    """(traces, measures) by policy, traces in the order of loads; without promises hit rates alone."""
    places, measures = [Place(load, promised) for load in LOADS], MEASURES if promised else MEASURES[:1]
    found, _ = contest("relmas", places, seeds, names, measures, workers)
    return {name: np.concatenate([found[place][name] for place in places]) for name in dict.fromkeys(names)}


def mean_of(cards: Sequence[str], found: Mapping[str, Floats]) -> Floats:
    """Mean over replications, trace by trace."""
    return np.asarray(np.mean([found[card] for card in cards], axis=0))


def hits(cards: Mapping[str, Sequence[str]], found: Figures, chosen: str) -> Table:
    """Deadlines met, and the paired difference to every rival."""
    ours = mean_of(cards["relmas"], found)[:, 0]
    each = {name: mean_of(mine, found)[:, 0] for name, mine in cards.items() if name != "relmas-slo"}
    each |= {name: found[name][:, 0] for name in (*RIVALS, *RULES, chosen)}
    rows: list[list[Cell]] = []
    for name, values in each.items():
        gap = paired_difference(ours, values)
        rows.append([name, *values.reshape(len(LOADS), -1).mean(axis=1).tolist(), float(values.mean())])
        rows[-1] += [None, None] if name == "relmas" else [gap, float(ours.mean() / values.mean())]
    by_load = "".join(f"; load {load}|.1p" for load in LOADS)
    columns = f"policy{by_load}; mean|.1p; relmas less it|+.1p; relmas / it|.2f"
    means = [float(found[card][:, 0].mean()) for card in cards["relmas"]]
    note = f"`{chosen}`: the best of the gated rules on validation traces. Of each replication of `relmas`: "
    return table("hits", columns, rows, [f"{note}{', '.join(f'{100 * mean:.1f}' for mean in means)} %."])


def training(cards: Mapping[str, Sequence[str]]) -> Table:
    """What each training came to: validation before reinforcement learning and of the weights that were kept."""
    rows: list[list[Cell]] = []
    for name, mine in cards.items():
        for seed, card in enumerate(mine):
            facts = card_of(card)
            gate = facts.get("validation", {})
            start, rule, gain = (gate.get(key, np.nan) for key in ("start_mean", "heuristic_mean", "gain"))
            rows.append([name, str(seed), start, rule + gain, facts["cpu_s"]])
    return table("training", "training; seed; clone|.1p; best|.1p; processor seconds|.0f", rows)


def promises(cards: Mapping[str, Sequence[str]], found: Figures, chosen: str) -> Table:
    """Tenants with targets."""
    rows: list[list[Cell]] = []
    slo = mean_of(cards["relmas-slo"], found) if "relmas-slo" in cards else None
    each = {"relmas-slo": slo} if slo is not None else {}
    each |= {"relmas, first replication": found[cards["relmas"][0]]}
    for name, values in (each | {name: found[name] for name in (*TENANT_RULES, chosen)}).items():
        hit, met, short, fair = values.mean(axis=0).tolist()
        less = None if slo is None or values is slo else paired_difference(slo[:, 1], values[:, 1])
        rows.append([name, met, -short, hit, -fair, less])
    columns = "policy; pairs at target|.1p; mean shortfall|.1p; hit rate|.1p; std over tenants|.1p"
    return table("promises", f"{columns}; relmas-slo less it, pairs|+.1p", rows)


def measure(options: Options) -> Iterator[Table]:
    """Train what is not there, measure."""
    workers, tests = options.workers, range(1 if options.quick else TESTS)
    if options.quick:
        cards = {"relmas": [str(SHIPPED / "relmas.json")], "relmas-slo": [str(SHIPPED / "relmas-slo.json")]}
    else:
        seeds = options.seeds_or(5)
        cards = {
            name: [str(trained(file, seed, *changes, label=name, workers=workers)) for seed in seeds]
            for name, (file, changes) in VARIANTS.items()
            if options.wants(name) or name == "relmas"
        }
    tried = GATED[:2] if options.quick else GATED
    chosen = best([figures(tried, validation(VALIDATIONS), False, workers)], tried)
    plain = [card for name, mine in cards.items() if name != "relmas-slo" for card in mine]
    yield hits(cards, figures((*RIVALS, *RULES, chosen, *plain), tests, False, workers), chosen)
    yield training(cards)
    swept = [f"{cards['relmas'][0]}@{period}" for period in SWEEP]
    swept += [f"{card}@{period}" for card in cards.get("relmas-periodic", []) for period in SWEEP[:2]]
    found = figures(swept, range(1), False, workers)
    rows = [
        (Path(name.partition("@")[0]).stem, name.partition("@")[2], float(v.mean()))
        for name, v in found.items()
    ]
    yield table("sweep", "weights; T_s / mean layer; hit rate|.1p", rows)
    names = (*TENANT_RULES, chosen, cards["relmas"][0], *cards.get("relmas-slo", []))
    yield promises(cards, figures(names, tests[:PROMISED], True, workers), chosen)
