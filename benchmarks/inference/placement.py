"""Learned placement under preferences against rules. Parts: A3C (always), A2C and its variants by their names.

Every variant is trained on traces of its own and measured on the same unseen traces, greedily. Rules run on the same
traces. Small cases are compared with the exhaustive optimum. Finished trainings are kept in runs/ and found again. The
quick run trains A3C for one iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.kept import kept_all
from benchmarks.table import Cell, Options, Table, table
from eunomia.config.algorithm import PlacementAlgorithm
from eunomia.engines.processes import Result
from eunomia.inference.environments.edge_cloud.case import Case, draw
from eunomia.inference.environments.edge_cloud.optimum import optimum
from eunomia.inference.environments.edge_cloud.rules import RULES, Rule, find_rule, run
from eunomia.learning.agents import Context
from eunomia.learning.agents.a3c.agent import PlacementAgent, placement_task
from eunomia.learning.agents.a3c.policy import PreferencePlacement
from eunomia.learning.loop import Plan, train
from eunomia.metrics.statistics import Floats, interval, paired_difference

SEEDS, TESTS, SMALL_TESTS, ITERATIONS = 5, 60, 40, 40
VALIDATIONS = 16
SHOWN = ("requester", "provider", "utilisation", "hit rate", "worst tenant")  # beside the reward
KINDS = ("reward", "requester", "provider", "utilisation", "met", "worst_tenant")
A2C = PlacementAlgorithm(name="a2c", workers=2, tasks=30, devices=6, tenants=4, load=1.0, bars=0.15, traces=3)


VARIANTS: dict[
    str, tuple[dict[str, object], str]
] = {  # name -> settings that differ from A2C's, and in words
    "A3C": ({"name": "a3c"}, "two processes, gradients as they come"),
    "A2C": ({}, "the same in step"),
    "A2C, likes hidden": ({"hidden": True}, "does not see preferences"),
    "A2C, penalty": ({"penalty": 1.0}, "nothing masked in training; an illegal pair costs 1 / tasks"),
    "A2C, periodic": ({"period": 0.5}, "decides every half mean run time, in training and test"),
}


def learn(task: tuple[PlacementAlgorithm, int, int]) -> Result:
    """One training."""
    settings, seed, iterations = task
    context = Context(placement_task(settings, VALIDATIONS, seed), seed)
    done = train(PlacementAgent(settings, context), Plan(iterations, 5))
    return {"cpu_s": done.cpu_s, "tensors": {name: tensor.tolist() for name, tensor in done.tensors.items()}}


def play(rule: Rule, cases: Sequence[Case], period: float = 0.0) -> Floats:
    """(traces, KINDS)."""
    found = [run(case, rule, period_s=period * case.mean_run_s).metrics() for case in cases]
    return np.array([[float(getattr(metrics, kind)) for kind in KINDS] for metrics in found])


def against_optimum(first: PreferencePlacement, count: int) -> Table:
    """On small cases: how much of the optimum is earned."""
    cases = [draw(seed, 6, 3, 2, 1.0, 0.1) for seed in range(count)]
    best = np.array([optimum(case) for case in cases])
    rows: list[list[Cell]] = [["optimum", float(best.mean()), None, None]]
    rivals: dict[str, Rule] = {"A3C, seed 0": first, **{name: find_rule(name) for name in RULES}}
    for name, rule in rivals.items():
        found = play(rule, cases)[:, 0]
        lost, reached = float((best - found).mean()), int((found > best - 1e-9).sum())
        rows.append([name, float(found.mean()), lost, reached])
    columns = "policy; reward|.4f; lost against the optimum|.4f; traces at the optimum"
    return table("optimum", columns, rows)


def measure(options: Options) -> Iterator[Table]:
    """Train what is not there, measure."""
    names = [name for name in VARIANTS if name == "A3C" or (options.wants(name) and not options.quick)]
    seeds, iterations = options.seeds_or(SEEDS), 1 if options.quick else ITERATIONS
    facts = (A2C.tasks, A2C.devices, A2C.tenants, A2C.load, A2C.bars)
    cases = [draw(seed, *facts) for seed in range(4 if options.quick else TESTS)]
    tables: dict[str, Floats] = {}  # (traces, KINDS)
    replications: list[list[Cell]] = []
    rules = {name: play(find_rule(name), cases) for name in RULES}
    policies: list[PreferencePlacement] = []
    for name in names:
        changes, about = VARIANTS[name]
        settings = A2C.model_copy(update=changes)
        tasks = [(settings, seed, iterations) for seed in seeds]
        trained = kept_all("placement", learn, tasks)
        made = []
        for one in trained:
            tensors = {key: np.array(tensor) for key, tensor in one["tensors"].items()}
            policies.append(PreferencePlacement(tensors, hidden=settings.hidden))
            made.append(play(policies[-1], cases, settings.period))
        tables[name] = np.mean(made, axis=0)
        each, over = [float(one[:, 0].mean()) for one in made], tables[name][:, 0] - rules["matching"][:, 0]
        listed = ", ".join(f"{100 * reward:.2f}" for reward in each)
        cpu_s = float(np.mean([one["cpu_s"] for one in trained]))
        replications.append([f"{name}: {about}", listed, interval(each), interval(over), cpu_s])
    tables |= rules
    columns = "policy; reward|.4f" + "".join(f"; {kind}|.1p" for kind in SHOWN)
    yield table("means", columns, [(name, *found.mean(axis=0).tolist()) for name, found in tables.items()])
    order = dict.fromkeys(("matching", "greedy_gain", *RULES, *names[1:]))
    gaps = [(name, paired_difference(tables["A3C"][:, 0], tables[name][:, 0])) for name in order]
    better = [n for n in names if interval(tables[n][:, 0] - tables["matching"][:, 0]).low > 0.0]
    note = "Better than maximum-weight matching at each event by more than the interval over traces: "
    yield table("gaps", "A3C less; difference|+.2p", gaps, [f"{note}{', '.join(better) or 'none'}."])
    columns = (
        "variant; reward of each, x 100; mean|.2p; less matching, by trace|+.2p; processor seconds each|.0f"
    )
    yield table("replications", columns, replications)
    yield against_optimum(policies[0], 4 if options.quick else SMALL_TESTS)
