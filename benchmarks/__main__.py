"""``python -m benchmarks NAME``: measure, store the tables in results/data, write the pages that show them.

``--list`` names all benchmarks; ``pages`` writes every page anew from the stored tables, ``pictures`` every picture.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Sequence
from dataclasses import replace

from benchmarks import page
from benchmarks.catalogue import BENCHMARKS, SETTINGS, about, find
from benchmarks.table import Options, Table


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", choices=[*BENCHMARKS, "pages", "pictures"], metavar="NAME")
    parser.add_argument("--list", action="store_true", help="name the benchmarks")
    parser.add_argument("--about", action="store_true", help="say what NAME measures, and its parts")
    parser.add_argument("--quick", action="store_true", help="seconds of work; prints, and writes nothing")
    parser.add_argument("--print", action="store_true", help="print, and write nothing")
    parser.add_argument("--seeds", type=int, help="seeds or trainings, instead of the benchmark's own number")
    parser.add_argument("--workers", type=int, default=2, help="processes at once, if there are several")
    parser.add_argument("--only", action="append", default=[], metavar="PART", help="this part; repeatable")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="see --about")
    asked = parser.parse_args(words)
    if asked.list or asked.name is None:
        width = max(map(len, BENCHMARKS))
        print("\n".join(f"{name:{width}}  {about(name)}" for name in BENCHMARKS))
    elif asked.about and asked.name in BENCHMARKS:
        print(inspect.getdoc(inspect.getmodule(find(asked.name))))
    elif asked.name == "pages":
        for text in sorted(page.TEXTS.glob("*.md")):
            print(page.write(text.stem))
    elif asked.name == "pictures":
        from benchmarks.pictures import draw

        draw()
    else:
        given, takes = dict(word.partition("=")[::2] for word in asked.set), SETTINGS.get(asked.name, [])
        for one in given:
            if one not in takes and "*" not in takes:
                parser.error(
                    f"--set {one}: {asked.name} has no such setting; it has {', '.join(takes) or 'none'}"
                )
        options = Options(asked.quick, asked.seeds, asked.workers, tuple(asked.only), given)
        run(asked.name, options, words, writes=not (asked.quick or asked.print))


def run(name: str, options: Options, words: Sequence[str], writes: bool) -> list[Table]:
    """Measure, print each table when it is there; store it and write its pages if it ``writes``."""
    source, found = page.measured(words), []
    for one in find(name)(options):
        print(f"\n{one.key}\n\n{one}", flush=True)
        found.append(replace(one, measured=source))
        if writes:
            page.store(name, found[-1:])
    for shown in page.pages_of(name) if writes else []:
        print(page.write(shown))
    if strange := set(options.only) - options.parts:
        sys.exit(
            f"--only {', '.join(sorted(strange))}: {name} has the parts {', '.join(sorted(options.parts))}"
        )
    faults = [note for one in found for note in one.notes if note.startswith("Not as promised")]
    if faults:
        sys.exit("\n".join(faults))
    return found


if __name__ == "__main__":
    main()
