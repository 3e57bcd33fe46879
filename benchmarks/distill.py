"""The gain that rules keep, against their leaves: ``python -m benchmarks.distill [--write] [--seeds N]``.

The shipped policy `eunomia` is distilled on its own training scenarios (other traces than it was trained on). For each
replication, rules are found once with most leaves, and grown again on the same data with fewer; the division of the
leaves is chosen in closed loop on validation traces. Test traces are seen once, by the chosen rules.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np

from eunomia.config.training import load_training
from eunomia.experiment.distilling import TEST_GENERATION, closed_loop_values
from eunomia.experiment.learning import ScenarioSampler
from eunomia.inference.learning.distill.fitting.fidelity import agreement
from eunomia.inference.learning.distill.fitting.fit import FitOptions, closed_loop, distil, fit_rules
from eunomia.inference.learning.serving import checkpoint_of
from eunomia.metrics.statistics import interval

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "distill.md"
TRAINING = Path(__file__).parent / "learned_data" / "general.toml"
LEAVES = (64, 32, 16, 8)
TERMS = (8, 0)
TESTS = 48


def rows_of(terms: int, seed: int) -> list[list[str]]:
    """One replication: a row per number of leaves."""
    checkpoint = checkpoint_of("eunomia")
    config = load_training(TRAINING, (f"seed={seed}",))
    sampler = ScenarioSampler(config)
    options = FitOptions(leaves=LEAVES[0], terms=terms, seed=seed, rounds=2)
    fitted = distil(checkpoint.weights, "rules", sampler, options, print)
    tests = sampler.training(TEST_GENERATION, TESTS)
    heuristic = checkpoint.facts["validation"]["heuristic"]
    found = []
    for leaves in LEAVES:
        rules = fitted.rules
        if leaves < LEAVES[0]:
            made = [
                fit_rules(fitted.rules, fitted.samples, leaves, priority) for priority in options.priorities
            ]
            rules = max(made, key=lambda r: closed_loop(r, sampler, options.objective).mean())
        values = closed_loop_values(checkpoint, rules, heuristic, tests, options.objective)
        teacher = interval((values["teacher"] - values["heuristic"]).tolist())
        ours = interval((values["rules"] - values["heuristic"]).tolist())
        alike = agreement(checkpoint.weights, rules, tests[:3], options)
        division = "/".join(str(rules.trees[part].leaves) for part in ("order", "place", "start"))
        found.append([
            str(terms), str(seed), str(leaves), division, f"{100 * values['heuristic'].mean():.2f}",
            f"{100 * teacher.mean:+.2f} +-{100 * teacher.half_width:.2f}",
            f"{100 * ours.mean:+.2f} +-{100 * ours.half_width:.2f}", f"{100 * ours.mean / teacher.mean:.0f} %",
            *(f"{value:.3f}" for value in alike.values()),
        ])  # fmt: skip
        print(" | ".join(found[-1]), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--terms", type=int, nargs="*", default=list(TERMS))
    options = parser.parse_args()
    rows = [row for terms in options.terms for seed in range(options.seeds) for row in rows_of(terms, seed)]
    head = ["terms", "seed", "most leaves", "order/place/start", "heuristic", "teacher - it", "rules - it", "share",
            "order, first", "order, tau", "place, first", "start"]  # fmt: skip
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    shares = {
        (int(t), int(n)): np.mean([float(row[7].split()[0]) for row in rows if (row[0], row[2]) == (t, n)])
        for t, n in {(row[0], row[2]) for row in rows}
    }
    means = [f"* {t} terms, {n} leaves: mean share of the gain {v:.0f} % over {options.seeds} seed(s)"
             for (t, n), v in sorted(shares.items(), reverse=True)]  # fmt: skip
    text = "\n".join([*lines, "", *means])
    print(text)
    if options.write:
        page = RESULTS.read_text()
        mark = "<!-- begin: python -m benchmarks.distill --write -->"
        new = re.sub(
            f"{mark}.*?<!-- end -->", lambda _: f"{mark}\n\n{text}\n\n<!-- end -->", page, flags=re.S
        )
        RESULTS.write_text(new)


if __name__ == "__main__":
    main()
