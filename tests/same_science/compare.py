"""What differs between two sets of digests, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

from tests.same_science.digest import Digests


class Taken(TypedDict):
    """What ``take`` writes."""

    runs: dict[str, Digests]
    failed: dict[str, str]
    times_s: dict[str, float]


def differences(before: Taken, after: Taken) -> list[str]:
    """Every run, table and column that is not the same on both sides."""
    found = []
    for name in dict.fromkeys([*before["runs"], *after["runs"]]):
        first, second = before["runs"].get(name), after["runs"].get(name)
        if first is None or second is None:
            side, other = ("before", before) if first is None else ("after", after)
            found.append(
                f"{name}: no run {side} ({other['failed'].get(name, 'it was not asked for').strip()})"
            )
            continue
        found += [f"{name}: {what}" for what in _tables(first, second)]
    return found


def _tables(before: Digests, after: Digests) -> Iterator[str]:
    moved = _renamed({t: repr(c) for t, c in before.items()}, {t: repr(c) for t, c in after.items()})
    for table in before:
        if table in moved:
            yield f"table {table} is called {moved[table]}, equal otherwise"
        elif table not in after:
            yield f"table {table} is gone"
        else:
            yield from (f"{table}: {what}" for what in _columns(before[table], after[table]))
    yield from (f"table {t} is new" for t in after if t not in before and t not in moved.values())


def _columns(before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    moved = _renamed(before, after)
    for column, digest in before.items():
        if column in moved:
            yield f"column {column} is called {moved[column]}, equal otherwise"
        elif column not in after:
            yield f"column {column} is gone"
        elif after[column] != digest:
            yield f"column {column} has other values ({digest} -> {after[column]})"
    yield from (f"column {c} is new" for c in after if c not in before and c not in moved.values())
    kept = [column for column in before if column in after]
    if kept != [column for column in after if column in before]:
        yield "the order of the columns is another"


def _renamed(before: dict[str, str], after: dict[str, str]) -> dict[str, str]:
    """Names that are gone, with the new name of what is equal to them."""
    free = [name for name in after if name not in before]
    found = {}
    for name, digest in before.items():
        if name not in after and (same := next((new for new in free if after[new] == digest), None)):
            free.remove(same)
            found[name] = same
    return found
