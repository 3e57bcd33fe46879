"""Which trainer learns most: ``python -m benchmarks.learned_trainers [--write] [--workers N]``.

CMA-ES alone (``general.toml``), expert iteration from lookahead alone (``expert.toml``), the same with the worth of
holding learned, too (``expert_hold.toml``), and expert iteration as the start of CMA-ES (``taught.toml``): the same
networks, loads, ways of sharing and seeds 0 to 4. Gains over the best rule are those on the validation episodes of each
training, from its card, and on the test traces of ``benchmarks.learned``, against its rules. Trainings
that are missing under ``runs`` are run first; finished parts are found again.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.learned import PLACES, SEEDS, TESTS, choose_rivals, learned, measure, trained
from benchmarks.learned_page import RESULTS, percent
from eunomia.learning.checkpoint import read_card
from eunomia.metrics.statistics import interval

BEGIN, END = "<!-- begin: python -m benchmarks.learned_trainers --write -->", "<!-- end of trainers -->"
FILES = {"CMA-ES": "general", "expert iteration": "expert", "expert iteration, holding too": "expert_hold",
         "expert iteration, then CMA-ES": "taught"}  # fmt: skip


def line(name: str, file: str, rule: dict[object, float], workers: int) -> str:
    """One row: means over seeds with their 95 % intervals over seeds."""
    validation, test, cpu_s, kept = [], [], [], 0
    for seed in SEEDS:
        card = trained(file, seed, workers)
        facts = read_card(card)
        validation.append(facts["validation"]["gain"])
        kept += facts["validation"]["kept_heuristic"]
        cpu_s.append(facts["cpu_s"])
        cells = learned(card, PLACES, workers)
        test.append(
            float(np.mean([cell["rate"] for p in PLACES for cell in cells[p]]) - np.mean(list(rule.values())))
        )
    return (
        f"| {name} | {percent(interval(validation))} | {kept} of {len(SEEDS)} | {percent(interval(test))} | "
        f"{np.mean(cpu_s):.0f} |"
    )


def text_of(workers: int) -> str:
    """The table."""
    chosen = choose_rivals(PLACES, workers)
    rules = measure("rates", PLACES, range(TESTS), {p: (r.rule, r.bare) for p, r in chosen.items()}, workers)
    rule: dict[object, float] = {
        p: float(np.mean([cell["rates"][chosen[p].rule] for cell in rules[p]])) for p in PLACES
    }
    head = (
        "| trainer | gain on validation, points | heuristic kept | gain on test, points | processor s |\n"
        "| --- | ---: | ---: | ---: | ---: |"
    )
    rows = [line(name, file, rule, workers) for name, file in FILES.items()]
    return "\n".join([head, *rows, "", f"{len(SEEDS)} seeds each; 95 % intervals over seeds.", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    text = text_of(asked.workers)
    print(text)
    if asked.write:
        page = RESULTS.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        RESULTS.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
