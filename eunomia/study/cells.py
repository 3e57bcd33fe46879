"""A comparison as independent cells: one policy on one seed of one setting, run anywhere, once."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from eunomia.core.data import Data
from eunomia.core.errors import ConfigError
from eunomia.engines.processes import HERE, Cell, Outcome, map_cells
from eunomia.engines.store import content_key
from eunomia.study.batch import Batch
from eunomia.study.files import content_hash, file_stamps, program_hash
from eunomia.study.place import CELLS, make_room, whole
from eunomia.study.result import Configuration
from eunomia.study.wing import AnyWing, wing_of


@dataclass(frozen=True)
class Work:
    """What a worker needs to run one cell."""

    wing: str
    table: Data  # the configuration, as far as it decides the result
    policy: object  # a name, or an object of the wing's policies
    seed: int
    full: bool
    directory: str | None  # where the run is written; None = metrics only


def make_cell(
    wing: AnyWing, config: Configuration, policy: object, seed: int, full: bool, directory: Path | None, label: str = ""
) -> Cell:  # fmt: skip
    """The cell of one run; its key is the hash of all that decides the result."""
    table, name = wing.decisive(config), wing.policy_name(policy)
    place = str(directory / folder_name(name) / str(seed)) if directory else None
    work = Work(wing.name, table, policy, seed, full and (place is not None or wing.measures_all), place)
    identity = {
        "wing": wing.name,
        "config": table,
        "policy": policy if isinstance(policy, str) else f"object {name} {uuid.uuid4()}",  # never reused
        "seed": seed,
        "full": work.full,
        "directory": bool(place),
        "program": program_hash(),
        "policy_file": content_hash(policy.rpartition(":")[0]) if isinstance(policy, str) else None,
        "files": file_stamps(table),
    }
    return Cell(content_key(identity), f"{label}{name} seed {seed}", work)


def folder_name(policy: str) -> str:
    """A policy's name as a folder."""
    return "".join(letter if letter.isalnum() or letter in "+-_.=," else "-" for letter in policy)


def run_work(work: Work) -> Data:
    """Run a cell, write its records where asked, and return what a comparison keeps of it."""
    wing = wing_of(work.wing)
    result = wing.run(wing.checked(work.table), work.policy, work.seed, work.full)
    if work.directory is not None:
        result.write(work.directory, overwrite=True)
    return result.answer()


def run_cells(cells: list[Cell], batch: Batch) -> list[Outcome]:
    """All cells, on several processes where their policies can travel; finished ones are found again."""
    travels = (batch.workers == 1 and batch.on == HERE) or _can_travel(cell.payload for cell in cells)
    store = batch.root / CELLS if batch.root else None
    if not travels and batch.on != HERE:
        raise ConfigError(
            "a policy of these is an object that cannot be pickled; name it FILE.py:NAME to run it on Ray"
        )
    return map_cells(
        _unless_lost(cells, store), run_work, batch.workers if travels else 1, batch.on_done, store, batch.on
    )


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
