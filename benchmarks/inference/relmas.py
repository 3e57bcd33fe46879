"""RELMAS, re-implemented, against its likely rivals and the strong rules.

Parts, one for each training: relmas, relmas-slo, and the ablations of VARIANTS, one replication each.

MoCA's mixed set on 3 Simba-like and 3 Eyeriss-like accelerators with 32 GB/s, deadlines of three tenants at QoS-H, M
and L with alpha 3, hopeless requests dropped, Poisson arrivals. Each replication is trained (studies/training/
relmas.toml) on traces of loads 0.7, 1.0 and 1.3 with its own seed, keeps the weights that are best on validation
traces, and is measured on test traces that neither saw; networks and platform are those of training, as RELMAS is
trained per deployment. Gated rules are chosen on the same validation traces. The quick run measures the shipped card.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.inference.contest import Figures, best, by_qos, contest, gated, scenario, trained, validation
from benchmarks.table import Cell, Options, Table, table
from eunomia.learning.episodes import Episode
from eunomia.learning.load import SHIPPED, card_of
from eunomia.metrics.statistics import Floats, paired_difference
from eunomia.study.learning.scenarios import scenario_episode

LOADS, REQUESTS, TARGETS = (0.7, 1.0, 1.3), 200, (0.5, 0.95)
TESTS, VALIDATIONS = 16, 8  # traces per load
PROMISED = 8  # of them, with targets
RIVALS = ("fcfs", "prema", "herald", "magma")
RULES = ("edf", "edf+f+eft", "sjf+f+eft", "llf+f+eft", "pressure", "dream", "ca_eft")
TENANT_RULES = ("triage+g0.9", "gap_first+g0.9", "triage", "gap_first", "edf+f+eft")
GATED = gated(("edf", "sjf", "edf_bytes"), ("", "+eft"), ("1.0", "0.9", "0.75"))
SWEEP = (0.0, 0.1, 0.5, 1.0)
EXTRA = ("eunomia(rehearse=0)",)
ABLATIONS = ("name='ddpg'", "name='td3'", "residual=false", "critic='joint'", "credit='period'", "rollouts=1",
             "explore='requests'", "explore='steps'", "ahead=0.0", "horizon=0.1", "reward='R2'")  # fmt: skip


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
    each |= {name: found[name][:, 0] for name in (*RIVALS, *RULES, *EXTRA, chosen)}
    rows: list[list[Cell]] = []
    for name, values in each.items():
        row: list[Cell] = [name]
        for theirs, mine in zip(np.split(values, len(LOADS)), np.split(ours, len(LOADS)), strict=True):
            row += [float(theirs.mean()), None if name == "relmas" else paired_difference(mine, theirs)]
        last = (
            None if name == "relmas" else float(np.split(ours, 3)[-1].mean() / np.split(values, 3)[-1].mean())
        )
        rows.append([*row, last])
    by_load = "".join(f"; load {load}|.1p; relmas less it|+.1p" for load in LOADS)
    columns = f"policy{by_load}; relmas / it at {LOADS[-1]}|.2f"
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
        cards = {"relmas": [str(trained("relmas", seed)) for seed in options.seeds_or(5)]}
        if options.wants("relmas-slo"):
            cards["relmas-slo"] = [str(trained("relmas-slo", 0))]
        for change in filter(options.wants, ABLATIONS):
            changes = (f"algorithm.{change}", "algorithm.iterations=20")
            cards[change] = [str(trained("relmas", 0, *changes, label=re.sub(r"\W+", "-", change)))]
    tried = GATED[:2] if options.quick else GATED
    chosen = best([figures(tried, validation(VALIDATIONS), False, workers)], tried)
    found = figures((*RIVALS, *RULES, *EXTRA, chosen), tests, False, workers)
    for name, mine in cards.items():
        found |= {} if name == "relmas-slo" else figures(mine, tests, False, workers)
    yield hits(cards, found, chosen)
    yield training(cards)
    swept = [f"{cards['relmas'][0]}@{period}" for period in SWEEP]
    found = figures(swept, range(1), False, workers)
    rows = [(name.partition("@")[2], float(v.mean())) for name, v in found.items()]
    yield table("sweep", "T_s / mean layer; hit rate|.1p", rows)
    names = (*TENANT_RULES, chosen, cards["relmas"][0], *cards.get("relmas-slo", []))
    yield promises(cards, figures(names, tests[:PROMISED], True, workers), chosen)
