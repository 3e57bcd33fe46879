# ruff: noqa: E501, E731, B905, SIM105
"""Everything a user can name, at two checkouts: kept, renamed or removed.

::

    python tests/house/inventory.py take before.json --checkout ../before
    python tests/house/inventory.py take after.json --checkout .
    python tests/house/inventory.py compare before.json after.json > table.md    # exit status 1 if something is gone

A program runs at the checkout and answers with names by kind: of the package, its modules, the command line with its
flags, configuration keys, registries and entry points, policies, networks, traces, metrics, tables and columns of a
run, routes and RPCs of the server, its Prometheus metrics, pages and examples. A name that is gone but stands under the
same last part elsewhere counts as renamed; the table says to what.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

Names = dict[str, list[str]]

PROGRAM = Path(__file__).with_name("inventory_at_checkout.py")


def take(checkout: Path) -> Names:
    """The names that the program finds at ``checkout``."""
    done = subprocess.run(
        [sys.executable, "-P", str(PROGRAM), str(checkout)],
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: Names = json.loads(done.stdout)
    return found


def moved(gone: Sequence[str], new: Sequence[str]) -> dict[str, str]:
    """For names that are gone: the one new name with the same last part, where there is exactly one."""
    by_end: dict[str, list[str]] = {}
    for name in new:
        by_end.setdefault(_end(name), []).append(name)
    return {name: by_end[_end(name)][0] for name in gone if len(by_end.get(_end(name), ())) == 1}


def _end(name: str) -> str:
    return (
        name.replace("::", " ").replace("/", " ").replace(".", " ").split()[-1]
        if not name.endswith(".md")
        else name
    )


def table(before: Names, after: Names) -> tuple[str, int]:
    """A Markdown table of the counts, the lists of what moved and what is gone, and how many are gone."""
    lines = [
        "| kind | before | kept | renamed | removed | new | after |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    details, lost = [], 0
    for kind in dict.fromkeys([*before, *after]):
        first, second = before.get(kind, []), after.get(kind, [])
        gone = [name for name in first if name not in set(second)]
        new = [name for name in second if name not in set(first)]
        to = moved(gone, new)
        removed = [name for name in gone if name not in to]
        lost += len(removed)
        kept = len(first) - len(gone)
        fresh = len(new) - len(set(to.values()))
        lines.append(
            f"| {kind} | {len(first)} | {kept} | {len(to)} | {len(removed)} | {fresh} | {len(second)} |"
        )
        if to or removed:
            details += ["", f"**{kind}**", "", "| before | after |", "|---|---|"]
            details += [f"| `{name}` | {f'`{to[name]}`' if name in to else 'removed'} |" for name in gone]
    return "\n".join([*lines, *details]), lost


def main() -> int:
    """Read the arguments and act."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(required=True, dest="verb")
    taking = verbs.add_parser("take")
    taking.add_argument("out", type=Path)
    taking.add_argument("--checkout", type=Path, default=Path(__file__).resolve().parents[2])
    comparing = verbs.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.verb == "take":
        names = take(options.checkout.resolve())
        options.out.write_text(json.dumps(names, indent=1), encoding="utf-8")
        print("\n".join(f"{len(found):6} {kind}" for kind, found in names.items()))
        return 0
    read = (json.loads(path.read_text(encoding="utf-8")) for path in (options.before, options.after))
    text, lost = table(*read)
    print(text)
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
