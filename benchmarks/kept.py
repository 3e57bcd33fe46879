"""Cells of long measurements on disk: a command that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

from eunomia.engines.processes import Cell, Outcome, Result, map_cells
from eunomia.engines.store import CellStore, content_key
from eunomia.study.files import program_hash

Payload = TypeVar("Payload")
FOLDER = Path("runs") / "benchmarks"
WINGS = {  # packages that play no part in the results of a wing
    "inference": ("cli", "cluster", "data", "report", "serving"),
    "serving": ("cli", "cluster", "data", "report"),
    "cluster": ("cli", "data", "inference", "learning", "report", "serving"),
}


@cache
def _source(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def key_of(study: str, what: object, function: Callable[..., object], wing: str = "inference") -> str:
    """Changes with the program, with the benchmark's own file, and with what is asked."""
    source = _source(inspect.getfile(getattr(function, "func", function)))
    return content_key([study, what, source, program_hash(WINGS[wing])])


def kept(
    study: str,
    what: Mapping[str, object],
    compute: Callable[[], Result],
    wing: str = "cluster",
    again: bool = False,
) -> Result:
    """What was computed for ``what`` (anything JSON can say) by the present program, or is computed now (``again``)."""
    store, key = CellStore(FOLDER / study), key_of(study, what, compute, wing)
    found = None if again else store.read(key)
    if found is None:
        found = compute()
        store.write(key, str(what), found)
    return found


def kept_all(
    study: str,
    function: Callable[[Payload], Result],
    payloads: Sequence[Payload],
    workers: int = 1,
    wing: str = "inference",
) -> list[Result]:
    """``function`` of every payload, in order, on several processes; finished ones are found again.

    A payload's ``repr`` must tell it from all others. Ends with a sentence if one failed.
    """
    cells = [Cell(key_of(study, repr(one), function, wing), repr(one)[:100], one) for one in payloads]

    def tell(outcome: Outcome) -> None:
        if not outcome.reused:
            print(outcome.cell.name, outcome.failure or "done", flush=True)

    found = map_cells(cells, function, workers, tell, FOLDER / study)
    for outcome in found:
        if outcome.result is None:
            raise SystemExit(f"{outcome.cell.name}: {outcome.failure}")
    return [outcome.result or {} for outcome in found]
