"""``python -m benchmarks.cluster_peers [study ...] [--write]``; data as for the tests ($EUNOMIA_SHARED)."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from benchmarks.cluster_peers import report

STUDIES = (
    "themis",
    "lies",
    "errors",
    "htas",
    "osdec",
    "colocation",
    "learned",
    "elastic",
    "early",
    "strawman",
)


def main() -> None:
    """Run the named studies, all by default; print them, or write them into the page of results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster_peers")
    parser.add_argument("studies", nargs="*", choices=[*STUDIES, []], default=[])
    parser.add_argument(
        "--write", action="store_true", help="replace these parts of results/cluster_peers.md"
    )
    given = parser.parse_args()
    for name in given.studies or STUDIES:
        text = _study(name)
        print(text)
        if given.write:
            report.write({name: text})


def _study(name: str) -> str:
    root = Path(os.environ.get("EUNOMIA_SHARED", Path(__file__).resolve().parents[3] / "shared"))
    measured = root / "data" / "gavel" / "simulation_throughputs.json"
    if name == "themis":
        from benchmarks.cluster_peers.themis import study

        return study(measured)
    if name == "lies":
        from benchmarks.cluster_peers.themis import lies

        return lies(measured)
    if name == "errors":
        from benchmarks.cluster_peers.themis import errors

        return errors(measured)
    if name == "learned":
        from benchmarks.cluster_peers.learned import study as learned

        return learned(root / "data" / "traces" / "philly_reduced.csv", measured)
    if name == "elastic":
        from benchmarks.cluster_peers.elastic import study as elastic

        return elastic(measured)
    if name == "strawman":
        from benchmarks.cluster_peers.strawman import study as strawman

        return strawman(measured)
    if name == "early":
        from benchmarks.cluster_peers.early import study as early

        return early(measured)
    if name == "colocation":
        from benchmarks.cluster_peers.colocation import study as colocation

        return colocation(measured)
    if name == "htas":
        from benchmarks.cluster_peers.htas import study as htas

        return htas()
    from benchmarks.cluster_peers.osdec import study as osdec

    return osdec()


if __name__ == "__main__":
    main()
