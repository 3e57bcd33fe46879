"""RELMAS, re-implemented, against its likely rivals and the strong rules. Parts: relmas, relmas-slo, relmas-pure,
relmas-td3, relmas-periodic: the trainings.

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
from benchmarks.table import Cell, Options, Table, table, text
from eunomia.learning.episodes import Episode
from eunomia.learning.load import SHIPPED, card_of
from eunomia.metrics.statistics import Estimate, Floats, paired_difference
from eunomia.study.learning.scenarios import scenario_episode

LOADS, REQUESTS, TARGETS = (0.7, 1.0, 1.3), 200, (0.5, 0.95)
TESTS, VALIDATIONS = 6, 2  # traces per load
PROMISED = 2  # of them, with targets
RIVALS = ("fcfs", "prema", "herald", "magma")
RULES = ("edf", "edf+f+eft", "sjf+f+eft", "llf+f+eft", "pressure", "dream", "ca_eft")
TENANT_RULES = ("triage+g0.9", "gap_first+g0.9", "triage", "gap_first", "edf+f+eft")
GATED = gated(("edf", "sjf", "edf_bytes"), ("", "+eft"), ("1.0", "0.9", "0.75"))
SWEEP = (0.0, 0.1, 0.5, 1.0)
PAPER_RATIO = 2.73
VARIANTS: dict[str, tuple[str, tuple[str, ...], str]] = {  # training file, changes, what the page says
    "relmas": ("relmas", (), ""),
    "relmas-slo": ("relmas-slo", (), ""),
    "relmas-pure": ("relmas", ("algorithm.imitation=0",), "`relmas-pure` has no imitation term."),
    "relmas-td3": ("relmas", ("algorithm.name=td3",), "`relmas-td3` is TD3 in place of DDPG."),
    "relmas-periodic": (
        "relmas",
        ("algorithm.period_layers=0.1",),
        "`relmas-periodic` was trained and runs at T_s = 0.1 mean layers.",
    ),
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
    gaps: dict[str, Estimate] = {}
    for name, values in each.items():
        gap = paired_difference(ours, values)
        rows.append([name, *values.reshape(len(LOADS), -1).mean(axis=1).tolist(), float(values.mean())])
        rows[-1] += [None, None] if name == "relmas" else [gap, float(ours.mean() / values.mean())]
        if name not in cards:
            gaps[name] = gap
    columns = (
        "policy; load 0.7|.1p; load 1.0|.1p; load 1.3|.1p; mean|.1p; relmas less it|+.1p; relmas / it|.2f"
    )
    return table("hits", columns, rows, sentences(cards, found, gaps, chosen))


def sentences(
    cards: Mapping[str, Sequence[str]], found: Figures, gaps: Mapping[str, Estimate], chosen: str
) -> Iterator[str]:
    """What the figures say."""
    ours, traces = mean_of(cards["relmas"], found)[:, 0], len(found[chosen]) // len(LOADS)
    better = [name for name, gap in gaps.items() if gap.low > 0.0]
    worse = [name for name, gap in gaps.items() if gap.high < 0.0]
    level = [name for name in gaps if name not in (*better, *worse)]
    listed = [", ".join(f"`{name}`" for name in names) or "none" for names in (better, worse, level)]
    means = [100 * float(found[card][:, 0].mean()) for card in cards["relmas"]]
    spread = f"{np.std(means, ddof=1):.1f} points" if len(means) > 1 else "unknown (one replication)"
    about = " ".join(VARIANTS[name][2] for name in cards if VARIANTS[name][2])
    yield (
        f"`{chosen}` is the gated rule that was best on validation traces. {about} {len(means)} replications of "
        f"`relmas`; standard deviation over them of the mean hit rate: {spread}. {traces} test traces per load."
    )
    ratios = []
    for last in (0, traces):
        ratios.append(
            max((float(ours[-last:].mean() / found[name][-last:, 0].mean()), name) for name in RIVALS)
        )
    own = gaps["edf+f+eft"]
    verdict = "a gain" if own.low > 0.0 else "a loss" if own.high < 0.0 else "within the error"
    crowded = paired_difference(ours[-traces:], found[chosen][-traces:, 0])
    yield (
        f"* **Significantly better than**: {listed[0]}. **Significantly worse than**: {listed[1]}. Undecided: "
        f"{listed[2]}.\n"
        f"* The paper states up to {PAPER_RATIO}x the SLA satisfaction rate of its rivals, for a scenario, a QoS "
        f"level and "
        "a rival that we do not know. Here the greatest ratio of means to a likely rival (FCFS, PREMA, Herald, "
        f"MAGMA) is {ratios[0][0]:.2f}x, to `{ratios[0][1]}`, over all loads together, and {ratios[1][0]:.2f}x, to "
        f"`{ratios[1][1]}`, at load {LOADS[-1]:g} alone.\n"
        "* `relmas` starts as a clone of `edf+f+eft`: its distance to that rule, not to FCFS, is what learning added: "
        f"{text(own, '+.1p')} points, {verdict}. At load {LOADS[-1]:g} the gated rule reaches "
        f"{100 * found[chosen][-traces:, 0].mean():.1f} % and `relmas` {100 * ours[-traces:].mean():.1f} %: "
        f"{text(crowded, '+.1p')} points."
    )


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
            for name, (file, changes, _) in VARIANTS.items()
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
