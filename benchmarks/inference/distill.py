"""The gain that rules keep, against their size. Parts: nodes, leaves. ``--set terms=8,4``: terms of a rule with trees.

The shipped policy `eunomia` is distilled on its own training scenarios (other traces than it was trained on), into one
short rule (nodes) and into trees (leaves). For each replication, trees are found once with most leaves, and grown
again on the same data with fewer; the division of the leaves is chosen in closed loop on validation traces. Test traces
are seen once, by the chosen rules. Finished replications are kept in runs/ and found again. The quick run has one
replication with few traces. ``--set generations=0``: short rules as forward selection leaves them, not tuned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.inference.contest import FILES
from benchmarks.kept import kept_all
from benchmarks.table import Cell, Options, Table, table
from eunomia.config.training import load_training
from eunomia.engines.processes import Result
from eunomia.learning.distill.fitting.fidelity import agreement
from eunomia.learning.distill.fitting.fit import FitOptions, Fitted, closed_loop, distil, fit_rules
from eunomia.learning.distill.policy import RulePolicy
from eunomia.learning.distill.rules import RuleSet
from eunomia.learning.evolve.rule import write_rule
from eunomia.learning.evolve.short import Short, ShortOptions, cut
from eunomia.learning.load import card_of, checkpoint_of
from eunomia.learning.objectives import task_of, value
from eunomia.learning.policy.bases import base_weights
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.metrics.statistics import Floats, interval, paired_difference
from eunomia.study.learning.distilling import TEST_GENERATION, closed_loop_values, shorten
from eunomia.study.learning.scenarios import ScenarioSampler

LEAVES = (64, 32, 16)
Size = tuple[int, int, int]  # requests, validation traces, test traces
FULL, QUICK = (200, 18, 36), (40, 2, 2)
SHORT, SHORT_QUICK = (150, 36, 96), (40, 2, 2)
NODES = (5, 9, 13, 17, 21, 25, 29, 33, 37)


def replication(task: tuple[int, int, str, Size]) -> Result:
    """Distil once; for each number of leaves, what became of it."""
    terms, seed, _, (requests, validations, tests) = task
    checkpoint = checkpoint_of("eunomia")
    changes = (f"seed={seed}", f"validation={validations}", f"requests={requests}")
    sampler = ScenarioSampler(load_training(FILES / "general.toml", changes))
    options = FitOptions(leaves=LEAVES[0], terms=terms, seed=seed, rounds=2, share=0.02)
    fitted = distil(checkpoint.weights, "rules", sampler, options, print)
    episodes = sampler.training(TEST_GENERATION, tests)
    heuristic = checkpoint.facts["validation"]["heuristic"]
    values = closed_loop_values(checkpoint, fitted.rules, heuristic, episodes, options.objective)
    rows = []
    for leaves in LEAVES:
        rules = fitted.rules if leaves == LEAVES[0] else fewer(fitted, leaves, sampler, options)
        if leaves < LEAVES[0]:
            values = closed_loop_values(checkpoint, rules, heuristic, episodes, options.objective)
        found: dict[str, Any] = {name: values[name].tolist() for name in ("heuristic", "teacher", "rules")}
        found["division"] = "/".join(str(rules.trees[part].leaves) for part in ("order", "place", "start"))
        found["agreement"] = list(agreement(checkpoint.weights, rules, episodes[:1], options).values())
        rows.append({"terms": terms, "seed": seed, "leaves": leaves, **found})
    return {"rows": rows}


def short_rules(task: tuple[int, int, str, Size]) -> Result:
    """Cut to each number of nodes, and tuned; heuristic, teacher and all rules on the test traces."""
    seed, generations, _, (requests, validations, tests) = task
    checkpoint = checkpoint_of("eunomia")
    changes = (f"seed={seed}", f"validation={validations}", f"requests={requests}")
    sampler = ScenarioSampler(load_training(FILES / "sharing.toml", changes))
    heuristic, objective = checkpoint.facts["validation"]["heuristic"], {"hit_rate": 1.0}
    traces = sampler.training(TEST_GENERATION, tests)
    agent = Short(ShortOptions(seed=seed), task_of(sampler, objective), checkpoint.weights, False)
    noted = agent.watch()
    made = {
        ("order alone", most): cut(noted, agent.teacher, most, 0, agent.without).rules() for most in NODES
    }
    if generations:
        options = ShortOptions(generations=generations, seed=seed)
        tuned, done = shorten(checkpoint, sampler, objective, options, tell=print)
        made["chosen", options.nodes] = tuned.genome.rules()
        made["tuned", options.nodes] = tuned.policy(done.tensors).rule_set
    both = {
        "heuristic": LearnedPolicy(base_weights(heuristic)),
        "teacher": LearnedPolicy(checkpoint.weights, alarm=np.inf),
    }
    known = {name: [value(policy, trace, objective) for trace in traces] for name, policy in both.items()}
    rows = []
    for (how, most), rules in made.items():
        values = [value(RulePolicy(rules, alarm=np.inf), trace, objective) for trace in traces]
        facts = {"seed": seed, "how": how, "most": most, "nodes": rules.nodes, "rule": write_rule(rules)}
        rows.append({**facts, **known, "rules": values})
    return {"rows": rows}


def fewer(fitted: Fitted, leaves: int, sampler: ScenarioSampler, options: FitOptions) -> RuleSet:
    """Trees of fewer leaves on the same data; closed-loop validation chooses their division."""
    less = replace(options, leaves=leaves)
    made = [fit_rules(fitted.rules, fitted.samples, less, priority) for priority in options.priorities]
    return max(made, key=lambda rules: float(closed_loop(rules, sampler, options.objective).mean()))


def gains(row: Mapping[str, Any]) -> tuple[Floats, Floats]:
    """Teacher's and rules' gain over the heuristic on every test trace."""
    over = np.array(row["heuristic"])
    return np.array(row["teacher"]) - over, np.array(row["rules"]) - over


def ratio(part: float | np.floating, whole: float | np.floating) -> float:
    """A share; nan of nothing."""
    return float(part / whole) if whole else np.nan


def measure(options: Options) -> Iterator[Table]:
    """Short rules, then trees."""
    if options.wants("nodes"):
        yield from by_nodes(options)
    if options.wants("leaves"):
        yield from by_leaves(options)


def by_nodes(options: Options) -> Iterator[Table]:
    """The share of the gain against nodes; the rules of the first replication."""
    card, size = card_of("eunomia"), SHORT_QUICK if options.quick else SHORT
    generations, seeds = int(options.given.get("generations", "16")), options.seeds_or(5)
    tasks = [(seed, generations, card["card_sha256"], size) for seed in seeds]
    rows = [
        row for found in kept_all("shorten", short_rules, tasks, options.workers) for row in found["rows"]
    ]
    lines: list[list[Cell]] = []
    for how, most in dict.fromkeys((row["how"], row["most"]) for row in rows):
        mine = [row for row in rows if (row["how"], row["most"]) == (how, most)]
        each = [gains(row) for row in mine]
        teacher, rules = (np.concatenate(parts) for parts in zip(*each, strict=True))
        shares = [ratio(ours.mean(), its.mean()) for its, ours in each]
        nodes, whole = max(row["nodes"] for row in mine), ratio(rules.mean(), teacher.mean())
        less = [interval(rules), paired_difference(rules, teacher)]
        lines.append([how, nodes, len(each), *less, whole, interval(shares), min(shares)])
    columns = (
        "rule; nodes; seeds; rule - heuristic|+.2p; rule - teacher|+.2p; share of the gain kept|.0%; by seed, mean and "
        "95 %|.0%; least of a seed|.0%"
    )
    shown = [row for row in rows if row["seed"] == 0 and row["most"] >= NODES[-1]]
    texts = [f"{row['how'].capitalize()}, seed 0:\n\n```\n{row['rule']}```" for row in shown]
    about = (
        f"Teacher: `eunomia`, card {card['card_sha256'][:12]}; heuristic: `{card['validation']['heuristic']}`. Each "
        f"seed has {size[2]} test traces of {size[0]} requests, and states of its own."
    )
    yield table("nodes", columns, lines, [about, *texts])


def by_leaves(options: Options) -> Iterator[Table]:
    """The share of the gain against leaves; then every replication."""
    card, terms = card_of("eunomia"), options.given.get("terms", "8").split(",")
    size = QUICK if options.quick else FULL
    seeds = options.seeds_or(5)
    tasks = [(int(t), seed, card["card_sha256"], size) for t in terms for seed in seeds]
    results = kept_all("distill", replication, tasks, options.workers)
    rows = [row for found in results for row in found["rows"]]
    lines: list[list[Cell]] = []
    for key in dict.fromkeys((row["terms"], row["leaves"]) for row in rows):
        each = [gains(row) for row in rows if (row["terms"], row["leaves"]) == key]
        shares = interval([ratio(rules.mean(), teacher.mean()) for teacher, rules in each])
        whole = ratio(np.mean([rules for _, rules in each]), np.mean([teacher for teacher, _ in each]))
        lines.append([*key, whole, shares, len(each)])
    about = (
        f"Teacher: `eunomia`, card {card['card_sha256'][:12]}; heuristic: `{card['validation']['heuristic']}`, the "
        f"best on the teacher's validation traces. Rules are chosen on {size[1]} validation traces and tested on "
        f"{size[2]}, of {size[0]} requests each; {len(seeds)} seeds."
    )
    columns = "terms; most leaves; share of the gain kept|.0%; by seed, mean and 95 %|.0%; seeds"
    yield table("leaves", columns, lines, [about])
    lines = []
    for row in rows:
        teacher, rules = (interval(each) for each in gains(row))
        named: list[Cell] = [row["terms"], str(row["seed"]), row["leaves"], row["division"]]
        figures = [float(np.mean(row["heuristic"])), teacher, rules, ratio(rules.mean, teacher.mean)]
        lines.append([*named, *figures, *row["agreement"]])
    columns = (
        "terms; seed; most leaves; order/place/start; heuristic|.2p; teacher - it|+.2p; rules - it|+.2p; share|.0%; "
        "order, first|.3f; order, tau|.3f; place, first|.3f; start|.3f"
    )
    yield table("replications", columns, lines)
