"""The gain that rules keep, against their leaves: ``python -m benchmarks.distill [--write] [--seeds N] [--terms N]``.

The shipped policy `eunomia` is distilled on its own training scenarios (other traces than it was trained on). For each
replication, rules are found once with most leaves, and grown again on the same data with fewer; the division of the
leaves is chosen in closed loop on validation traces. Test traces are seen once, by the chosen rules. Finished
replications are kept under ``runs/benchmark-distill``, by the hash of the card, and found again.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.config.training import load_training
from eunomia.learning.distill.fitting.fidelity import agreement
from eunomia.learning.distill.fitting.fit import FitOptions, Fitted, closed_loop, distil, fit_rules
from eunomia.learning.distill.policy import RulePolicy
from eunomia.learning.distill.rules import RuleSet
from eunomia.learning.load import card_of, checkpoint_of
from eunomia.learning.objectives import value
from eunomia.metrics.statistics import interval
from eunomia.study.learning.distilling import TEST_GENERATION, closed_loop_values
from eunomia.study.learning.training import ScenarioSampler

RESULTS = Path(__file__).parent.parent / "results" / "distill.md"
MARK = "<!-- begin: python -m benchmarks.distill --write -->"
TRAINING = Path(__file__).parent / "learned_data" / "general.toml"
STORE = Path("runs/benchmark-distill")
LEAVES = (64, 32, 16)
TERMS = (8,)
REQUESTS, VALIDATIONS, TESTS = 200, 18, 36
HEAD = ("terms", "seed", "most leaves", "order/place/start", "heuristic", "teacher - it", "rules - it", "share",
        "order, first", "order, tau", "place, first", "start")  # fmt: skip


def kept(terms: int, seed: int, card: str) -> list[dict[str, Any]]:
    """One replication, from disk if it is there."""
    path = STORE / f"{card[:12]}-{terms}-{seed}.json"
    if path.is_file():
        return list(json.loads(path.read_text()))
    found = replication(terms, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found))
    return found


def replication(terms: int, seed: int) -> list[dict[str, Any]]:
    """Distil once; for each number of leaves, what became of it."""
    checkpoint = checkpoint_of("eunomia")
    changes = (f"seed={seed}", f"validation={VALIDATIONS}", f"requests={REQUESTS}")
    sampler = ScenarioSampler(load_training(TRAINING, changes))
    options = FitOptions(leaves=LEAVES[0], terms=terms, seed=seed, rounds=2, share=0.02)
    fitted = distil(checkpoint.weights, "rules", sampler, options, print)
    tests = sampler.training(TEST_GENERATION, TESTS)
    heuristic = checkpoint.facts["validation"]["heuristic"]
    values = closed_loop_values(checkpoint, fitted.rules, heuristic, tests, options.objective)
    rows = []
    for leaves in LEAVES:
        rules = fitted.rules if leaves == LEAVES[0] else fewer(fitted, leaves, sampler, options)
        if leaves < LEAVES[0]:
            policy = RulePolicy(rules, alarm=np.inf)
            values["rules"] = np.array([value(policy, episode, options.objective) for episode in tests])
        division = "/".join(str(rules.trees[part].leaves) for part in ("order", "place", "start"))
        rows.append({
            "terms": terms, "seed": seed, "leaves": leaves, "division": division,
            "agreement": list(agreement(checkpoint.weights, rules, tests[:1], options).values()),
            **{name: values[name].tolist() for name in ("heuristic", "teacher", "rules")},
        })  # fmt: skip
        print(line(rows[-1]), flush=True)
    return rows


def fewer(fitted: Fitted, leaves: int, sampler: ScenarioSampler, options: FitOptions) -> RuleSet:
    """Trees of fewer leaves on the same data; closed-loop validation chooses their division."""
    made = [fit_rules(fitted.rules, fitted.samples, leaves, priority) for priority in options.priorities]
    return max(made, key=lambda rules: float(closed_loop(rules, sampler, options.objective).mean()))


def gains(row: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Teacher's and rules' gain over the heuristic on every test trace."""
    over = np.array(row["heuristic"])
    return (np.array(row["teacher"]) - over).tolist(), (np.array(row["rules"]) - over).tolist()


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    teacher, rules = (interval(each) for each in gains(row))
    cells = [
        str(row["terms"]), str(row["seed"]), str(row["leaves"]), row["division"],
        f"{100 * np.mean(row['heuristic']):.2f}", f"{100 * teacher.mean:+.2f} +-{100 * teacher.half_width:.2f}",
        f"{100 * rules.mean:+.2f} +-{100 * rules.half_width:.2f}", f"{100 * rules.mean / teacher.mean:.0f} %",
        *(f"{part:.3f}" for part in row["agreement"]),
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def curve(rows: list[dict[str, Any]]) -> list[str]:
    """Lines of the share of the gain against leaves: of the mean gains of all seeds, and its interval over seeds."""
    lines = [
        "| terms | most leaves | share of the gain kept | by seed, mean and 95 % | seeds |",
        "|" + "---|" * 5,
    ]
    for terms, leaves in dict.fromkeys((row["terms"], row["leaves"]) for row in rows):
        each = [gains(row) for row in rows if (row["terms"], row["leaves"]) == (terms, leaves)]
        shares = interval([float(np.mean(rules) / np.mean(teacher)) for teacher, rules in each])
        whole = np.mean([rules for _, rules in each]) / np.mean([teacher for teacher, _ in each])
        half = f" +-{100 * shares.half_width:.0f}" if shares.has_interval else ""
        lines.append(
            f"| {terms} | {leaves} | **{100 * whole:.0f} %** | {100 * shares.mean:.0f}{half} % | {len(each)} |"
        )
    return lines


def main() -> None:
    """Distil, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--terms", type=int, nargs="*", default=list(TERMS))
    options = parser.parse_args()
    card = card_of("eunomia")
    rows = [
        row
        for terms in options.terms
        for seed in range(options.seeds)
        for row in kept(terms, seed, card["card_sha256"])
    ]
    about = (
        f"Teacher: `eunomia`, card {card['card_sha256'][:12]}; heuristic: "
        f"`{card['validation']['heuristic']}`, the best on the teacher's validation traces. Rules are chosen on "
        f"{VALIDATIONS} validation traces and tested on {TESTS}, of {REQUESTS} requests each; {options.seeds} seeds."
    )
    table = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD), *(line(row) for row in rows)]
    text = "\n".join([about, "", *curve(rows), "", *table])
    print(text)
    if options.write:
        page = RESULTS.read_text()
        RESULTS.write_text(
            re.sub(f"{MARK}.*?<!-- end -->", lambda _: f"{MARK}\n\n{text}\n\n<!-- end -->", page, flags=re.S)
        )


if __name__ == "__main__":
    main()
