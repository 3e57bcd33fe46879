"""Evolved rules on fresh traces, with their formulas: over the best known rule, beside `eunomia(rehearse=0)`."""

from collections.abc import Iterator

from benchmarks.inference.contest import FILES
from benchmarks.kept import kept_all
from benchmarks.table import Options, Table, table
from eunomia.study.learning.evolving import COLUMNS, examined, row_of


def measure(options: Options) -> Iterator[Table]:
    """A row and a formula per seed."""
    tasks = [(str(FILES / "sharing.toml"), seed, options.quick) for seed in options.seeds_or(1)]
    found = kept_all("evolve", examined, tasks, options.workers)
    rules = [f"Seed {one['seed']}:\n\n```\n{one['rule']}```" for one in found]
    yield table("seeds", COLUMNS, map(row_of, found), rules)
