"""When work that may wait should start.

A service whose load comes and goes, beside work with start windows, on 2 Simba-like and 2 Eyeriss-like accelerators.
Start weights are trained with their own seeds and episodes (studies/training/deferrable.toml), and measured on traces
that nothing was trained or chosen on. ``shared`` is the base policy that sees all requests alike; ``no deferrable
work`` the base with nothing but on-demand requests. That no policy serves more than the exhaustive optimum is a test,
not a figure here. The quick run measures the fixed rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.inference.contest import lanes, scenario, tenant, trained
from benchmarks.table import Cell, Options, Table, table, text
from eunomia.inference.policies import load_policy
from eunomia.inference.policies.deferring import RULES, deferring
from eunomia.learning.agents.deferrable import hit_rates
from eunomia.learning.episodes import Episode
from eunomia.learning.load import card_of
from eunomia.learning.load import load_policy as load_learned
from eunomia.metrics.statistics import Floats, interval, paired_difference
from eunomia.study.learning.scenarios import scenario_episode

BASE, SHARE = "edf+f+eft+g1.0", 0.5
TESTS, LOADS, REQUESTS = 8, (0.5, 0.8), 120  # loads of on-demand and deferrable requests together


def episode(seed: int, load: float, service_only: bool = False) -> Episode:
    """One trace; ``service_only``: its deferrable requests are hopeless when they come, and dropped at once."""
    wave = {"process": "diurnal", "rate_per_s": 60.0, "amplitude": 0.8, "period_s": 0.01}
    near = [{"model": "yolo-lite", "deadline_factor": 3.0}]
    tenants = [tenant("service", models=near) | {"arrivals": wave}]
    tenants += [tenant("index", 120.0, models=[{"model": "kws-res8"}], defer_s=[0.001, 0.006])]
    made = scenario_episode(scenario("deferrable", tenants, lanes(2, 16.0), load, 4.0), seed, REQUESTS)
    if not service_only:
        return made
    jobs = made.problem.jobs
    relative_s = np.where(jobs.deferrable == 1, 1e-12, jobs.relative_deadline_s)
    return replace(made, problem=made.problem._replace(jobs=jobs._replace(relative_deadline_s=relative_s)))


def measure(options: Options) -> Iterator[Table]:
    """Train what is not there, measure."""
    cards = [] if options.quick else [trained("deferrable", seed) for seed in options.seeds_or(5)]
    cases = [(seed, load) for load in LOADS for seed in range(1 if options.quick else TESTS)]

    def played(policy: Any, service_only: bool = False) -> Floats:
        return np.array([hit_rates(policy, episode(*case, service_only)) for case in cases])

    found = {when: played(deferring(when, BASE)) for when in RULES} | {"shared": played(load_policy(BASE))}
    each = [played(load_learned(card)) for card in cards]
    if each:
        found = {"learned": np.mean(each, axis=0), **found}
    goal = {name: figures @ np.array([1.0, SHARE]) for name, figures in found.items()}
    alone = played(load_policy(BASE), service_only=True)[:, 0]
    rows: list[list[Cell]] = []
    for name, figures in found.items():
        gap = paired_difference(goal["learned"], goal[name]) if each and name != "learned" else None
        rows.append([name, *figures.mean(axis=0).tolist(), float(goal[name].mean()), gap])
    rows.append(["no deferrable work", float(alone.mean()), None, None, None])
    notes = []
    if each:
        cost = paired_difference(found["learned"][:, 0], alone)
        sought = [float((figures @ np.array([1.0, SHARE])).mean()) for figures in each]
        cpu_s = np.mean([card_of(card)["cpu_s"] for card in cards])
        notes = [
            "What serving deferrable work costs the service under the learned starts: "
            f"{text(cost, '+.2p')} points of on-demand hits.",
            f"Replications: {', '.join(f'{100 * v:.2f}' for v in sought)}; mean {text(interval(sought), '.2p')}. "
            f"Training took {cpu_s:.0f} s of processor time each.",
        ]
    columns = "policy; on-demand hits|.1p; deferrable hits|.1p; sought|.1p; learned less it, sought|+.2p"
    yield table("starts", columns, rows, notes)
