"""Is gold served while bronze attacks?

One server with its defaults; gold sends a small picture every 40 ms, with 50 ms to answer. Bronze, from another
address, does one thing of ``tests/hostile`` for some seconds at a time. Counted: gold's
answers inside the deadline just before and meanwhile, its worst, how long until eight in a row are inside again, what
bronze was told, how far the front end's memory grew meanwhile, and by ``eunomia_loop_held_seconds`` how long a turn of
its event loop took of its thread's processor: not above the edge that is named.
Those over TLS have a server with a certificate. ``--only NAME``: some attacks; ``--set seconds=S``.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import shorten

from benchmarks.serving.bench import Bench
from benchmarks.serving.machine import cores
from benchmarks.table import Cell, Options, Table
from tests.hostile import ATTACKS, TLS
from tests.hostile.field import Seen, opened

KEPT, RECOVERED_S, HELD_S = 0.99, 2.0, 5e-3
MIB, JUDGED = 2**20, -4
COLUMNS = (
    "bronze; was told; gold inside 50 ms, before|.1%; meanwhile|.1%; worst, ms|.0f; "
    "recovery, s|.2f; memory while, MiB|+.0f; after, MiB|+.0f; kept; longest turn at most, ms|.1f; turns; above 5 ms"
)


def row(what: str, before: Seen, seen: Seen) -> list[Cell]:
    """One attack; not judged where gold was late before it began."""
    kept = seen.share >= KEPT and seen.recovery_s <= RECOVERED_S
    growth, left = seen.growth_bytes / MIB, seen.left_bytes / MIB
    judged = kept if kept or before.share >= KEPT else None
    worst_ms = seen.worst_s * 1e3
    turns: list[Cell] = [seen.held_s * 1e3, sum(seen.turns.values()), seen.above(HELD_S)]
    gold: list[Cell] = [before.share, seen.share, worst_ms, seen.recovery_s]
    return [what, said(seen), *gold, growth, left, judged, *turns]


def said(seen: Seen) -> str:
    """The commonest answers with their numbers, and the first sentence."""
    if not seen.told:
        return ""
    told, words = seen.told[0]["told"], seen.told[0]["words"]
    often = sorted(told, key=told.__getitem__, reverse=True)[:3]
    sentence = next((words[status] for status in often if status in words), "")
    return ", ".join(f"{status} x {told[status]}" for status in often) + (
        f": {shorten(sentence, 90)}" if sentence else ""
    )


def measure(options: Options) -> Iterator[Table]:
    """A table for each server, and in it a row for each attack; the quick run takes half a second for each."""
    bench = Bench("hostile", options)
    seconds = float(options.given.get("seconds", 0.5 if options.quick else 3.0))
    for key, table, secure in (("all", ATTACKS, False), ("tls", TLS, True)):
        if not (names := options.chosen(table)):
            continue
        with opened(cores=[cores().device], secure=secure) as field:
            field.quiet(1.0)
            rows = [row("nothing", field.quiet(seconds), field.quiet(seconds))]
            for name in names:
                before = field.quiet(seconds)
                rows.append(row(table[name].what, before, field.attacked([name], seconds)))
                print(name, *rows[-1], sep=" | ", flush=True)
                bench.look()
        kept, lost = (sum(line[JUDGED] is what for line in rows[1:]) for what in (True, False))
        long = sum(line[-1] != 0 for line in rows[1:])
        notes = [
            f"Of {len(rows) - 1} attacks gold kept its deadline in {kept} and lost it in {lost}, in windows of "
            f"{seconds:g} s. Both are times, so that a busy machine loses more.",
            f"In {long} of them a turn of the event loop took more than 5 ms of its thread's processor.",
        ]
        yield bench.table(key, COLUMNS, rows, notes)
