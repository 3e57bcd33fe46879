"""Digest every table of the same runs at two checkouts, and list every difference.

::

    python -m tests.same_science take before.json --checkout ../before
    python -m tests.same_science take after.json --checkout .
    python -m tests.same_science compare before.json after.json      # exit status 1 if anything differs

Parts: ``random`` (200 scenarios from a fixed seed), ``demo``, ``cluster`` (every policy, random settings, worlds of
their own), ``parity`` (Gavel's scenes; needs the shared data) and ``study`` (studies/relmas_small.toml). The runs go
through the command line and scenario files alone, so they outlive any change of the modules behind them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.same_science import at_checkout, clusters, scenarios
from tests.same_science.at_checkout import Command
from tests.same_science.compare import differences
from tests.same_science.digest import Digests, of_folder, of_values
from tests.same_science.toml_text import toml

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("EUNOMIA_SHARED", ROOT.parent / "shared"))


def random_commands(work: Path, checkout: Path) -> list[Command]:
    """The 200 random scenarios."""
    (work / "trace.csv").write_text(scenarios.trace_csv(), encoding="utf-8")
    found = []
    for case in scenarios.cases():
        file, folder = work / f"{case.name}.toml", work / case.name
        file.write_text(toml(case.scenario), encoding="utf-8")
        arguments = (
            "run",
            str(file),
            "--policy",
            case.policy,
            "--seed",
            str(case.seed),
            "--out",
            str(folder),
            "--quiet",
        )
        found.append(Command(case.name, arguments, str(folder)))
    return found


def demo_commands(work: Path, checkout: Path) -> list[Command]:
    """The built-in scenario with all its policies and seeds."""
    return [
        Command(
            "demo", ("demo", "--quiet", "--workers", "1", "--out", str(work / "demo")), str(work / "demo")
        )
    ]


def study_commands(work: Path, checkout: Path) -> list[Command]:
    """The protocol of the published baselines on a small grid."""
    file, folder = checkout / "studies" / "relmas_small.toml", work / "study"
    return [Command("study", ("study", str(file), "--quiet", "--out", str(folder)), str(folder))]


def parity_commands(work: Path, checkout: Path) -> list[Command]:
    """Gavel's scenes by Gavel's rules."""
    return _clusters(work, clusters.parity(SHARED / "data" / "gavel"))


def cluster_commands(work: Path, checkout: Path) -> list[Command]:
    """Every policy, random settings, and the experiments that are shipped as examples."""
    examples = checkout / "examples"
    asked = {
        "pool": ("cluster", "pool", str(examples / "cluster_pool.toml"), "--seeds", "2", "--json"),
        "deferrable": (
            "cluster",
            "deferrable",
            str(examples / "cluster_deferrable.toml"),
            "--seeds",
            "2",
            "--json",
        ),
    }
    folder = work / "searches"
    search = (
        "cluster",
        "compare",
        str(examples / "cluster_search.toml"),
        "--quiet",
        "--workers",
        "1",
        "--out",
        str(folder),
    )
    return [
        *_clusters(work, clusters.small(SHARED / "data" / "gavel")),
        *(Command(name, arguments) for name, arguments in asked.items()),
        Command("searches", search, str(folder)),
    ]


def _clusters(work: Path, cases: Sequence[clusters.Case]) -> list[Command]:
    found = []
    for case in cases:
        place = hashlib.sha256(case.name.encode()).hexdigest()[:12]
        file, folder = work / f"{place}.toml", work / place
        file.write_text(toml(case.experiment), encoding="utf-8")
        arguments = ("cluster", "simulate", str(file), "--policy", case.policy, "--seed", str(case.seed),
                     "--out", str(folder), "--quiet")  # fmt: skip
        found.append(Command(case.name, arguments, str(folder)))
    return found


PARTS: dict[str, Callable[[Path, Path], list[Command]]] = {
    "random": random_commands,
    "demo": demo_commands,
    "cluster": cluster_commands,
    "parity": parity_commands,
    "study": study_commands,
}


def take(options: argparse.Namespace) -> int:
    """Run and digest; exit status 1 if a command failed."""
    work = Path(tempfile.mkdtemp(prefix="same-science-")) if options.work is None else Path(options.work)
    shutil.rmtree(work, ignore_errors=True)
    runs: dict[str, Digests] = {}
    times: dict[str, float] = {}
    failed: dict[str, str] = {}
    for part in options.part or PARTS:
        (work / part).mkdir(parents=True)
        commands, start_s = PARTS[part](work / part, options.checkout), time.perf_counter()
        only = [command for command in commands if options.only in command.name]
        for command, answer in zip(
            only, at_checkout.run(options.checkout, only, options.workers, SHARED), strict=True
        ):
            name = f"{part}/{answer.name}"
            times[name] = answer.s
            if answer.status != 0:
                failed[name] = f"status {answer.status}: {answer.err}"
            elif command.folder is None:
                runs[name] = {"answer": of_values(json.loads(answer.out))}
            else:
                runs[name] = of_folder(Path(command.folder))
        times[part] = round(time.perf_counter() - start_s, 1)
    if options.work is None:
        shutil.rmtree(work)
    document = {"runs": runs, "failed": failed, "times_s": times}
    Path(options.out).write_text(json.dumps(document, indent=1), encoding="utf-8")
    tables = sum(len(each) for each in runs.values())
    print(f"{len(runs)} runs, {tables} tables, {len(failed)} failed -> {options.out}")
    for name, why in failed.items():
        print(f"failed: {name}: {why}")
    return int(bool(failed))


def compare(options: argparse.Namespace) -> int:
    """Print the differences; exit status 1 if there is one."""
    before, after = (
        json.loads(Path(path).read_text(encoding="utf-8")) for path in (options.before, options.after)
    )
    found = differences(before, after)
    print(
        "\n".join(found)
        or f"equal: {len(before['runs'])} runs, {sum(map(len, before['runs'].values()))} tables"
    )
    return int(bool(found))


def main() -> int:
    """Read the arguments and act."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(required=True)
    taking = verbs.add_parser("take", help="run and digest")
    taking.add_argument("out")
    taking.add_argument("--checkout", type=lambda text: Path(text).resolve(), default=ROOT)
    taking.add_argument("--part", action="append", choices=list(PARTS), help="repeatable; default: all")
    taking.add_argument("--only", default="", help="runs whose name contains this")
    taking.add_argument("--workers", type=int, default=1)
    taking.add_argument("--work", help="folder for the runs, kept; default: a temporary one")
    taking.set_defaults(act=take)
    comparing = verbs.add_parser("compare", help="list every difference")
    comparing.add_argument("before")
    comparing.add_argument("after")
    comparing.set_defaults(act=compare)
    options = parser.parse_args()
    status: int = options.act(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
