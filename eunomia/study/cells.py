"""A comparison as independent cells: one policy on one seed of one setting, run anywhere, once."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eunomia.config import Scenario, as_table, scenario_from
from eunomia.engines.processes import Cell, Outcome, map_cells
from eunomia.engines.store import content_key
from eunomia.inference.options import Record
from eunomia.study.files import content_hash, file_stamps, program_hash
from eunomia.study.inference.policy import PolicyLike, policy_name
from eunomia.study.place import CELLS, make_room, whole
from eunomia.study.run import run_cell


@dataclass(frozen=True)
class Work:
    """What a worker needs to run one cell."""

    scenario: dict[str, Any]
    policy: PolicyLike
    seed: int
    directory: str | None  # where the run is written; None = metrics only
    record: Record


def make_cell(
    scenario: Scenario, policy: PolicyLike, seed: int, directory: Path | None, record: Record, label: str = ""
) -> Cell:
    """The cell of one run; its key is the hash of all that decides the result."""
    table = {
        key: value for key, value in as_table(scenario).items() if key not in ("compare", "sweep", "policy")
    }
    name = policy_name(policy)
    place = str(directory / folder_name(name) / str(seed)) if directory else None
    identity = {
        "scenario": table,
        "policy": policy if isinstance(policy, str) else f"object {name} {uuid.uuid4()}",  # never reused
        "seed": seed,
        "record": record,
        "directory": bool(place),
        "program": program_hash(),
        "policy_file": content_hash(policy.rpartition(":")[0]) if isinstance(policy, str) else None,
        "files": file_stamps(table),
    }
    work = Work(table, policy, seed, place, record)
    return Cell(content_key(identity), f"{label}{name} seed {seed}", work)


def folder_name(policy: str) -> str:
    """A policy's name as a folder."""
    return "".join(letter if letter.isalnum() or letter in "+-_.=," else "-" for letter in policy)


def run_work(work: Work) -> dict[str, Any]:
    """Run a cell, write its records where asked, and return its metrics."""
    result = run_cell(scenario_from(work.scenario), work.policy, work.seed, work.record)
    if work.directory is not None:
        result.write(work.directory, overwrite=True)
    return {"metrics": result.metrics, "tenants": result.tenants, "pairs": result.pairs,
            "replayed_alike": result.records.manifest["replayed_alike"]}  # fmt: skip


def run_cells(
    cells: list[Cell],
    workers: int,
    on_done: Callable[[Outcome], None] | None,
    directory: Path | None,
) -> list[Outcome]:
    """All cells, on several processes where their policies can travel; finished ones are found again."""
    if workers > 1 and not _can_travel(cell.payload for cell in cells):
        workers = 1
    store = directory / CELLS if directory else None
    return map_cells(_unless_lost(cells, store), run_work, workers, on_done, store)


def _can_travel(payloads: Iterable[Work]) -> bool:
    """Whether every policy object can be pickled; a lambda cannot, and runs in this process."""
    try:
        pickle.dumps([work.policy for work in payloads])
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


def _unless_lost(cells: list[Cell], store: Path | None) -> list[Cell]:
    """Forget finished cells whose records have been deleted or damaged, so that they run again."""
    for cell in cells:
        place = cell.payload.directory
        if store is not None and place is not None and not whole(Path(place)):
            (store / f"{cell.key}.json").unlink(missing_ok=True)
            make_room(Path(place))
    return cells
